"""The routes of rules: their shapes, who may, versions, overrides that end by themselves, and history."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.domain.access.accounts import TRADING_LIVE, Environment
from openbell_server.domain.controls.findings import Scope
from support.brokers.paper_broker import until
from support.builders.tenant import Tenant, a_key, a_tenant, new_id
from support.identity.bearers import Headers, as_service, as_user
from support.rest.openapi_conformance import Conformance
from support.rest.rest_api import SCOPES, RestApi, control_path, pointers, problem

RULE_FIELDS = {
    *(
        "organization_id",
        "scope",
        "code",
        "in_force",
        "version",
        "created_at",
        "updated_at",
        "principal_type",
        "principal_id",
    ),
    *("terms", "reason"),
}


READS = ("rules", "rules/QTY_MAX", "changes", "switches")


def rule_of(tenant: Tenant, scope: Scope = Scope.ACCOUNT, code: str = "QTY_MAX", **query: object) -> str:
    return control_path(f"rules/{code}", tenant, scope, **query)


def changes_of(tenant: Tenant, scope: Scope = Scope.ACCOUNT, **query: object) -> str:
    return control_path("changes", tenant, scope, **query)


def wanted(quantity: object = "5", **more: object) -> dict[str, object]:
    return {"mode": "HARD", "parameters": {"quantity": quantity}, "reason": "fat fingers", **more}


async def put(
    api: RestApi, tenant: Tenant, body: object, path: str | None = None, headers: Headers | None = None
) -> httpx.Response:
    sent = as_user(tenant) | (headers or {})
    return await api.client.put(path or rule_of(tenant), json=body, headers=sent)


async def get(api: RestApi, tenant: Tenant, path: str | None = None, **query: Any) -> httpx.Response:
    url = httpx.URL(path or rule_of(tenant)).copy_merge_params(query)
    return await api.client.get(url, headers=as_user(tenant, "read_only"))


@pytest.mark.parametrize("scope", SCOPES)
async def test_a_rule_is_set_shown_listed_and_removed_at_every_scope(
    api: RestApi, tenant: Tenant, scope: Scope
) -> None:
    path = rule_of(tenant, scope)
    answer = await put(api, tenant, wanted(on_missing="DENY"), path)
    body = answer.json()
    assert (answer.status_code, answer.headers["etag"]) == (200, '"1"')
    terms = {"mode": "HARD", "on_missing": "DENY", "parameters": {"quantity": "5"}}
    assert (body["terms"], body["in_force"], body["reason"]) == (terms, terms, "fat fingers")
    assert body["principal_type"] == "USER"
    place = {
        **({"account_id": str(tenant.account.id)} if scope in (Scope.ACCOUNT, Scope.SYMBOL) else {}),
        **({"symbol": "AAPL"} if scope is Scope.SYMBOL else {}),
        **({"api_key_id": tenant.principal.id} if scope is Scope.KEY else {}),
    }
    assert set(body) == RULE_FIELDS | place.keys()
    assert {name: body[name] for name in place} == place
    assert (body["organization_id"], body["scope"]) == (str(tenant.account.organization_id), scope)
    shown = await get(api, tenant, path)
    assert (shown.json(), shown.headers["etag"]) == (body, '"1"')
    assert (await get(api, tenant, control_path("rules", tenant, scope))).json()["data"] == [body]
    removed = await api.client.delete(rule_of(tenant, scope, reason="no longer needed"), headers=as_user(tenant))
    assert (removed.status_code, removed.content) == (204, b"")
    assert problem(await get(api, tenant, path), 404, "not_found")["detail"] == "no rule QTY_MAX is set here"
    assert (await get(api, tenant, control_path("rules", tenant, scope))).json()["data"] == []
    again = await put(api, tenant, wanted(), path)
    assert again.json()["version"] == 3


@pytest.mark.parametrize("scope", SCOPES)
async def test_what_is_answered_is_what_the_document_says(api: RestApi, tenant: Tenant, scope: Scope) -> None:
    conformance = Conformance((await api.client.get("/openapi.json")).json())
    rule, switch, later = rule_of(tenant, scope), control_path("switches", tenant, scope), "2036-01-05T21:00:00Z"
    halt = {"status": "HALTED", "reason": "r", "cancel_working": True}
    answers = [
        await get(api, tenant, switch),
        await put(api, tenant, wanted(), rule),
        await put(api, tenant, wanted("9", expires_at=later, on_missing="ALLOW"), rule),
        await put(api, tenant, wanted(), rule, {"if-match": '"7"'}),
        await put(api, tenant, {}, rule),
        await put(api, tenant, halt, switch),
        *[await get(api, tenant, control_path(below, tenant, scope)) for below in ("rules", "switches", "changes")],
        await get(api, tenant, rule),
        await api.client.delete(rule, headers=as_user(tenant)),
        await get(api, tenant, changes_of(tenant, scope, code="QTY_MAX")),
        await get(api, tenant, rule),
        await api.client.delete(rule, headers=as_user(tenant)),
    ]
    told = [answer.status_code for answer in answers]
    assert told == [200, 200, 200, 412, 422, 200, 200, 200, 200, 200, 204, 200, 404, 404]
    assert [broken for answer in answers for broken in conformance.breaks(answer)] == []


async def test_every_spelling_of_a_symbol_is_the_one_symbol(api: RestApi, tenant: Tenant) -> None:
    body = (await put(api, tenant, wanted(), rule_of(tenant, Scope.SYMBOL, symbol="brk/b"))).json()
    assert (await get(api, tenant, rule_of(tenant, Scope.SYMBOL, symbol="BRK/B"))).json() == body
    assert body["symbol"] == "BRK/B"


REFUSED: list[tuple[dict[str, object], str]] = [
    ({"mode": "HARD", "parameters": {"quantity": "5"}}, "/reason"),
    ({"parameters": {"quantity": "5"}, "reason": "r"}, "/mode"),
    (wanted(mode="soft"), "/mode"),
    (wanted(on_missing="maybe"), "/on_missing"),
    (wanted(quantity=5), "/parameters"),
    (wanted(quantity="-1"), "/parameters/quantity"),
    (wanted(parameters={}), "/parameters"),
    (wanted(parameters=[]), "/parameters"),
    (wanted(reason=""), "/reason"),
    (wanted(reason="\n"), "/reason"),
    (wanted(reason="x" * 501), "/reason"),
    (wanted(expires_at="tomorrow"), "/expires_at"),
    (wanted(expires_at="2020-01-01T00:00:00Z"), "/expires_at"),
    (wanted(expires_at="9999-12-31T23:59:59-12:00"), "/expires_at"),
    (wanted(forever=True), "/forever"),
]


@pytest.mark.parametrize(("body", "pointer"), REFUSED)
async def test_a_body_that_is_no_rule_is_refused_and_changes_nothing(
    api: RestApi, tenant: Tenant, body: dict[str, object], pointer: str
) -> None:
    told = problem(await put(api, tenant, body), 422, "invalid_command")
    assert [found[: len(pointer)] for found in pointers(told)] == [pointer]
    assert (await get(api, tenant, changes_of(tenant))).json()["data"] == []


@pytest.mark.parametrize("code", ["NO_SUCH", "SWITCH", "SYMBOL_DISABLED", "qty_max"])
async def test_a_code_that_nobody_may_set_is_not_found(api: RestApi, tenant: Tenant, code: str) -> None:
    path = rule_of(tenant, code=code)
    for answer in (
        await put(api, tenant, wanted(), path),
        await get(api, tenant, path),
        await api.client.delete(path, headers=as_user(tenant)),
    ):
        assert "QTY_MAX" in str(problem(answer, 404, "not_found")["detail"])


async def test_a_rule_that_its_scope_cannot_have_is_refused_with_where_it_can_be(api: RestApi, tenant: Tenant) -> None:
    body = {"mode": "HARD", "parameters": {"list": "DENY", "symbols": ["AAPL"]}, "reason": "r"}
    refused = await put(api, tenant, body, rule_of(tenant, Scope.SYMBOL, "RESTRICTED"))
    told = problem(refused, 422, "invalid_command")
    assert "cannot be set at the scope SYMBOL" in str(told["detail"])
    assert pointers(told) == ["/code"]


async def test_of_two_writers_that_read_one_version_one_wins(api: RestApi, tenant: Tenant) -> None:
    first = await put(api, tenant, wanted())
    seen = {"if-match": first.headers["etag"]}
    answers = await asyncio.gather(*(put(api, tenant, wanted(str(n)), headers=seen) for n in (6, 7)))
    assert sorted(answer.status_code for answer in answers) == [200, 412]
    problem(next(answer for answer in answers if answer.status_code == 412), 412, "version_mismatch")
    removing = await api.client.delete(rule_of(tenant), headers=as_user(tenant) | seen)
    problem(removing, 412, "version_mismatch")
    assert (await api.client.delete(rule_of(tenant), headers=as_user(tenant) | {"if-match": '"2"'})).status_code == 204
    problem(await put(api, tenant, wanted(), headers={"if-match": '"2"'}), 412, "version_mismatch")
    assert (await put(api, tenant, wanted(), headers={"if-match": '"0"'})).json()["version"] == 4
    problem(await put(api, tenant, wanted(), headers={"if-match": '"0"'}), 412, "version_mismatch")
    problem(await put(api, tenant, wanted(), headers={"if-match": "4"}), 400, "invalid_header")


async def test_an_override_applies_until_it_expires_and_then_the_rule_is_as_before(
    api: RestApi, tenant: Tenant, pool: Pool
) -> None:
    base = (await put(api, tenant, wanted())).json()
    now: datetime = await pool.fetchval("select clock_timestamp()")
    body = wanted("9", mode="SHADOW", expires_at=(now + timedelta(seconds=1)).isoformat())
    set_ = (await put(api, tenant, body)).json()
    assert set_["in_force"] == set_["override"]
    assert (set_["override"]["mode"], set_["override"]["parameters"]) == ("SHADOW", {"quantity": "9"})
    assert datetime.fromisoformat(set_["override"]["expires_at"]) == now + timedelta(seconds=1)
    assert set_["terms"] == base["terms"]

    async def it_reverted() -> bool:
        (shown,) = (await get(api, tenant, control_path("rules", tenant))).json()["data"]
        return "override" not in shown and shown["in_force"] == base["terms"]

    await until(it_reverted, 60)
    shown = (await get(api, tenant)).json()
    assert (shown["in_force"], shown["version"]) == (base["terms"], 2)


async def test_history_tells_every_change_the_newest_first_page_by_page(api: RestApi, tenant: Tenant) -> None:
    bodies = [(await put(api, tenant, wanted(str(n), reason=f"because {n}"))).json() for n in (1, 2, 3)]
    await api.client.delete(rule_of(tenant, reason="over"), headers=as_user(tenant))
    changes, _ = await api.read_pages(changes_of(tenant, code="QTY_MAX"), as_user(tenant), 3)
    assert [(change["version"], change["reason"]) for change in changes] == [
        *((4, "over"), (3, "because 3"), (2, "because 2"), (1, "because 1")),
    ]
    assert [change.get("after") for change in changes] == [None, *reversed(bodies)]
    assert [change.get("before") for change in changes] == [*reversed(bodies), None]
    problem(await get(api, tenant, changes_of(tenant), next_cursor="x"), 400, "invalid_cursor")
    assert len((await get(api, tenant, changes_of(tenant), limit=2)).json()["data"]) == 2


@pytest.mark.parametrize("scope", SCOPES)
async def test_a_change_has_what_the_response_to_it_had(api: RestApi, tenant: Tenant, scope: Scope) -> None:
    body = (await put(api, tenant, wanted(), rule_of(tenant, scope))).json()
    (change,) = (await get(api, tenant, changes_of(tenant, scope))).json()["data"]
    assert (change["after"], change["changed_at"], change["scope"]) == (body, body["updated_at"], scope)


async def test_changes_are_of_rules_and_switches_at_every_scope_and_each_parameter_narrows_them(
    api: RestApi, tenant: Tenant, pool: Pool
) -> None:
    for scope in SCOPES:
        await put(api, tenant, wanted(), rule_of(tenant, scope))
        await put(api, tenant, {"status": "HALTED", "reason": "r"}, control_path("switches", tenant, scope))
    account, key, path = str(tenant.account.id), tenant.principal.id, "/v1/controls/changes"
    changes, _ = await api.read_pages(path, as_user(tenant), 3)
    newest = [(scope, code) for scope in reversed(SCOPES) for code in ("SWITCH", "QTY_MAX")]
    assert [(each["scope"], each["code"]) for each in changes] == newest
    for query, scopes in (
        ({"code": "SWITCH"}, [*reversed(SCOPES)]),
        ({"code": "QTY_MAX", "account_id": account}, [Scope.SYMBOL, Scope.ACCOUNT]),
        ({"code": "QTY_MAX", "account_id": account, "symbol": "aapl"}, [Scope.SYMBOL]),
        ({"code": "QTY_MAX", "scope": Scope.ORGANIZATION}, [Scope.ORGANIZATION]),
        ({"api_key_id": key}, [Scope.KEY, Scope.KEY]),
    ):
        found = (await get(api, tenant, path, **query)).json()["data"]
        assert [each["scope"] for each in found] == scopes, query
    problem(await get(api, tenant, path, code="NO_SUCH"), 400, "invalid_parameter")
    _, live = await a_key(pool, tenant.account.organization_id, Environment.LIVE, frozenset({"control:read"}))
    found = (await api.client.get(path, headers={"x-api-key": live})).json()["data"]
    assert {each["scope"] for each in found} == {"ORGANIZATION"}


async def test_rules_are_kept_without_a_reason_for_their_removal_but_not_with_an_unreadable_one(
    api: RestApi, tenant: Tenant
) -> None:
    await put(api, tenant, wanted())
    refused = await api.client.delete(rule_of(tenant, reason="a\nb"), headers=as_user(tenant))
    problem(refused, 400, "invalid_parameter")
    assert (await api.client.delete(rule_of(tenant), headers=as_user(tenant))).status_code == 204
    problem(await api.client.delete(rule_of(tenant), headers=as_user(tenant)), 404, "not_found")


async def test_keys_edit_accounts_and_symbols_and_never_what_is_above_them(api: RestApi, tenant: Tenant) -> None:
    key = {"x-api-key": tenant.key}
    answers = {scope: await api.client.put(rule_of(tenant, scope), json=wanted(), headers=key) for scope in SCOPES}
    assert [answers[scope].status_code for scope in SCOPES] == [403, 200, 200, 403]
    for scope in (Scope.ORGANIZATION, Scope.KEY):
        problem(answers[scope], 403, "principal_kind_not_allowed")
        problem(await api.client.delete(rule_of(tenant, scope), headers=key), 403, "principal_kind_not_allowed")
        assert (await api.client.get(control_path("rules", tenant, scope), headers=key)).status_code == 200
        as_machine = as_service("control:read", tenant=tenant)
        assert (await api.client.get(control_path("rules", tenant, scope), headers=as_machine)).status_code == 200
    for role in ("member", "read_only"):
        refused = await api.client.put(rule_of(tenant), json=wanted(), headers=as_user(tenant, role))
        problem(refused, 403, "permission_denied")


async def test_a_key_needs_the_permission_of_the_account_s_environment(
    api: RestApi, tenant: Tenant, pool: Pool
) -> None:
    organization_id = tenant.account.organization_id
    _, other = await a_key(pool, organization_id, permissions=frozenset({"control:edit:live", "control:read"}))
    refused = await api.client.put(rule_of(tenant), json=wanted(), headers={"x-api-key": other})
    assert "control:edit:paper" in str(problem(refused, 403, "permission_denied")["detail"])


@pytest.mark.parametrize("scope", SCOPES)
async def test_without_the_entitlement_nothing_is_shown_or_set(api: RestApi, pool: Pool, scope: Scope) -> None:
    poor = await a_tenant(pool, entitlements=frozenset({TRADING_LIVE}))
    problem(await put(api, poor, wanted(), rule_of(poor, scope)), 403, "entitlement_required")
    for below in READS:
        problem(await get(api, poor, control_path(below, poor, scope)), 403, "entitlement_required")


@pytest.mark.parametrize("scope", [Scope.ACCOUNT, Scope.SYMBOL, Scope.KEY])
async def test_what_is_another_organization_s_answers_as_what_is_not_there(
    api: RestApi, tenant: Tenant, pool: Pool, scope: Scope
) -> None:
    other = await a_tenant(pool)
    await put(api, other, wanted(), rule_of(other, scope))

    def both(below: str) -> tuple[str, str]:
        theirs = control_path(below, other, scope)
        nobody_s = theirs.replace(str(other.account.id), str(new_id())).replace(other.principal.id, str(new_id()))
        return theirs, nobody_s

    for below in READS:
        found = [await api.client.get(path, headers=as_user(tenant) | {"x-request-id": "same"}) for path in both(below)]
        problem(found[0], 404, "not_found")
        assert found[0].content == found[1].content
    for below, body in (("rules/QTY_MAX", wanted()), ("switches", {"status": "HALTED", "reason": "r"})):
        refused = [await put(api, tenant, body, path, {"x-request-id": "same"}) for path in both(below)]
        problem(refused[0], 404, "not_found")
        assert refused[0].content == refused[1].content
    assert (await get(api, other, rule_of(other, scope))).json()["version"] == 1


async def test_a_disabled_organization_sets_nothing_and_reads_on(api: RestApi, tenant: Tenant, pool: Pool) -> None:
    await put(api, tenant, wanted())
    await pool.execute("update openbell.organizations set disabled = true")
    for scope in SCOPES:
        problem(await put(api, tenant, wanted(), rule_of(tenant, scope)), 409, "organization_disabled")
    assert (await get(api, tenant)).status_code == 200


async def test_lists_cover_every_scope_and_each_parameter_narrows_them(api: RestApi, tenant: Tenant) -> None:
    halt = {"status": "HALTED", "reason": "r"}
    for scope in SCOPES:
        await put(api, tenant, wanted(), rule_of(tenant, scope))
        await put(api, tenant, halt, control_path("switches", tenant, scope))
    everywhere, account, key = [*SCOPES], str(tenant.account.id), tenant.principal.id
    assert everywhere == [Scope.ORGANIZATION, Scope.ACCOUNT, Scope.SYMBOL, Scope.KEY]
    for what in ("rules", "switches"):
        path = f"/v1/controls/{what}"
        listed, _ = await api.read_pages(path, as_user(tenant), 3)
        assert [each["scope"] for each in listed] == everywhere
        for query, scopes in (
            ({"account_id": account}, [Scope.ACCOUNT, Scope.SYMBOL]),
            ({"account_id": account, "symbol": "aapl"}, [Scope.SYMBOL]),
            ({"scope": Scope.ACCOUNT}, [Scope.ACCOUNT]),
            ({"scope": Scope.KEY, "api_key_id": key}, [Scope.KEY]),
            ({"scope": Scope.ORGANIZATION, "account_id": account}, []),
        ):
            found = (await get(api, tenant, path, **query)).json()["data"]
            assert [each["scope"] for each in found] == scopes, (what, query)


async def test_a_key_lists_no_rule_on_an_account_or_key_of_the_other_environment(
    api: RestApi, tenant: Tenant, pool: Pool
) -> None:
    for scope in SCOPES:
        await put(api, tenant, wanted(), rule_of(tenant, scope))
    organization_id = tenant.account.organization_id
    _, live = await a_key(pool, organization_id, environment=Environment.LIVE, permissions=frozenset({"control:read"}))
    found = await api.client.get("/v1/controls/rules", headers={"x-api-key": live})
    assert [each["scope"] for each in found.json()["data"]] == ["ORGANIZATION"]
    ours = await api.client.get("/v1/controls/rules", headers={"x-api-key": tenant.key})
    assert [each["scope"] for each in ours.json()["data"]] == [*SCOPES]


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ({}, "/scope"),
        ({"scope": "PLATFORM"}, "/scope"),
        ({"scope": "account"}, "/scope"),
        ({"scope": "ACCOUNT"}, "/account_id"),
        ({"scope": "ACCOUNT", "account_id": "a"}, "/account_id"),
        ({"scope": "SYMBOL", "account_id": "01981d3c-7a00-7000-8000-000000000002"}, "/symbol"),
        ({"scope": "ORGANIZATION", "symbol": "AAPL"}, "/symbol"),
        ({"scope": "KEY", "api_key_id": "k"}, "/api_key_id"),
    ],
)
async def test_a_query_that_names_no_place_is_refused_with_the_parameter(
    api: RestApi, tenant: Tenant, query: dict[str, str], pointer: str
) -> None:
    answers = [
        await get(api, tenant, "/v1/controls/rules/QTY_MAX", **query),
        await api.client.put("/v1/controls/rules/QTY_MAX", params=query, json=wanted(), headers=as_user(tenant)),
        await api.client.put("/v1/controls/switches", params=query, json={}, headers=as_user(tenant)),
    ]
    for answer in answers:
        told = problem(answer, 400, "invalid_parameter")
        assert (pointers(told), "PLATFORM" in str(told["detail"])) == ([pointer], False)
