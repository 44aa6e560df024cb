"""Alpaca's trading API: orders, what refuses them, and what its format has no value for."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from decimal import Decimal
from uuid import uuid4

import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.execution.execution import PostgresExecutionStore
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.identifiers import client_order_id
from openbell_server.domain.money.balances import Balances
from openbell_server.domain.orders.broker_reports import Refused, ReportStatus, Unknown
from support.brokers.scripted_broker import Harness
from support.builders.tenant import a_report, a_tenant, an_account, an_execution
from support.rest.alpaca_front import LIMIT, MARKET, AlpacaBot, alpaca_bot
from support.rest.rest_api import control_path, limited, rest_api


@pytest.fixture
async def bot(harness: Harness) -> AsyncIterator[AlpacaBot]:
    async with alpaca_bot(harness.pool, harness.tenant) as bot:
        yield bot


async def test_it_is_off_by_default(pool: Pool) -> None:
    tenant = await a_tenant(pool)
    async with rest_api(pool) as api:
        answer = await AlpacaBot(api.client, tenant.account.id, tenant.key).submit()
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_an_order_is_accepted_pending_and_its_receipt_is_named(bot: AlpacaBot) -> None:
    answer = await bot.submit(client_order_id="mine")
    order = answer.json()
    assert (answer.status_code, order["status"], order["client_order_id"]) == (200, "pending_new", "mine")
    assert (order["qty"], order["filled_qty"], order["side"], order["type"]) == ("10", "0", "buy", "market")
    receipt = await bot.client.get(
        f"/v1/accounts/{bot.account_id}/receipts/{answer.headers['openbell-receipt-id']}",
        headers={"x-api-key": bot.key},
    )
    assert receipt.status_code == 200


async def test_an_order_fills_and_is_found_by_both_ids(bot: AlpacaBot, harness: Harness) -> None:
    order = (await bot.submit(**LIMIT, client_order_id="mine")).json()
    (door,) = await harness.work()
    filled = a_report(
        ReportStatus.FILLED, [an_execution(1, 10, 2)], client_order_id=client_order_id(door.action.order_action_id)
    )
    await harness.report(filled)
    by_id = (await bot.ask("GET", f"/orders/{order['id']}")).json()
    by_name = (await bot.ask("GET", "/orders:by_client_order_id", client_order_id="mine")).json()
    assert by_id == by_name
    assert (by_id["status"], by_id["filled_qty"], by_id["filled_avg_price"]) == ("filled", "10", "2")
    assert by_id["filled_at"] == by_id["updated_at"]
    (position,) = (await bot.ask("GET", "/positions")).json()
    assert (position["symbol"], position["qty"], position["side"]) == ("AAPL", "10", "long")
    assert (position["avg_entry_price"], position["cost_basis"], position["market_value"]) == ("2", "20", None)
    assert position["openbell"]["unknown"] == ["qty_available", "market_value", "current_price", "unrealized_pl"]
    assert (await bot.ask("GET", "/positions/AAPL")).json() == position
    assert (await bot.ask("GET", "/positions/MSFT")).status_code == 404


async def test_an_order_with_the_same_id_is_the_same_order(bot: AlpacaBot) -> None:
    first, second = [await bot.submit(client_order_id="mine") for _ in range(2)]
    assert first.json()["id"] == second.json()["id"]
    assert "idempotency-replayed" not in first.headers
    assert second.headers["idempotency-replayed"] == "true"
    other = await bot.submit(client_order_id="mine", qty="11")
    assert (other.status_code, other.json()["message"]) == (422, "client_order_id must be unique")
    assert len(await bot.listed()) == 1


async def test_orders_without_an_id_are_different_orders_with_ids_that_find_them(bot: AlpacaBot) -> None:
    orders = [(await bot.submit()).json() for _ in range(2)]
    assert orders[0]["id"] != orders[1]["id"]
    name = orders[1]["client_order_id"]
    assert (await bot.ask("GET", "/orders:by_client_order_id", client_order_id=name)).json()["id"] == orders[1]["id"]


async def test_a_replace_keeps_the_id_and_counts_what_shall_still_fill(bot: AlpacaBot, harness: Harness) -> None:
    order = (await bot.submit(**LIMIT)).json()
    (door,) = await harness.work()
    await harness.report(
        a_report(
            ReportStatus.WORKING, [an_execution(1, 4, 2)], client_order_id=client_order_id(door.action.order_action_id)
        )
    )
    answer = await bot.ask("PATCH", f"/orders/{order['id']}", {"qty": "5", "limit_price": 1.75})
    assert (answer.status_code, answer.json()["id"], answer.json()["status"]) == (200, order["id"], "pending_replace")
    path = f"/v1/accounts/{bot.account_id}/intents/{order['id']}"
    action = (await bot.client.get(path, headers={"x-api-key": bot.key})).json()
    assert (action["action_type"], action["quantity"], action["limit_price"]) == ("REPLACE", "9", "1.75")


async def test_a_cancel_is_answered_without_a_body_and_ends_the_order(bot: AlpacaBot, harness: Harness) -> None:
    order = (await bot.submit(**LIMIT)).json()
    await harness.work()
    answer = await bot.ask("DELETE", f"/orders/{order['id']}")
    assert (answer.status_code, answer.content) == (204, b"")
    assert (await bot.ask("GET", f"/orders/{order['id']}")).json()["status"] == "pending_cancel"


async def test_every_working_order_is_canceled_at_once(bot: AlpacaBot, harness: Harness) -> None:
    orders = [(await bot.submit(**LIMIT)).json()["id"] for _ in range(3)]
    await harness.work()
    answer = await bot.ask("DELETE", "/orders")
    assert answer.status_code == 207
    assert answer.json() == [{"id": each, "status": 200} for each in orders]


async def test_an_order_whose_outcome_is_unknown_is_pending_and_says_so(bot: AlpacaBot, harness: Harness) -> None:
    harness.broker.script.append(Unknown("no answer"))
    order = (await bot.submit(**LIMIT)).json()
    await harness.work()
    shown = (await bot.ask("GET", f"/orders/{order['id']}")).json()
    assert (shown["status"], shown["openbell"]["certainty"]) == ("pending_new", "UNKNOWN")
    assert [each["id"] for each in await bot.listed()] == [order["id"]]


async def test_an_order_that_the_broker_refused_says_why(bot: AlpacaBot, harness: Harness) -> None:
    harness.broker.script.append(Refused("E7", "no money"))
    await bot.submit(**LIMIT)
    await harness.work()
    (order,) = await bot.listed(status="closed")
    assert (order["status"], order["openbell"]["reason"]["broker_text"]) == ("rejected", "no money")
    assert order["failed_at"] == order["updated_at"]


async def test_a_control_that_refuses_names_its_receipt(bot: AlpacaBot, harness: Harness) -> None:
    headers = {"x-api-key": bot.key}
    rule = {"mode": "HARD", "parameters": {"quantity": "5"}, "reason": "tests"}
    set_rule = await bot.client.put(control_path("rules/QTY_MAX", harness.tenant), json=rule, headers=headers)
    assert set_rule.status_code in {200, 201}, set_rule.text
    answer = await bot.submit()
    assert (answer.status_code, answer.headers["openbell-code"]) == (403, "controls_refused")
    assert "QTY_MAX" in answer.json()["message"]
    assert answer.json()["openbell"]["receipt"]["id"] == answer.headers["openbell-receipt-id"]
    assert await bot.listed(status="all") == []


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"qty": "0"}, "qty"),
        ({"qty": None, "notional": "100"}, "notional"),
        ({"qty": True}, "qty"),
        ({"qty": "1e3"}, "qty"),
        ({"side": "hold"}, "side"),
        ({"type": "trailing_stop", "trail_price": "1"}, "trail_price"),
        ({"type": "trailing_stop"}, "type"),
        ({"type": "limit"}, "limit_price"),
        ({"limit_price": "1"}, "limit_price"),
        ({"time_in_force": "always"}, "time_in_force"),
        ({"order_class": "bracket"}, "order_class"),
        ({"take_profit": {"limit_price": "2"}}, "take_profit"),
        ({"extended_hours": True}, "extended_hours"),
        ({"client_order_id": "two words"}, "client_order_id"),
        ({"client_order_id": "x" * 129}, "client_order_id"),
        ({"symbol": "not a symbol"}, "symbol"),
        ({"symbol": ["AAPL"]}, "symbol"),
    ],
)
async def test_what_cannot_be_carried_out_is_refused_by_the_name_of_the_field(
    bot: AlpacaBot, wrong: dict[str, object], name: str
) -> None:
    answer = await bot.submit(**wrong)
    assert answer.status_code == 422, answer.text
    assert answer.json()["message"].startswith(f"{name} "), answer.text
    assert await bot.listed(status="all") == []


async def test_an_order_in_extended_hours_is_a_day_order_that_says_so(pool: Pool) -> None:
    tenant = await a_tenant(pool)
    async with alpaca_bot(pool, tenant) as bot:
        answer = await bot.submit(**{**LIMIT, "time_in_force": "day"}, extended_hours=True)
    order = answer.json()
    assert (order["time_in_force"], order["extended_hours"]) == ("day", True)


async def test_lists_filter_by_state_symbol_side_and_time(bot: AlpacaBot) -> None:
    first = (await bot.submit(symbol="AAPL")).json()
    second = (await bot.submit(symbol="MSFT")).json()
    third = (await bot.submit(symbol="IBM", side="sell")).json()

    async def ids(**params: str) -> list[str]:
        return [order["id"] for order in await bot.listed(**params)]

    assert await ids() == [third["id"], second["id"], first["id"]]
    assert await ids(direction="asc") == [first["id"], second["id"], third["id"]]
    assert await ids(limit="1") == [third["id"]]
    assert await ids(symbols="MSFT") == [second["id"]]
    assert await ids(symbols="aapl,IBM") == [third["id"], first["id"]]
    assert await ids(side="sell") == [third["id"]]
    assert await ids(after=first["submitted_at"]) == [third["id"], second["id"]]
    assert await ids(until=third["submitted_at"]) == [second["id"], first["id"]]
    assert await ids(after=first["submitted_at"], until=third["submitted_at"], direction="asc") == [second["id"]]
    assert await ids(status="closed") == []


@pytest.mark.parametrize(
    "params", [{"limit": "501"}, {"limit": "x"}, {"status": "new"}, {"after": "x"}, {"asked": "1"}]
)
async def test_a_list_with_a_wrong_parameter_is_refused(bot: AlpacaBot, params: dict[str, str]) -> None:
    answer = await bot.ask("GET", "/orders", **params)
    assert (answer.status_code, answer.headers["openbell-code"]) == (422, "invalid_parameter")


async def test_the_account_has_the_balances_that_its_broker_reported(bot: AlpacaBot, harness: Harness) -> None:
    as_of = datetime(2026, 1, 5, 14, 30, tzinfo=UTC)
    balances = Balances(currency="USD", cash=Decimal("-12.50"), buying_power=Decimal(7), as_of=as_of)
    async with PostgresExecutionStore(harness.pool).account_transaction(harness.account) as transaction:
        await transaction.save_balances(balances)
    account = (await bot.ask("GET", "/account")).json()
    assert (account["currency"], account["cash"], account["buying_power"]) == ("USD", "-12.50", "7")
    assert account["openbell"]["unknown"] == ["equity", "initial_margin", "maintenance_margin"]
    assert account["openbell"]["balances_as_of"] == "2026-01-05T14:30:00Z"


async def test_the_account_the_clock_and_an_asset_say_what_is_not_known(bot: AlpacaBot) -> None:
    account = (await bot.ask("GET", "/account")).json()
    assert (account["id"], account["status"], account["trading_blocked"]) == (str(bot.account_id), "ACTIVE", False)
    assert (account["cash"], account["openbell"]["unknown"]) == (
        None,
        ["currency", "cash", "buying_power", "equity", "initial_margin", "maintenance_margin"],
    )
    clock = (await bot.ask("GET", "/clock")).json()
    assert (clock["next_open"] > clock["timestamp"], clock["next_close"] > clock["timestamp"]) == (True, True)
    assert clock["is_open"] is (clock["next_close"] < clock["next_open"])
    assert (await bot.ask("GET", "/assets/aapl")).json()["symbol"] == "AAPL"
    assert (await bot.ask("GET", "/assets/not%20one")).status_code == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/watchlists"),
        ("GET", "/assets"),
        ("DELETE", "/positions"),
        ("DELETE", "/positions/AAPL"),
        ("POST", "/watchlists"),
        ("GET", "/account/portfolio/history"),
        ("GET", "/orders/x"),
    ],
)
async def test_what_is_not_supported_is_answered_501(bot: AlpacaBot, method: str, path: str) -> None:
    answer = await bot.ask(method, path)
    assert (answer.status_code, answer.json()["code"]) == (501, 50110000)


async def test_without_a_key_of_the_accounts_organization_nothing_is_seen(pool: Pool) -> None:
    mine, theirs = await a_tenant(pool), await a_tenant(pool)
    live = await an_account(pool, mine.account.organization_id, Environment.LIVE)
    async with alpaca_bot(pool, mine) as bot:
        order = (await bot.submit()).json()["id"]
        for account, key, status, code in (
            (mine.account.id, mine.key[:-1], 401, "unauthenticated"),
            (mine.account.id, "", 401, "unauthenticated"),
            ("", mine.key, 401, "unauthenticated"),
            (f"{mine.account.id} ", mine.key, 401, "unauthenticated"),
            (mine.account.id, theirs.key, 404, "not_found"),
            (theirs.account.id, mine.key, 404, "not_found"),
            (uuid4(), mine.key, 404, "not_found"),
            (live.id, mine.key, 403, "environment_mismatch"),
        ):
            other = AlpacaBot(bot.client, account, key)
            for method, path, body in (
                ("GET", "/account", None),
                ("GET", "/clock", None),
                ("GET", "/orders", None),
                ("GET", f"/orders/{order}", None),
                ("GET", "/positions", None),
                ("POST", "/orders", MARKET),
                ("PATCH", f"/orders/{order}", {"qty": "11"}),
                ("DELETE", f"/orders/{order}", None),
                ("DELETE", "/orders", None),
            ):
                answer = await other.ask(method, path, body)
                assert (answer.status_code, answer.headers["openbell-code"]) == (status, code), (method, path, account)
        assert len(await bot.listed()) == 1


async def test_a_key_in_another_header_or_twice_is_refused(bot: AlpacaBot) -> None:
    names = [("apca-api-key-id", str(bot.account_id)), ("apca-api-secret-key", bot.key)]
    for headers, status in (
        ([("x-api-key", bot.key), names[0]], 401),
        ([*names, names[1]], 400),
        ([*names, names[0]], 401),
        (names, 200),
    ):
        answer = await bot.client.get("/alpaca/v2/orders", headers=headers)
        assert answer.status_code == status, headers


async def test_commands_and_reads_count_toward_their_limits(pool: Pool) -> None:
    tenant = await a_tenant(pool)
    limit = limited(submits_per_second=2, cancels_per_second=1, reads_per_second=3)
    async with alpaca_bot(pool, tenant, limit) as bot:
        orders = [await bot.submit() for _ in range(3)]
        assert [each.status_code for each in orders] == [200, 200, 429]
        assert (orders[2].json()["code"], int(orders[2].headers["retry-after"])) == (42910000, 1)
        order = orders[0].json()["id"]
        assert [(await bot.ask("DELETE", f"/orders/{order}")).status_code for _ in range(2)] == [204, 429]
        assert [(await bot.ask("GET", "/clock")).status_code for _ in range(4)] == [200, 200, 200, 429]
