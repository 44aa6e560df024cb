"""Lists of orders, executions and positions: what they show, that pages join, and what is refused."""

import asyncio
import itertools
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from openbell_server.adapters.postgres.execution.execution import PostgresExecutionStore
from openbell_server.application.intents import read_orders
from openbell_server.application.money import read_positions
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.identifiers import IntentId, Symbol
from openbell_server.domain.orders.broker_reports import ExecutionChange, Refused, ReportStatus
from openbell_server.domain.orders.positions import PositionCause
from support.brokers.scripted_broker import Harness
from support.builders.tenant import (
    Tenant,
    a_cancel,
    a_limit_create,
    a_market_create,
    a_report,
    a_tenant,
    accept,
    an_account,
    an_execution,
    new_id,
)
from support.rest.rest_api import RestApi, pointers, problem


def url_of(tenant: Tenant, what: str) -> str:
    return f"/v1/accounts/{tenant.account.id}/{what}" if what.startswith(("positions", "intents")) else f"/v1/{what}"


async def read(api: RestApi, tenant: Tenant, what: str, **query: str | int) -> dict[str, Any]:
    answer = await api.client.get(url_of(tenant, what), params=query, headers={"x-api-key": tenant.key})
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


async def listed(
    api: RestApi, tenant: Tenant, what: str, query: Mapping[str, str | int], limit: int = 3
) -> list[dict[str, Any]]:
    """Every page to the end."""
    seen: list[dict[str, Any]] = []
    asked = {**query, "limit": limit}
    for _ in range(100):
        page = await read(api, tenant, what, **asked)
        assert len(page["data"]) <= limit
        seen += page["data"]
        if page["next_cursor"] is None:
            return seen
        asked["next_cursor"] = page["next_cursor"]
    raise AssertionError("the list has no end")


async def test_an_order_is_told_in_the_words_of_its_event(api: RestApi, harness: Harness) -> None:
    intent, name = await harness.working()
    await harness.report(a_report(ReportStatus.WORKING, [an_execution(1, 4, 2)], client_order_id=name))
    (order,) = (await read(api, harness.tenant, "orders"))["data"]
    assert order == {
        "account_id": str(harness.tenant.account.id),
        "intent_id": str(intent),
        "client_order_id": name,
        "symbol": "AAPL",
        "order_side": "BUY",
        "order_type": "LIMIT",
        "quantity": "10",
        "limit_price": "1.50",
        "time_in_force": "GOOD_TILL_CANCEL",
        "status": "PARTIALLY_FILLED",
        "pending": "NONE",
        "certainty": "CONFIRMED",
        "filled_quantity": "4",
        "leaves_quantity": "6",
        "average_price": "2",
        "broker_order_ids": order["broker_order_ids"],
        "created_at": order["created_at"],
        "updated_at": order["updated_at"],
    }
    assert order["created_at"] < order["updated_at"]
    for direction in ("asc", "desc"):
        only = await read(api, harness.tenant, "orders", intent_id=str(intent), order=direction)
        assert only == {"data": [order], "next_cursor": None, "last_cursor": None}
    for nobodys in (str(new_id()), str(UUID(int=0)), str(UUID(int=2**128 - 1))):
        assert (await read(api, harness.tenant, "orders", intent_id=nobodys))["data"] == []


async def test_a_refused_order_says_why(api: RestApi, harness: Harness) -> None:
    harness.broker.script.append(Refused("E7", "no money"))
    await harness.accept(a_limit_create())
    await harness.work()
    (order,) = (await read(api, harness.tenant, "orders", status="CLOSED"))["data"]
    assert (order["status"], order["reason"]["broker_code"], order["reason"]["broker_text"]) == (
        "REJECTED",
        "E7",
        "no money",
    )


@pytest.fixture
async def mixed(harness: Harness) -> list[tuple[str, str, bool]]:
    """Orders of two symbols, some replaced and some over, in the order they were asked for."""
    creates = [a_market_create(symbol="AAPL" if n % 3 else "BRK/B") for n in range(8)]
    accepted = await accept(harness.pool, *(harness.tenant.submission(create) for create in creates))
    await harness.pool.execute(
        "update orders set standing = 'CLOSED', close_reason = 'FILLED', pending = 'NONE' where order_id = any($1)",
        [one.intent_id for one in accepted[::2]],
    )
    await accept(harness.pool, *(harness.tenant.submission(a_cancel(one.intent_id)) for one in accepted[1::2]))
    rows = await harness.pool.fetch(
        "select o.order_id, o.symbol, o.standing from orders o join intent_actions a"
        " on a.intent_id = o.order_id and a.seq = 1 order by a.intent_id"
    )
    return [(str(row["order_id"]), row["symbol"], row["standing"] == "CLOSED") for row in rows]


@pytest.mark.parametrize("span", [1, 3, 10_000])
async def test_a_filter_lists_the_orders_that_pass_it_in_order(
    api: RestApi,
    harness: Harness,
    mixed: list[tuple[str, str, bool]],
    span: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(read_orders, "NUMBERS_MAX", span)
    for status, symbol in itertools.product((None, "ALL", "WORKING", "CLOSED"), (None, "aapl", "BRK/B", "NONE")):
        wanted = {"WORKING": {False}, "CLOSED": {True}}.get(status or "", {True, False})
        expected = [
            order_id
            for order_id, of_symbol, closed in mixed
            if closed in wanted and (symbol or of_symbol).upper() == of_symbol
        ]
        query = {name: value for name, value in (("status", status), ("symbol", symbol)) if value is not None}
        for direction, where in itertools.product(
            ("asc", "desc"), ({}, {"account_id": str(harness.tenant.account.id)})
        ):
            asked = {**query, **where, "order": direction}
            found = [order["intent_id"] for order in await listed(api, harness.tenant, "orders", asked, 2)]
            assert found == (expected if direction == "asc" else expected[::-1])
            assert await listed(api, harness.tenant, "orders", {**asked, "order_side": "SELL"}) == []


async def test_an_order_that_is_asked_for_between_pages_is_on_a_later_one(api: RestApi, harness: Harness) -> None:
    await accept(harness.pool, *(harness.tenant.submission() for _ in range(3)))
    first = await read(api, harness.tenant, "orders", limit=2)
    # The ids of one millisecond have no order.
    await asyncio.sleep(0.01)
    (late,) = await accept(harness.pool, harness.tenant.submission())
    rest = await read(api, harness.tenant, "orders", next_cursor=first["next_cursor"])
    seen = [order["intent_id"] for page in (first, rest) for order in page["data"]]
    assert (len(set(seen)), len(seen), seen[-1]) == (4, 4, str(late.intent_id))
    assert (await read(api, harness.tenant, "orders", next_cursor=rest["last_cursor"]))["data"] == []


REFUSED: list[tuple[str, dict[str, str]]] = [
    ("orders", {"status": "OPEN"}),
    ("orders", {"order_side": "buy"}),
    ("orders", {"symbol": "a b"}),
    ("orders", {"limit": "0"}),
    ("orders", {"order": "DESC"}),
    ("orders", {"account_id": "7"}),
    ("orders", {"certainty": "unknown"}),
    ("orders", {"since": "2026-01-05T09:30:00Z"}),
    ("executions", {"intent_id": "7"}),
    ("executions", {"since": "yesterday"}),
    ("executions", {"until": "2026-01-05"}),
    ("executions", {"status": "ALL"}),
    ("positions", {"symbol": "AAPL"}),
]


async def test_a_filter_that_is_unknown_or_misspelled_is_refused(api: RestApi, tenant: Tenant) -> None:
    for what, query in REFUSED:
        url, headers = url_of(tenant, what), {"x-api-key": tenant.key}
        told = problem(await api.client.get(url, params=query, headers=headers), 400, "invalid_parameter")
        assert pointers(told) == [f"/{name}" for name in query]


async def test_a_cursor_opens_only_the_list_and_the_filter_it_was_given_for(api: RestApi, harness: Harness) -> None:
    await accept(harness.pool, *(harness.tenant.submission() for _ in range(3)))
    cursor = (await read(api, harness.tenant, "orders", limit=1))["next_cursor"]
    headers = {"x-api-key": harness.tenant.key}
    others = [("orders", {"status": "WORKING"}), ("orders", {"order": "desc"}), ("executions", {}), ("intents", {})]
    for what, query in others:
        url = url_of(harness.tenant, what)
        answer = await api.client.get(url, params={**query, "next_cursor": cursor}, headers=headers)
        problem(answer, 400, "invalid_cursor")


async def filled(harness: Harness, numbers: range) -> tuple[str, str]:
    """An order with one execution for every number."""
    intent, name = await harness.working()
    fills = [an_execution(number, 1, 2) for number in numbers]
    await harness.report(a_report(ReportStatus.WORKING, fills, client_order_id=name))
    return str(intent), name


async def test_executions_are_listed_as_they_stand(api: RestApi, harness: Harness) -> None:
    intent, name = await filled(harness, range(1, 4))
    report = a_report(ReportStatus.WORKING, client_order_id=name)
    await harness.report(a_report(ReportStatus.WORKING, [an_execution(4, 1, fee="0.50")], client_order_id=name))
    changes = (
        ExecutionChange(execution_id="e2", revision=1, quantity=Decimal(1), price=Decimal("2.5"), fee=Decimal("-0.1")),
        ExecutionChange(execution_id="e2", revision=2, quantity=Decimal(1), price=Decimal("2.5")),
        ExecutionChange(execution_id="e3", revision=1, quantity=Decimal(0), price=Decimal(0)),
    )
    await harness.report(replace(report, changes=changes))
    rows = (await read(api, harness.tenant, "executions"))["data"]
    assert [(row["execution_id"], row["kind"], row["quantity"], row["price"]) for row in rows] == [
        ("e1", "NORMAL", "1", "2"),
        ("e2", "CORRECTION", "1", "2.5"),
        ("e3", "BUST", "0", rows[2]["price"]),
        ("e4", "NORMAL", "1", "1"),
    ]
    assert [row.get("fee") for row in rows] == [None, "-0.1", None, "0.50"]
    assert set(rows[0]) == {
        *("account_id", "execution_id", "intent_id", "symbol", "order_side", "kind", "quantity", "price"),
        *("executed_at", "recorded_at"),
    }
    assert (rows[2]["reported_quantity"], rows[2]["reported_price"]) == ("1", "2")
    assert rows[2]["changed_at"] > rows[2]["recorded_at"]
    assert {row["intent_id"] for row in rows} == {intent}


@pytest.mark.parametrize("at_once", [False, True])
async def test_every_execution_is_on_one_page_also_where_many_have_the_same_moment(
    api: RestApi, harness: Harness, *, at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = await filled(harness, range(1, 5))
    second, _ = await filled(harness, range(5, 8))
    if at_once:
        await harness.pool.execute(
            "alter table executions disable trigger append_only; update executions set recorded_at ="
            " (select min(recorded_at) from executions)"
            " where execution_id <> 'e7'; alter table executions enable trigger append_only"
        )
    every = [f"e{number}" for number in range(1, 8)]
    for limit, span in itertools.product((1, 2, 3, 7, 50), (1, 2, 1000)):
        monkeypatch.setattr(read_orders, "EXECUTIONS_MAX", span)

        async def ids(limit: int = limit, **query: str | int) -> list[str]:
            shown = [row["execution_id"] for row in await listed(api, harness.tenant, "executions", query, limit)]
            newest_first = await listed(api, harness.tenant, "executions", {**query, "order": "desc"}, limit)
            assert [row["execution_id"] for row in newest_first] == shown[::-1]
            return shown

        assert await ids() == every
        assert await ids(symbol="AAPL") == every
        assert await ids(symbol="MSFT") == []
        assert (await ids(intent_id=first), await ids(intent_id=second)) == (every[:4], every[4:])
        assert await ids(intent_id=str(new_id())) == []


async def test_since_is_inside_and_until_is_outside(api: RestApi, harness: Harness) -> None:
    await filled(harness, range(1, 4))
    moments = [row["recorded_at"] for row in (await read(api, harness.tenant, "executions"))["data"]]
    assert moments == sorted(set(moments), key=datetime.fromisoformat)
    between = await read(api, harness.tenant, "executions", since=moments[1], until=moments[2])
    assert [row["recorded_at"] for row in between["data"]] == [moments[1]]


async def test_positions_are_what_is_held_and_say_whose_word_they_are(api: RestApi, harness: Harness) -> None:
    assert await read(api, harness.tenant, "positions") == {
        "data": [],
        "next_cursor": None,
        "last_cursor": None,
        "account_seq": 0,
        "source": "EXECUTIONS",
        "complete": True,
        "cost_method": "AVERAGE",
    }
    await filled(harness, range(1, 4))
    counted = await read(api, harness.tenant, "positions")
    assert [(row["symbol"], row["quantity"]) for row in counted["data"]] == [("AAPL", "3")]
    head = await harness.pool.fetchval("select event_no from account_counters")
    assert (counted["account_seq"], counted["source"], "as_of" in counted) == (head, "EXECUTIONS", False)
    await harness.pool.execute("update account_counters set positions_as_of = now()")
    await harness.pool.execute("update positions set quantity = 0")
    flat = await read(api, harness.tenant, "positions")
    assert (flat["data"], flat["source"], "as_of" in flat) == ([], "BROKER", True)


async def test_each_change_of_a_position_is_listed_with_its_cause_and_what_was_held_after_it(
    api: RestApi, harness: Harness
) -> None:
    intent, _ = await filled(harness, range(1, 4))
    async with PostgresExecutionStore(harness.pool).account_transaction(harness.account) as transaction:
        average, value = Decimal("187.450"), Decimal("-187.50")
        await transaction.add_to_position(Symbol("MSFT"), Decimal(-2), PositionCause.UNEXPLAINED, average_price=average)
        assert (
            await transaction.add_to_position(
                Symbol("AAPL"), Decimal(0), PositionCause.EXECUTION, IntentId(UUID(intent))
            )
            == 3
        )
        await transaction.add_to_position(Symbol("AAPL"), Decimal(-1), PositionCause.EXTERNAL_ORDER, value=value)
    wanted = [
        ("AAPL", "3", "EXECUTION", str(intent), "3", None, None),
        ("MSFT", "-2", "UNEXPLAINED", None, "-2", None, "187.450"),
        ("AAPL", "-1", "EXTERNAL_ORDER", None, "2", "-187.50", None),
    ]
    optional = ("value", "average_price")

    async def shown(**query: str) -> list[tuple[object, ...]]:
        rows = await listed(api, harness.tenant, "positions/changes", query, limit=2)
        return [
            (row["symbol"], row["change"], row["cause"], row.get("intent_id"), row["quantity"], *map(row.get, optional))
            for row in rows
        ]

    assert await shown() == wanted
    assert await shown(order="desc") == wanted[::-1]
    assert await shown(symbol="aapl") == wanted[::2]
    assert await shown(symbol="AAPL", order="desc") == wanted[::-2]
    refused = await api.client.get(
        url_of(harness.tenant, "positions/changes"), params={"symbol": "?"}, headers={"x-api-key": harness.tenant.key}
    )
    assert pointers(problem(refused, 400, "invalid_parameter")) == ["/symbol"]


async def test_more_positions_than_are_shown_is_said(
    api: RestApi, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.pool.execute(
        "insert into positions select organization_id, account_id, s, -1, now() from accounts, unnest(array['A','B']) s"
    )
    monkeypatch.setattr(read_positions, "POSITIONS_MAX", 1)
    told = await read(api, harness.tenant, "positions")
    assert ([row["quantity"] for row in told["data"]], told["complete"]) == (["-1"], False)


async def test_no_organization_reads_another_s(api: RestApi, harness: Harness) -> None:
    intent, _ = await filled(harness, range(1, 2))
    other_organization = await a_tenant(harness.pool)
    for what in ("orders", "executions", "positions", "positions/changes"):
        headers, account_id = {"x-api-key": other_organization.key}, {"account_id": str(harness.tenant.account.id)}
        url, query = url_of(harness.tenant, what), {} if what.startswith("positions") else account_id
        problem(await api.client.get(url, params=query, headers=headers), 404, "not_found")
        if query:
            for asked in ({}, {"intent_id": intent}, {"intent_id": intent, "order": "desc"}):
                assert (await read(api, other_organization, what, **asked))["data"] == []


async def test_lists_are_of_every_account_that_the_caller_may_use(api: RestApi, harness: Harness) -> None:
    """Beside it one of the organization's other accounts, and one of the other environment."""
    organization_id = harness.tenant.account.organization_id
    await filled(harness, range(1, 2))
    accounts = [harness.tenant.account]
    for environment in (Environment.PAPER, Environment.LIVE):
        account = await an_account(harness.pool, organization_id, environment)
        await accept(harness.pool, replace(harness.tenant, account=account).submission())
        accounts.append(account)
    of_environment = [str(each.id) for each in accounts if each.environment is Environment.PAPER]
    for order in ("asc", "desc"):
        orders = await listed(api, harness.tenant, "orders", {"order": order}, 1)
        assert {row["account_id"] for row in orders} == set(of_environment)
        ids = [row["intent_id"] for row in orders]
        assert ids == sorted(ids, reverse=order == "desc")
        executions = await listed(api, harness.tenant, "executions", {"order": order}, 1)
        assert [row["account_id"] for row in executions] == of_environment[:1]
    for status in ("WORKING", "ALL"):
        only = await listed(api, harness.tenant, "orders", {"status": status, "account_id": of_environment[1]})
        assert [row["account_id"] for row in only] == of_environment[1:]


async def test_unknown_orders_can_be_listed_alone(api: RestApi, harness: Harness) -> None:
    first, second = [(await harness.working())[0] for _ in range(2)]
    await harness.pool.execute("update orders set certainty = 'UNKNOWN' where order_id = $1", second)
    for certainty, intent in (("UNKNOWN", second), ("CONFIRMED", first)):
        found = await listed(api, harness.tenant, "orders", {"certainty": certainty, "order": "desc"})
        assert [row["intent_id"] for row in found] == [str(intent)]
