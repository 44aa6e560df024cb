"""The control routes of a symbol: their shapes, who may, and that a control stops what it names and nothing else."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.domain.access.accounts import TRADING_LIVE, Environment
from support.builders.tenant import Tenant, a_tenant, new_id
from support.identity.bearers import as_service, as_user
from support.rest.rest_api import RestApi, cancel_body, create_body, pointers, problem

MANUAL_FIELDS = {"account_id", "organization_id", "symbol", "manually_disabled", "created_at", "updated_at", "version"}
TIME_FIELDS = {"account_id", "organization_id", "symbol", "stale_order_millis", "created_at", "updated_at", "version"}
TIME_FIELDS |= {"timezone", "window_open_now", "next_open_at", "next_close_at"}


def path_of(tenant: Tenant, symbol: str = "AAPL") -> str:
    return f"/v1/controls/accounts/{tenant.account.id}/symbols/{symbol}"


async def call(
    api: RestApi, tenant: Tenant, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
) -> httpx.Response:
    sent = {"x-api-key": tenant.key} if headers is None else headers
    return await api.client.request(method, path, json=body, headers=sent)


async def put(api: RestApi, tenant: Tenant, symbol: str = "AAPL", **body: Any) -> httpx.Response:
    return await call(api, tenant, "PUT", path_of(tenant, symbol), {"manually_disabled": True, **body})


async def patch(api: RestApi, tenant: Tenant, symbol: str = "AAPL", **body: Any) -> httpx.Response:
    return await call(api, tenant, "PATCH", path_of(tenant, symbol) + "/time", body)


async def shown(api: RestApi, tenant: Tenant, what: str = "symbol_control") -> Any:
    query = {"account_id": str(tenant.account.id), "symbol": "aapl"}
    answer = await api.client.get("/v1/controls/effective", params=query, headers={"x-api-key": tenant.key})
    assert answer.status_code == 200, answer.text
    return answer.json().get(what)


async def test_a_put_creates_then_replaces_and_clears_what_it_leaves_out(api: RestApi, tenant: Tenant) -> None:
    first = (await put(api, tenant, manual_reason="earnings tonight")).json()
    assert set(first) == MANUAL_FIELDS | {"manual_reason"}
    assert (first["account_id"], first["organization_id"], first["symbol"]) == (
        str(tenant.account.id),
        str(tenant.account.organization_id),
        "AAPL",
    )
    assert (first["manually_disabled"], first["manual_reason"], first["version"]) == (True, "earnings tonight", 1)
    assert first["created_at"] == first["updated_at"]
    second = (await put(api, tenant, manually_disabled=False)).json()
    assert set(second) == MANUAL_FIELDS
    assert (second["manually_disabled"], second["version"]) == (False, 2)
    assert second["created_at"] == first["created_at"]
    assert second["updated_at"] > first["updated_at"]
    assert await shown(api, tenant) == second


async def test_a_patch_creates_then_changes_what_it_names_and_removes_what_it_clears(
    api: RestApi, tenant: Tenant
) -> None:
    first = (await patch(api, tenant, trading_start="09:30:00")).json()
    assert set(first) == TIME_FIELDS | {"trading_start"}
    assert (first["trading_start"], first["stale_order_millis"], first["version"]) == ("09:30:00", None, 1)
    second = (
        await patch(
            api,
            tenant,
            trading_start=None,
            trading_end="16:00:00",
            timezone="America/New_York",
            days=["FRI", "MON"],
            stale_order_millis=1500,
        )
    ).json()
    assert set(second) == TIME_FIELDS | {"trading_start", "trading_end", "timezone", "days"}
    assert (second["trading_start"], second["trading_end"], second["stale_order_millis"]) == (
        "09:30:00",
        "16:00:00",
        1500,
    )
    assert (second["timezone"], second["days"], second["version"]) == ("America/New_York", ["MON", "FRI"], 2)
    third = (await patch(api, tenant, clear=["stale_order_millis", "trading_start", "days"])).json()
    assert set(third) == TIME_FIELDS | {"trading_end", "timezone"}
    assert (third["stale_order_millis"], third["created_at"], third["version"]) == (None, first["created_at"], 3)
    assert await shown(api, tenant, "symbol_times") == third


async def test_the_two_controls_are_two_records(api: RestApi, tenant: Tenant) -> None:
    assert await shown(api, tenant) is None
    await put(api, tenant)
    assert await shown(api, tenant, "symbol_times") is None
    await patch(api, tenant, trading_start="09:30:00")
    assert (await shown(api, tenant))["version"] == 1
    await put(api, tenant)
    assert (await shown(api, tenant, "symbol_times"))["version"] == 1


WRONG_PUTS: list[tuple[str, dict[str, Any]]] = [
    ("/manually_disabled", {}),
    ("/manually_disabled", {"manual_reason": "x"}),
    ("/manually_disabled", {"manually_disabled": None}),
    ("/manually_disabled", {"manually_disabled": "true"}),
    ("/manual_reason", {"manually_disabled": True, "manual_reason": "x" * 501}),
    ("/manual_reason", {"manually_disabled": True, "manual_reason": "a\nb"}),
    ("/trading_start", {"manually_disabled": True, "trading_start": "09:30:00"}),
]


@pytest.mark.parametrize(("pointer", "body"), WRONG_PUTS, ids=[str(number) for number in range(len(WRONG_PUTS))])
async def test_a_put_that_is_wrong_says_where(
    api: RestApi, tenant: Tenant, pointer: str, body: dict[str, object]
) -> None:
    answer = await call(api, tenant, "PUT", path_of(tenant), body)
    assert pointers(problem(answer, 422, "invalid_command")) == [pointer]
    assert await shown(api, tenant) is None


WRONG_PATCHES: list[tuple[str, dict[str, Any]]] = [
    ("/trading_start", {"trading_start": "9:30:00"}),
    ("/trading_start", {"trading_start": "09:30"}),
    ("/trading_start", {"trading_start": "24:00:00"}),
    ("/trading_start", {"trading_start": "09:30:60"}),
    ("/trading_start", {"trading_start": "09:30:00Z"}),
    ("/trading_end", {"trading_end": "09:30:00.5"}),
    ("/trading_end", {"trading_start": "09:30:00", "trading_end": "09:30:00"}),
    ("/timezone", {"timezone": "Nowhere/Land"}),
    ("/days/0", {"days": ["monday"]}),
    ("/days", {"days": []}),
    ("/stale_order_millis", {"stale_order_millis": 0}),
    ("/stale_order_millis", {"stale_order_millis": 86_400_001}),
    ("/stale_order_millis", {"stale_order_millis": "5"}),
    ("/stale_order_millis", {"stale_order_millis": True}),
    ("/max_resting_millis", {"max_resting_millis": 999}),
    ("/calendar", {"calendar": "XMOON"}),
    ("/session", {"session": "REGULAR"}),
    ("/session", {"calendar": "XNYS", "session": "lunch"}),
    ("/on_close", {"on_close": "CANCEL"}),
    ("/on_close", {"on_close": "explode"}),
    ("/max_resting_millis", {"max_resting_millis": 30 * 86_400_000 + 1}),
    ("/trading_start", {"trading_start": "09:30:00", "clear": ["trading_start"]}),
    ("/clear/0", {"clear": ["manually_disabled"]}),
    ("/on_close", {"on_close": "CANCEL"}),
]


@pytest.mark.parametrize(("pointer", "body"), WRONG_PATCHES, ids=[str(number) for number in range(len(WRONG_PATCHES))])
async def test_a_patch_that_is_wrong_says_where(
    api: RestApi, tenant: Tenant, pointer: str, body: dict[str, object]
) -> None:
    answer = await call(api, tenant, "PATCH", path_of(tenant) + "/time", body)
    assert pointers(problem(answer, 422, "invalid_command")) == [pointer]
    assert await shown(api, tenant, "symbol_times") is None


async def test_a_field_that_nobody_has_is_refused_and_the_answer_names_what_there_is(
    api: RestApi, tenant: Tenant
) -> None:
    said = problem(await call(api, tenant, "PATCH", path_of(tenant) + "/time", {"on_open": 5}), 422, "invalid_command")
    assert "on_open" in str(said["detail"])
    for taken in (
        "trading_start",
        "trading_end",
        "timezone",
        "days",
        "stale_order_millis",
        "max_resting_millis",
        "calendar",
        "session",
        "on_close",
        "clear",
    ):
        assert taken in str(said["detail"])


async def test_a_market_is_set_kept_and_cleared(api: RestApi, tenant: Tenant) -> None:
    first = (await patch(api, tenant, calendar="XNYS", session="EXTENDED", on_close="CANCEL")).json()
    assert (first["calendar"], first["session"], first["on_close"]) == ("XNYS", "EXTENDED", "CANCEL")
    assert first["timezone"] == "UTC"
    assert (first["next_open_at"], first["next_close_at"]) != (None, None)
    kept = (await patch(api, tenant, stale_order_millis=5)).json()
    assert (kept["calendar"], kept["session"], kept["on_close"]) == ("XNYS", "EXTENDED", "CANCEL")
    problem(await patch(api, tenant, clear=["calendar"]), 422, "invalid_command")
    cleared = (await patch(api, tenant, clear=["calendar", "session", "on_close"])).json()
    assert not {"calendar", "session", "on_close"} & set(cleared)
    assert (cleared["window_open_now"], cleared["next_open_at"], cleared["next_close_at"]) == (True, None, None)
    assert await shown(api, tenant, "symbol_times") == cleared


async def test_a_window_tells_its_zone_and_when_it_opens_and_closes(api: RestApi, tenant: Tenant) -> None:
    told = (await patch(api, tenant, trading_start="00:00:00", trading_end="12:00:00", timezone="Asia/Tokyo")).json()
    assert told["timezone"] == "Asia/Tokyo"
    opens, closes = (datetime.fromisoformat(told[name]) for name in ("next_open_at", "next_close_at"))
    assert (opens.astimezone(UTC).hour, closes.astimezone(UTC).hour) == (15, 3)
    # The other one comes first.
    assert told["window_open_now"] is (closes < opens)


async def test_the_life_of_an_order_is_set_kept_and_cleared(api: RestApi, tenant: Tenant) -> None:
    first = (await patch(api, tenant, max_resting_millis=2_592_000_000)).json()
    assert first["max_resting_millis"] == 2_592_000_000
    assert (await patch(api, tenant, stale_order_millis=5)).json()["max_resting_millis"] == 2_592_000_000
    assert "max_resting_millis" not in (await patch(api, tenant, clear=["max_resting_millis"])).json()
    assert "max_resting_millis" not in (await shown(api, tenant, "symbol_times"))


async def test_a_patch_is_judged_together_with_what_is_there(api: RestApi, tenant: Tenant) -> None:
    await patch(api, tenant, trading_end="16:00:00")
    said = problem(await patch(api, tenant, trading_start="16:00:00"), 422, "invalid_command")
    assert pointers(said) == ["/trading_end"]
    assert (await shown(api, tenant, "symbol_times"))["version"] == 1


async def test_a_disabled_symbol_is_refused_with_the_whole_receipt_and_nothing_is_recorded(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    working = (await api.submit(tenant, create_body("Limit", price="1"))).json()
    await put(api, tenant, manual_reason="earnings")
    await patch(api, tenant, days=["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"])
    hints, tables = api.hints.rows, ("intent_actions", "intent_outbox", "idempotency_keys", "orders")
    before = [await pool.fetchval(f"select count(*) from {table}") for table in tables]
    said = problem(await api.submit(tenant, create_body(), key="k"), 422, "controls_refused")
    receipt = said["receipt"]
    assert isinstance(receipt, dict)
    assert (receipt["verdict"], receipt["command"]["symbol"], receipt["account_epoch"]) == ("REFUSED", "AAPL", 3)
    assert receipt["rules"][0] == {
        "code": "SYMBOL_DISABLED",
        "scope": "SYMBOL",
        "mode": "HARD",
        "verdict": "REFUSED",
        "comparison": "EQUALS",
        "limit": "enabled",
        "observed": "disabled: earnings",
        "control_version": 1,
        "would_pass": "once AAPL is enabled again; until then a CANCEL, or less risk",
        "inputs": {"manual_reason": "earnings"},
    }
    assert [(rule["code"], rule["verdict"]) for rule in receipt["rules"][1:]] == [("OUTSIDE_TRADING_WINDOW", "PASSED")]
    assert "SYMBOL_DISABLED" in str(said["detail"])
    assert [await pool.fetchval(f"select count(*) from {table}") for table in tables] == before
    assert api.hints.rows == hints
    stored = await pool.fetchrow(
        "select verdict, body, intent_id, hash = sha256(convert_to(body, 'UTF8')) as is_hashed from receipts"
        " where receipt_id = $1::text::uuid",
        receipt["id"],
    )
    assert stored is not None
    assert (stored["verdict"], stored["intent_id"], stored["is_hashed"]) == ("REFUSED", None, True)
    assert {"id": receipt["id"], **json.loads(stored["body"])} == receipt
    change = {"ref_intent_id": working["intent_id"], "spec": {"Limit": {"price": "2", "quantity": "10"}}}
    replacing = await api.submit(tenant, {"command": {"type": "REPLACE", "payload": change}})
    problem(replacing, 422, "controls_refused")
    # Other symbols, and cancels, pass.
    assert (await api.submit(tenant, create_body(symbol="MSFT"))).status_code == 202
    assert (await api.submit(tenant, cancel_body(working["intent_id"]))).status_code == 202


async def test_a_refusal_is_not_remembered_by_its_key_and_a_recorded_command_is(api: RestApi, tenant: Tenant) -> None:
    recorded = await api.submit(tenant, create_body(), key="before")
    await put(api, tenant)
    again = await api.submit(tenant, create_body(), key="before")
    assert (again.status_code, again.headers["idempotency-replayed"]) == (202, "true")
    assert again.json()["id"] == recorded.json()["id"]
    problem(await api.submit(tenant, create_body(), key="after"), 422, "controls_refused")
    await put(api, tenant, manually_disabled=False)
    accepted = await api.submit(tenant, create_body(), key="after")
    assert (accepted.status_code, "idempotency-replayed" in accepted.headers) == (202, False)
    assert accepted.json()["id"] != recorded.json()["id"]


async def test_a_window_that_is_shut_refuses_and_one_that_is_open_does_not(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    hour = await pool.fetchval("select extract(hour from clock_timestamp() at time zone 'UTC')::integer")
    await patch(api, tenant, trading_start=f"{(hour + 3) % 24:02}:00:00", trading_end=f"{(hour + 5) % 24:02}:00:00")
    said = problem(await api.submit(tenant, create_body()), 422, "controls_refused")
    assert "OUTSIDE_TRADING_WINDOW" in str(said["detail"])
    await patch(api, tenant, trading_start=f"{(hour - 3) % 24:02}:00:00")
    assert (await api.submit(tenant, create_body())).status_code == 202


SPELLINGS = [
    ("BRK%2FB", "BRK/B"),
    ("brk%2fb", "BRK/B"),
    ("Brk/B".replace("/", "%2F"), "brk/b"),
    ("%42RK%2EB", "brk.b"),
    ("ES:%5FZ", "es:_z"),
]


@pytest.mark.parametrize(("in_path", "in_command"), SPELLINGS)
async def test_no_spelling_gets_around_a_control(api: RestApi, tenant: Tenant, in_path: str, in_command: str) -> None:
    kept = await put(api, tenant, in_path)
    assert (kept.status_code, kept.json()["symbol"]) == (200, in_command.upper())
    for spelled in (in_command, in_command.upper(), in_command.title()):
        problem(await api.submit(tenant, create_body(symbol=spelled)), 422, "controls_refused")
    assert (await patch(api, tenant, in_path, stale_order_millis=5)).json()["symbol"] == in_command.upper()


@pytest.mark.parametrize("symbol", ["A%20B", "%C5%BFPY", "A" * 33, "A%00", "%252F"])
async def test_what_is_no_symbol_is_refused_by_its_parameter(api: RestApi, tenant: Tenant, symbol: str) -> None:
    said = problem(await put(api, tenant, symbol), 400, "invalid_parameter")
    assert pointers(said) == ["/symbol"]


async def test_a_slash_is_no_part_of_a_symbol(api: RestApi, tenant: Tenant) -> None:
    problem(await put(api, tenant, "BRK/B"), 404, "not_found")


async def test_admins_and_keys_with_the_permission_set_controls_and_no_one_else(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    path, body = path_of(tenant), {"manually_disabled": False}
    read = f"/v1/controls/effective?account_id={tenant.account.id}&symbol=AAPL"
    assert (await call(api, tenant, "PUT", path, body, as_user(tenant, "admin"))).status_code == 200
    for role in ("member", "read_only"):
        problem(await call(api, tenant, "PUT", path, body, as_user(tenant, role)), 403, "permission_denied")
        assert (await call(api, tenant, "GET", read, headers=as_user(tenant, role))).status_code == 200
    machine = as_service("control:read", "intent:read", tenant=tenant)
    problem(await call(api, tenant, "PUT", path, body, machine), 403, "principal_kind_not_allowed")
    assert (await call(api, tenant, "GET", read, headers=machine)).status_code == 200
    reader = await a_tenant(pool, permissions=frozenset({"control:read", "control:edit:live"}))
    problem(await put(api, reader), 403, "permission_denied")
    other_organization = await a_tenant(pool)
    problem(await call(api, other_organization, "PUT", path, body), 404, "not_found")
    nobody_s = path.replace(str(tenant.account.id), str(new_id()))
    problem(await call(api, tenant, "PUT", nobody_s, body), 404, "not_found")
    changed = await pool.fetch("select distinct principal_type from audit_log")
    assert [row["principal_type"] for row in changed] == ["USER"]


async def test_a_key_of_the_other_environment_sets_nothing(api: RestApi, pool: Pool) -> None:
    tenant = await a_tenant(pool, environment=Environment.LIVE, key_environment=Environment.PAPER)
    problem(await put(api, tenant), 403, "environment_mismatch")


async def test_without_the_entitlement_the_routes_are_gone_and_the_controls_stay(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    await put(api, tenant)
    await pool.execute("update organizations set entitlements = $1, control_epoch = control_epoch + 1", [TRADING_LIVE])
    problem(await put(api, tenant, manually_disabled=False), 403, "entitlement_required")
    read = f"/v1/controls/effective?account_id={tenant.account.id}&symbol=AAPL"
    problem(await call(api, tenant, "GET", read), 403, "entitlement_required")
    problem(await api.submit(tenant, create_body()), 422, "controls_refused")


async def test_a_disabled_organization_changes_no_control(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    await pool.execute("update organizations set disabled = true, control_epoch = control_epoch + 1")
    problem(await put(api, tenant), 409, "organization_disabled")


async def test_who_changed_what_and_when_is_in_the_audit_log(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    await put(api, tenant, manual_reason="earnings")
    await put(api, tenant, manually_disabled=False)
    await patch(api, tenant, trading_start="09:30:00")
    rows = await pool.fetch("select * from audit_log order by occurred_at")
    assert [(row["operation"], row["principal_id"], row["object_id"]) for row in rows] == [
        (operation, tenant.principal.id, f"{tenant.account.id} AAPL")
        for operation in ("controls manual", "controls manual", "controls time")
    ]
    assert [row["before"] is None for row in rows] == [True, False, True]
    assert json.loads(rows[1]["before"]) == json.loads(rows[0]["after"])
    assert json.loads(rows[0]["after"]) == {
        "manually_disabled": True,
        "manual_reason": "earnings",
        "version": 1,
    }
    assert json.loads(rows[2]["after"])["trading_start"] == "09:30:00"


async def test_changes_at_once_are_all_kept_and_numbered(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    fields: list[dict[str, Any]] = [
        {"trading_start": "09:30:00"},
        {"trading_end": "16:00:00"},
        {"timezone": "UTC"},
        {"stale_order_millis": 9},
    ]
    answers = await asyncio.gather(*(patch(api, tenant, **field) for field in fields * 5))
    assert sorted(answer.json()["version"] for answer in answers) == list(range(1, 21))
    last = await shown(api, tenant, "symbol_times")
    assert (last["trading_start"], last["trading_end"], last["timezone"], last["stale_order_millis"]) == (
        "09:30:00",
        "16:00:00",
        "UTC",
        9,
    )
    assert await pool.fetchval("select control_epoch from account_counters") == 21
