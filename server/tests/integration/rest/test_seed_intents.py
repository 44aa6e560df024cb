"""The founding contract on intents: commands, records, reads, and what must pass before anything is written."""

import json
from datetime import datetime
from uuid import UUID

import asyncpg
import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.domain.access.accounts import CONTROLS_PREMIUM, TRADING_LIVE, Environment
from support.builders.tenant import Tenant, a_tenant
from support.identity.bearers import as_user
from support.rest.rest_api import RestApi, cancel_body, create_body, intents_of, problem, replace_body


async def rows(pool: Pool, table: str) -> int:
    counted: int = await pool.fetchval(f"select count(*) from {table}")
    return counted


async def test_a_submit_writes_an_action_a_receipt_and_an_outbox_record_and_queues_execution(
    api: RestApi, tenant: Tenant, pool: Pool
) -> None:
    answer = await api.submit(tenant, create_body())
    assert answer.status_code == 202
    assert answer.json()["status"] == "QUEUED"
    assert [await rows(pool, table) for table in ("intent_actions", "receipts", "intent_outbox")] == [1, 1, 1]
    assert api.hints.rows == 1


async def test_a_command_is_create_replace_or_cancel_and_nothing_else(api: RestApi, tenant: Tenant) -> None:
    created = await api.submit(tenant, create_body("Limit", price="1.50"))
    assert created.status_code == 202
    for kind in ("create", "MODIFY", "", None, 1):
        body = create_body()
        body["command"] = {**dict(body["command"]), "type": kind}  # type: ignore[call-overload]
        problem(await api.submit(tenant, body), 422, "invalid_command")
    problem(await api.submit(tenant, {"command": {"payload": {}}}), 422, "invalid_command")
    problem(await api.submit(tenant, {}), 422, "invalid_command")


async def test_a_replace_takes_a_replacement_spec_and_the_id_of_the_existing_intent(
    api: RestApi, tenant: Tenant
) -> None:
    created = (await api.submit(tenant, create_body("Limit", price="1.50"))).json()
    answer = await api.submit(tenant, replace_body(created["intent_id"], price="1.60"))
    assert answer.status_code == 202
    action = answer.json()
    assert (action["intent_id"], action["action_type"], action["seq"]) == (created["intent_id"], "REPLACE", 2)
    assert (action["quantity"], action["limit_price"]) == ("12", "1.60")
    without = {"command": {"type": "REPLACE", "payload": {"ref_intent_id": created["intent_id"]}}}
    problem(await api.submit(tenant, without), 422, "invalid_command")


async def test_a_cancel_takes_the_id_of_the_intent_only(api: RestApi, tenant: Tenant) -> None:
    created = (await api.submit(tenant, create_body("Limit", price="1.50"))).json()
    more = cancel_body(created["intent_id"])
    more["command"]["payload"]["symbol"] = "AAPL"  # type: ignore[index]
    problem(await api.submit(tenant, more), 422, "invalid_command")
    answer = await api.submit(tenant, cancel_body(created["intent_id"]))
    assert (answer.status_code, answer.json()["action_type"]) == (202, "CANCEL")


async def test_a_spec_has_one_key_that_names_the_kind_and_market_holds_quantity_as_a_string(
    api: RestApi, tenant: Tenant
) -> None:
    def with_spec(spec: object) -> dict[str, object]:
        return {"command": {"type": "CREATE", "payload": {"symbol": "AAPL", "order_side": "BUY", "spec": spec}}}

    assert (await api.submit(tenant, with_spec({"Market": {"quantity": "10"}}))).status_code == 202
    for spec in (
        {"Market": {"quantity": 10}},
        {"market": {"quantity": "10"}},
        {"Market": {"quantity": "10"}, "Limit": {"quantity": "10", "price": "1"}},
        {},
    ):
        problem(await api.submit(tenant, with_spec(spec)), 422, "invalid_command")


async def test_a_create_has_symbol_side_and_spec_and_may_have_a_route_strategy(api: RestApi, tenant: Tenant) -> None:
    body = create_body()
    payload = body["command"]["payload"]  # type: ignore[index]
    assert (await api.submit(tenant, body)).json()["route_strategy"] == "SMART"
    payload["route_strategy"] = "SMART"
    assert (await api.submit(tenant, body)).status_code == 202
    for field in ("symbol", "order_side", "spec"):
        less = create_body()
        del less["command"]["payload"][field]  # type: ignore[index]
        problem(await api.submit(tenant, less), 422, "invalid_command")


async def test_ids_are_uuids_and_times_are_rfc_3339(api: RestApi, tenant: Tenant) -> None:
    action = (await api.submit(tenant, create_body())).json()
    for field in ("id", "intent_id", "account_id", "organization_id", "receipt_id"):
        assert str(UUID(action[field])) == action[field]
    for written in (action["created_at"], action["execution"]["updated_at"]):
        assert datetime.fromisoformat(written).utcoffset() is not None
        assert "T" in written


async def test_intents_need_no_plan_on_paper_and_trading_live_on_live(api: RestApi, pool: Pool) -> None:
    for environment, entitlements, status in (
        (Environment.PAPER, frozenset[str](), 202),
        (Environment.LIVE, frozenset[str](), 403),
        (Environment.LIVE, frozenset({CONTROLS_PREMIUM}), 403),
        (Environment.LIVE, frozenset({TRADING_LIVE}), 202),
    ):
        tenant = await a_tenant(pool, environment=environment, entitlements=entitlements)
        answer = await api.submit(tenant, create_body())
        assert answer.status_code == status, answer.text
        if status == 403:
            problem(answer, 403, "entitlement_required")
        assert (await api.read(tenant)).status_code == 200


async def test_what_controls_refuse_writes_neither_action_nor_outbox_record(api: RestApi, pool: Pool) -> None:
    for written, environment in enumerate((Environment.LIVE, Environment.PAPER)):
        tenant = await a_tenant(pool, environment=environment)
        url = f"/v1/controls/accounts/{tenant.account.id}/symbols/AAPL"
        switched = await api.client.put(url, json={"manually_disabled": True}, headers=as_user(tenant))
        assert switched.status_code == 200, switched.text
        answer = await api.submit(tenant, create_body())
        assert (answer.status_code, answer.json()["code"]) == (422, "controls_refused")
        assert [await rows(pool, table) for table in ("intent_actions", "intent_outbox")] == [written, written]
        assert (await api.submit(tenant, create_body(symbol="MSFT"))).status_code == 202


async def test_action_records_are_append_only(api: RestApi, tenant: Tenant, pool: Pool) -> None:
    await api.submit(tenant, create_body())
    for change in ("update intent_actions set symbol = 'MSFT'", "delete from intent_actions"):
        with pytest.raises(asyncpg.PostgresError) as refused:
            await pool.execute(change)
        assert refused.value.sqlstate == "OB001"


async def test_the_four_order_kinds_are_taken_and_no_other(api: RestApi, tenant: Tenant) -> None:
    prices = {"Market": {}, "Limit": {"price": "2"}, "Stop": {"stop_price": "1"}}
    for kind, spec in {**prices, "StopLimit": {"price": "2", "stop_price": "1"}}.items():
        answer = await api.submit(tenant, create_body(kind, **spec))
        assert answer.status_code == 202, answer.text
        name = {"StopLimit": "STOP_LIMIT"}.get(kind, kind.upper())
        assert (answer.json()["order_type"], answer.json()["quantity"]) == (name, "10")
    problem(await api.submit(tenant, create_body("Iceberg")), 422, "invalid_command")


async def test_a_body_must_be_called_json(api: RestApi, tenant: Tenant) -> None:
    body = json.dumps(create_body()).encode()
    assert (await api.submit_raw(tenant, body, {"content-type": "application/json; charset=utf-8"})).status_code == 202
    for other in ("text/plain", "application/x-www-form-urlencoded", ""):
        problem(await api.submit_raw(tenant, body, {"content-type": other}), 415, "not_json")


async def test_stats_default_to_the_last_day(api: RestApi, tenant: Tenant) -> None:
    await api.submit(tenant, create_body())
    default = await api.read(tenant, "/stats")
    named = await api.read(tenant, "/stats", time_window="last_day")
    assert (default.status_code, named.status_code) == (200, 200), default.text
    window = default.json().pop("window")
    length = datetime.fromisoformat(window["until"]) - datetime.fromisoformat(window["since"])
    assert 0.9 < length.total_seconds() / 86_400 < 1.1
    assert {**default.json(), "window": None} == {**named.json(), "window": None}
    problem(await api.read(tenant, "/stats", time_window="yesterday"), 400, "invalid_parameter")


async def test_every_intent_path_is_below_the_account_and_below_v1(api: RestApi, tenant: Tenant) -> None:
    created = (await api.submit(tenant, create_body())).json()
    assert intents_of(tenant) == f"/v1/accounts/{tenant.account.id}/intents"
    for below in ("", f"/{created['intent_id']}", f"/{created['intent_id']}/actions"):
        assert (await api.read(tenant, below)).status_code == 200
        elsewhere = f"/accounts/{tenant.account.id}/intents{below}"
        assert (await api.client.get(elsewhere, headers={"x-api-key": tenant.key})).status_code == 404
