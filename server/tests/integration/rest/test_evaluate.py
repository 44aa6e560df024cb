"""The dry run: it says what a submit would say, and leaves nothing behind."""

from typing import Any

import httpx
import pytest

from openbell.receipts.comparisons import flaws_of_body
from openbell_server.adapters.postgres.connection import Pool
from openbell_server.domain.access.accounts import TRADING_LIVE
from openbell_server.domain.controls.findings import Scope
from support.builders.tenant import Tenant, a_limit_create, a_tenant, accept, new_id
from support.rest.openapi_conformance import Conformance
from support.rest.rest_api import (
    RestApi,
    cancel_body,
    control_path,
    create_body,
    pointers,
    problem,
    replace_body,
    rest_api,
)
from support.tenancy.populated_tenant import PopulatedTenant, rows_of
from support.tenancy.statements import Owner

Json = dict[str, Any]


async def evaluate(api: RestApi, tenant: Tenant, body: Json, **more: Any) -> httpx.Response:
    sent = {"account_id": str(tenant.account.id), **body, **more}
    return await api.client.post("/v1/controls/evaluate", json=sent, headers={"x-api-key": tenant.key})


async def set_rule(api: RestApi, tenant: Tenant, code: str, scope: Scope = Scope.ACCOUNT, **parameters: Any) -> None:
    mode = parameters.pop("mode", "HARD")
    answer = await api.client.put(
        control_path(f"rules/{code}", tenant, scope),
        json={"mode": mode, "parameters": parameters, "reason": "a test"},
        headers={"x-api-key": tenant.key},
    )
    assert answer.status_code == 200, answer.text


async def test_without_rules_everything_passes(api: RestApi, tenant: Tenant) -> None:
    answer = await evaluate(api, tenant, create_body())
    assert answer.status_code == 200
    assert set(answer.json()) == {"verdict", "receipt"}
    receipt = answer.json()["receipt"]
    assert (answer.json()["verdict"], receipt["verdict"], receipt["rules"]) == ("PASSED", "PASSED", [])
    assert receipt["command"]["symbol"] == "AAPL"


RULES: list[tuple[str, Json]] = [
    ("RESTRICTED", {"list": "DENY", "symbols": ["MSFT"]}),
    ("SIDE_NOT_ALLOWED", {"sides": ["BUY", "SELL"]}),
    ("QTY_MAX", {"quantity": "11"}),
    ("QTY_MIN", {"quantity": "2"}),
    ("LOT", {"lot": "5"}),
    ("DUPLICATE", {"window_millis": 60_000}),
    ("RATE_ORDERS", {"count": 2, "window_millis": 3_600_000}),
    ("OPEN_ORDERS_MAX", {"count": 3}),
    ("POSITION_MAX", {"quantity": "100", "mode": "SHADOW"}),
]


@pytest.mark.parametrize("rules", [RULES[:5], RULES], ids=["stateless", "counted"])
async def test_the_dry_run_has_the_lines_that_the_submit_after_it_has(
    api: RestApi, tenant: Tenant, rules: list[tuple[str, Json]]
) -> None:
    for code, parameters in rules:
        await set_rule(api, tenant, code, **parameters)
    verdicts = []
    bodies = [
        create_body(),
        create_body(),
        create_body(quantity="12"),
        create_body("Limit", quantity="5", price="10"),
        create_body(symbol="MSFT", quantity="7"),
        create_body(quantity="10"),
    ]
    for body in bodies:
        dry = (await evaluate(api, tenant, body)).json()
        submitted = await api.submit(tenant, body)
        if submitted.status_code == 202:
            path = f"/v1/accounts/{tenant.account.id}/receipts/{submitted.json()['receipt_id']}"
            real = (await api.client.get(path, headers={"x-api-key": tenant.key})).json()["receipt"]
        else:
            real = submitted.json()["receipt"]
            real.pop("id")
        verdicts.append(dry["verdict"])
        assert list(flaws_of_body(real)) == []
        dry["receipt"].pop("evaluated_at")
        real.pop("evaluated_at")
        assert dry["receipt"] == real
    assert {"PASSED", "REFUSED"} <= set(verdicts)


async def test_a_dry_run_counts_for_no_rate_and_is_no_duplicate(api: RestApi, tenant: Tenant) -> None:
    await set_rule(api, tenant, "RATE_ORDERS", count=1, window_millis=3_600_000)
    await set_rule(api, tenant, "DUPLICATE", window_millis=60_000)
    for _ in range(3):
        assert (await evaluate(api, tenant, create_body())).json()["verdict"] == "PASSED"
    assert (await api.submit(tenant, create_body())).status_code == 202
    after = (await evaluate(api, tenant, create_body(), allow_duplicate=True)).json()["receipt"]["rules"]
    assert [(line["code"], line["verdict"]) for line in after] == [("RATE_ORDERS", "REFUSED")]


async def test_nothing_is_written_whatever_is_tried(owner: Owner, pool: Pool, us: PopulatedTenant) -> None:
    async with rest_api(pool) as api:
        for code, parameters in RULES:
            await set_rule(api, us.tenant, code, **parameters)
        before = await rows_of(owner, us)
        intent = us.waiting
        for body in (create_body(), create_body(quantity="500"), replace_body(intent, "Market"), cancel_body(intent)):
            assert (await evaluate(api, us.tenant, body)).status_code == 200
    after = await rows_of(owner, us)
    # Who asks about a symbol keeps what is known of it fresh.
    before.pop("wanted_symbols"), after.pop("wanted_symbols")
    assert after == before


async def test_what_the_broker_lacks_is_a_line_of_the_receipt(api: RestApi, pool: Pool) -> None:
    tenant = await a_tenant(pool, broker="tradier")
    await set_rule(api, tenant, "QTY_MAX", quantity="0.1")
    answer = (await evaluate(api, tenant, create_body(quantity="0.5"))).json()
    assert [(line["code"], line["verdict"]) for line in answer["receipt"]["rules"]] == [
        ("CAPABILITY", "REFUSED"),
        ("QTY_MAX", "REFUSED"),
    ]
    assert answer["verdict"] == "REFUSED"
    assert list(flaws_of_body(answer["receipt"])) == []


async def test_a_cancel_passes_and_says_why(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    intent = (await accept(pool, tenant.submission(a_limit_create())))[0].intent_id
    answer = (await evaluate(api, tenant, cancel_body(intent))).json()
    assert (answer["verdict"], answer["receipt"]["exempt"]) == ("PASSED", "CANCEL")


async def test_a_deadline_that_is_past_is_told(api: RestApi, tenant: Tenant) -> None:
    answer = (await evaluate(api, tenant, create_body(), deadline="2020-01-01T00:00:00Z")).json()
    assert [line["code"] for line in answer["receipt"]["rules"] if line["verdict"] == "REFUSED"] == ["STALE_ORDER"]


async def test_what_is_not_there_is_not_found(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    other_organization = await a_tenant(pool)
    intent = (await accept(pool, other_organization.submission(a_limit_create())))[0].intent_id
    for account_id in (str(other_organization.account.id), str(new_id())):
        problem(await evaluate(api, tenant, create_body(), account_id=account_id), 404, "not_found")
    for body in (cancel_body(intent), replace_body(intent, price="2"), replace_body(new_id(), price="2")):
        problem(await evaluate(api, tenant, body), 404, "not_found")


async def test_every_answer_is_as_the_description_says(api: RestApi, tenant: Tenant) -> None:
    conformance = Conformance((await api.client.get("/openapi.json")).json())
    await set_rule(api, tenant, "QTY_MAX", quantity="5")
    answers = [await evaluate(api, tenant, body) for body in (create_body(), cancel_body(new_id()), {"command": 7})]
    assert [answer.status_code for answer in answers] == [200, 404, 422]
    assert [found for answer in answers for found in conformance.breaks(answer)] == []


async def test_a_body_that_is_wrong_says_where(api: RestApi, tenant: Tenant) -> None:
    missing = await api.client.post("/v1/controls/evaluate", json=create_body(), headers={"x-api-key": tenant.key})
    assert pointers(problem(missing, 422, "invalid_command")) == ["/account_id"]
    wrong = await evaluate(api, tenant, create_body(symbol="A B"))
    assert pointers(problem(wrong, 422, "invalid_command")) == ["/command/payload/symbol"]


async def test_it_needs_the_entitlement_of_the_controls(api: RestApi, pool: Pool) -> None:
    tenant = await a_tenant(pool, entitlements=frozenset({TRADING_LIVE}))
    problem(await evaluate(api, tenant, create_body()), 403, "entitlement_required")
