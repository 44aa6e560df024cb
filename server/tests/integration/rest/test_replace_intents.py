"""Replacing over REST: what is taken and echoed, what is refused in which words, and who may."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.application.ports.broker import ReplaceSupport
from openbell_server.brokers.registry import BROKERS
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.orders.order_terms import TimeInForce
from support.builders.tenant import Tenant, a_tenant, begin_epochs, new_id
from support.rest.rest_api import RestApi, cancel_body, create_body, intents_of, pointers, problem, replace_body


async def created(api: RestApi, tenant: Tenant, kind: str = "Limit", spec: Mapping[str, str] | None = None) -> str:
    spec = {"price": "3", "time_in_force": "GOOD_TILL_CANCEL"} if spec is None else spec
    answer = await api.submit(tenant, create_body(kind, "AAPL", **spec))
    assert answer.status_code == 202
    return str(answer.json()["intent_id"])


async def test_a_replace_is_the_next_action_of_its_intent_and_echoes_what_the_order_shall_become(
    api: RestApi, tenant: Tenant
) -> None:
    intent = await created(api, tenant)
    body = {**replace_body(intent, quantity="12.50", price="3.250"), "client_reference_id": "mine"}
    answer = await api.submit(tenant, body)
    assert answer.status_code == 202
    assert answer.headers["location"] == f"{intents_of(tenant)}/{intent}"
    action = answer.json()
    assert (action["intent_id"], action["seq"], action["action_type"], action["status"]) == (
        intent,
        2,
        "REPLACE",
        "QUEUED",
    )
    assert (action["quantity"], action["limit_price"], action["order_type"]) == ("12.50", "3.250", "LIMIT")
    assert (action["symbol"], action["order_side"], action["time_in_force"]) == ("AAPL", "BUY", "GOOD_TILL_CANCEL")
    assert action["client_reference_id"] == "mine"
    # The order is what it was until the broker has taken the change.
    assert action["execution"]["leaves_quantity"] == "10"
    assert (await api.read(tenant, f"/{intent}")).json() == action
    assert api.hints.rows == 2


@pytest.mark.parametrize(
    ("kind", "prices", "others"),
    [
        ("Market", {}, {}),
        ("Limit", {"price": "3"}, {"price": "4"}),
        ("Stop", {"stop_price": "3"}, {"stop_price": "4"}),
        ("StopLimit", {"stop_price": "3", "price": "2"}, {"stop_price": "4", "price": "5"}),
    ],
)
async def test_an_order_of_each_kind_is_replaced_by_its_own_kind_and_no_other(
    api: RestApi, tenant: Tenant, kind: str, prices: dict[str, str], others: dict[str, str]
) -> None:
    intent = await created(api, tenant, kind, prices)
    other = replace_body(intent, "Market") if kind != "Market" else replace_body(intent, price="1")
    refusal = problem(await api.submit(tenant, other), 422, "immutable_field")
    assert pointers(refusal) == ["/command/payload/spec"]
    action = (await api.submit(tenant, replace_body(intent, kind, time_in_force="EXT", **others))).json()
    assert (action.get("limit_price"), action.get("stop_price")) == (others.get("price"), others.get("stop_price"))
    assert (action["time_in_force"], action["quantity"]) == ("EXT", "12")


async def test_a_replayed_replace_is_the_same_action_and_another_under_its_key_is_refused(
    api: RestApi, tenant: Tenant
) -> None:
    intent = await created(api, tenant)
    first = await api.submit(tenant, replace_body(intent, price="4"), key="k")
    again = await api.submit(tenant, replace_body(intent, price="4.0", quantity="12.0"), key="k")
    assert (first.status_code, again.status_code) == (202, 202)
    assert again.headers["idempotency-replayed"] == "true"
    assert again.json() == first.json()
    for other in (
        replace_body(intent, price="5"),
        replace_body(intent, price="4", time_in_force="GOOD_TILL_CANCEL"),
        cancel_body(intent),
    ):
        problem(await api.submit(tenant, other, key="k"), 422, "idempotency_key_reused")


async def test_an_order_says_why_it_cannot_be_replaced(api: RestApi, tenant: Tenant, pool: Pool) -> None:
    intent = await created(api, tenant)
    good = replace_body(intent, price="4")
    await pool.execute("update orders set filled_quantity = 12")
    refusal = problem(await api.submit(tenant, good), 422, "quantity_not_above_filled")
    assert pointers(refusal) == ["/command/payload/spec/quantity"]
    await pool.execute("update orders set filled_quantity = 0, certainty = 'UNKNOWN'")
    problem(await api.submit(tenant, good), 409, "order_unknown")
    await pool.execute(
        "update orders set certainty = 'CONFIRMED', pending = 'NONE', standing = 'CLOSED', close_reason = 'CANCELED'"
    )
    problem(await api.submit(tenant, good), 409, "order_terminal")
    problem(await api.submit(tenant, replace_body(new_id(), price="4")), 404, "not_found")
    assert await pool.fetchval("select count(*) from intent_actions") == 1


async def test_an_intent_of_another_organization_answers_as_one_that_is_not_there(
    api: RestApi, tenant: Tenant, pool: Pool
) -> None:
    other_organization = await a_tenant(pool)
    intent = await created(api, tenant)
    headers = {"x-request-id": "same"}
    answers = [
        (await api.submit(other_organization, replace_body(which, price="4"), headers=headers)).json()
        for which in (intent, new_id())
    ]
    assert answers[0] == answers[1]
    assert answers[0]["code"] == "not_found"


async def test_a_live_replace_needs_the_entitlement_and_an_open_account_and_a_cancel_never(
    api: RestApi, pool: Pool
) -> None:
    live = await a_tenant(pool, environment=Environment.LIVE)
    intent = await created(api, live)
    for change, status, code in (
        ("update organizations set entitlements = '{}'", 403, "entitlement_required"),
        ("update organizations set entitlements = '{trading_live}', disabled = true", 409, "organization_disabled"),
        ("update organizations set disabled = false; update accounts set disabled = true", 409, "account_disabled"),
    ):
        await pool.execute(change)
        await begin_epochs(pool)
        problem(await api.submit(live, replace_body(intent, price="4")), status, code)
    await pool.execute("update organizations set entitlements = '{}', disabled = true")
    assert (await api.submit(live, cancel_body(intent))).status_code == 202


async def test_what_the_broker_cannot_do_is_refused_by_name(
    api: RestApi, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    intent = await created(api, tenant)
    able = BROKERS["paper"].capabilities
    monkeypatch.setattr(
        BROKERS["paper"], "capabilities", replace(able, times_in_force=able.times_in_force - {TimeInForce.EXT})
    )
    problem(await api.submit(tenant, replace_body(intent, price="4", time_in_force="EXT")), 422, "not_supported")
    monkeypatch.setattr(BROKERS["paper"], "capabilities", replace(able, replace=ReplaceSupport.NONE))
    problem(await api.submit(tenant, replace_body(intent, price="4")), 422, "replace_not_supported")
    assert (await api.submit(tenant, cancel_body(intent))).status_code == 202


@pytest.mark.parametrize(
    ("decimals", "taken", "refused", "rule"),
    [
        (0, "12.000", "12.5", "must be a whole number"),
        (9, "12.0000000010", "12.0000000001", "must have at most 9 digits after the point"),
        (18, "999999999999999999.999999999999999999", None, ""),
    ],
)
async def test_a_quantity_finer_than_the_broker_counts_is_refused_with_what_would_pass(
    api: RestApi,
    tenant: Tenant,
    monkeypatch: pytest.MonkeyPatch,
    decimals: int,
    taken: str,
    refused: str | None,
    rule: str,
) -> None:
    able = BROKERS["paper"].capabilities
    monkeypatch.setattr(BROKERS["paper"], "capabilities", replace(able, quantity_decimals=decimals))
    prices = {"stop_price": "3", "price": "4"}
    answer = await api.submit(tenant, create_body("StopLimit", quantity=taken, **prices))
    assert answer.status_code == 202
    intent = answer.json()["intent_id"]
    assert (await api.submit(tenant, replace_body(intent, "StopLimit", quantity=taken, **prices))).status_code == 202
    if refused is not None:
        for body in (
            create_body("StopLimit", quantity=refused, **prices),
            replace_body(intent, "StopLimit", quantity=refused, **prices),
        ):
            told = problem(await api.submit(tenant, body), 422, "not_supported")
            assert (pointers(told), told["detail"]) == (
                ["/command/payload/spec/StopLimit/quantity"],
                f"quantity {rule} at paper",
            )


def payload(**changes: object) -> dict[str, Any]:
    right: dict[str, object] = {"ref_intent_id": str(new_id()), "spec": {"Limit": {"price": "4", "quantity": "12"}}}
    return {"command": {"type": "REPLACE", "payload": {**right, **changes}}}


@pytest.mark.parametrize(
    "body",
    [
        {"command": {"type": "REPLACE", "payload": {}}},
        {"command": {"type": "REPLACE"}},
        payload(ref_intent_id="x"),
        payload(symbol="AAPL"),
        payload(order_side="BUY"),
        payload(spec={}),
        payload(spec={"Limit": {"price": "4", "quantity": "12"}, "Market": {"quantity": "12"}}),
        payload(spec={"Limit": {"quantity": "12"}}),
        payload(spec={"Limit": {"price": "4"}}),
        payload(spec={"Limit": {"price": "4", "quantity": "0"}}),
        payload(spec={"Limit": {"price": "4", "quantity": 12}}),
        payload(spec={"Limit": {"price": "4", "quantity": "12", "time_in_force": "SOON"}}),
    ],
    ids=range(12),
)
async def test_a_body_that_is_no_replace_is_refused(api: RestApi, tenant: Tenant, body: object) -> None:
    problem(await api.submit(tenant, body), 422, "invalid_command")
