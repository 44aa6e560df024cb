"""Lists of orders, executions, positions and past events with both clients and by command."""

import asyncio
import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from openbell import AsyncClient, Client, EventMissed
from openbell.cli import app

RUN = CliRunner(env={"OPENBELL_API_KEY": "key-1", "OPENBELL_ACCOUNT": "a", "NO_COLOR": None, "COLUMNS": "200"})
NOON = "2026-01-05T12:00:00Z"
ORDER: dict[str, Any] = {
    "account_id": "a",
    "intent_id": "i-1",
    "client_order_id": "c",
    "symbol": "AAPL",
    "order_side": "BUY",
    "order_type": "MARKET",
    "quantity": "10",
    "time_in_force": "DAY",
    "status": "PARTIALLY_FILLED",
    "pending": "NONE",
    "certainty": "CONFIRMED",
    "filled_quantity": "4",
    "leaves_quantity": "6",
    "average_price": "2.50",
    "broker_order_ids": ["b"],
    "created_at": NOON,
    "updated_at": NOON,
}
EXECUTION: dict[str, Any] = {
    "account_id": "a",
    "execution_id": "e-1",
    "intent_id": "i-1",
    "symbol": "AAPL",
    "order_side": "BUY",
    "kind": "BUST",
    "quantity": "0",
    "price": "2",
    "fee": "-0.25",
    "executed_at": NOON,
    "recorded_at": NOON,
    "reported_quantity": "4",
    "reported_price": "2",
    "changed_at": NOON,
}
MOVES: list[dict[str, Any]] = [
    {"symbol": "AAPL", "cause": "OPENING", "change": "4", "quantity": "4", "changed_at": NOON, "average_price": "9.5"},
    {"symbol": "AAPL", "cause": "EXTERNAL_ORDER", "change": "-8", "quantity": "-4", "changed_at": NOON, "value": "-80"},
]
POSITIONS: dict[str, Any] = {
    "data": [{"symbol": "AAPL", "quantity": "-4", "updated_at": NOON}],
    "account_seq": 9,
    "source": "BROKER",
    "complete": True,
    "as_of": NOON,
}


BALANCES = {
    "account_id": "a",
    "broker": "paper",
    "currency": "USD",
    "cash": "-0.50",
    "equity": "12",
    "buying_power": None,
    "initial_margin": None,
    "maintenance_margin": None,
    "as_of": NOON,
    "read_at": NOON,
}


def event(seq: int) -> dict[str, Any]:
    return {
        "event_id": f"a.{seq}",
        "account_id": "a",
        "account_seq": seq,
        "prev_seq": seq - 1,
        "resume_token": f"t{seq}",
        "type": "POSITION_ADJUSTED",
        "occurred_at": NOON,
        "position_adjusted": {"symbol": "AAPL", "before": "0", "after": "1", "cause": "OPENING"},
    }


def platform(request: httpx.Request) -> httpx.Response:
    query, what = dict(request.url.params), request.url.path.removeprefix("/v1/accounts/a/").removeprefix("/v1/")
    if what in ("orders", "executions", "events"):
        assert query["account_id"] == "a"
    if what == "orders":
        more = "next_cursor" not in query
        assert query.get("status", "WORKING") == "WORKING"
        return httpx.Response(200, json={"data": [ORDER], "next_cursor": "c" if more else None, "last_cursor": "c"})
    if what == "executions":
        return httpx.Response(200, json={"data": [EXECUTION], "next_cursor": None})
    if what == "events":
        after = int(query.get("next_cursor", f"t{query.get('after_seq', 0)}")[1:])
        page = {"data": [event(after + 1)], "oldest_seq": 2, "newest_seq": 4, "last_cursor": f"t{after + 1}"}
        gap = {"first_seq": after + 1, "last_seq": 1, "resume_token": "t1", "reason": "RETENTION"}
        token = f"t{after + 1}" if after + 1 < 4 else None
        return httpx.Response(200, json={**page, "next_cursor": token, **({"gap": gap} if after < 1 else {})})
    moves = {"data": MOVES, "next_cursor": None, "last_cursor": "c"}
    return httpx.Response(200, json={"positions": POSITIONS, "positions/changes": moves, "balances": BALANCES}[what])


def test_both_clients_read_the_lists() -> None:
    since = datetime(2026, 1, 5, tzinfo=UTC)
    with Client("key-1", account_id="a", transport=httpx.MockTransport(platform)) as client:
        orders = list(client.orders(status="WORKING"))
        executions = list(client.executions(since=since))
        positions = client.positions()
        moves = list(client.position_changes())
        balances = client.balances()
        events = list(client.event_history(after_seq=1, types=["POSITION_ADJUSTED"]))

    async def ask() -> None:
        async with AsyncClient("key-1", account_id="a", transport=httpx.MockTransport(platform)) as client:
            assert [each async for each in client.orders(status="WORKING")] == orders
            assert [each async for each in client.executions(since=since)] == executions
            assert await client.positions() == positions
            assert [each async for each in client.position_changes()] == moves
            assert await client.balances() == balances
            past = client.event_history(after_seq=1, types=["POSITION_ADJUSTED"])
            assert [each async for each in past] == events

    asyncio.run(ask())
    order, again = orders
    assert order == again
    assert (order.average_price, order.is_final) == (Decimal("2.50"), False)
    assert (executions[0].kind, executions[0].reported_quantity) == ("BUST", Decimal(4))
    assert executions[0].fee == Decimal("-0.25")
    assert [(each.value, each.average_price) for each in moves] == [(None, Decimal("9.5")), (Decimal(-80), None)]
    assert (list(positions), len(positions)) == (list(positions.data), len(positions.data))
    assert (balances.cash, balances.equity, balances.buying_power) == (Decimal("-0.50"), Decimal(12), None)
    assert (positions.source, positions.data[0].quantity) == ("BROKER", Decimal(-4))
    assert [(each.account_seq, each.prev_seq) for each in events] == [(2, 1), (3, 2), (4, 3)]


def test_events_that_are_no_longer_kept_are_never_passed_over_in_silence() -> None:
    with Client("key-1", account_id="a", transport=httpx.MockTransport(platform)) as client:
        with pytest.raises(EventMissed) as missed:
            list(client.event_history(after_seq=0))
        kept = client.event_history(resume_token=missed.value.resume_token)
        assert [each.account_seq for each in kept] == [2, 3, 4]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["orders", "list", "--working", "--limit", "1"], ["i-1", "BUY 10 AAPL MARKET", "PARTIALLY_FILLED", "2.50"]),
        (["executions", "list"], ["e-1", "BUST", "AAPL", "-0.25"]),
        (["positions", "list"], ["AAPL", "-4", "After event 9", "the broker's positions"]),
        (["balances"], ["USD", "-0.50", "not reported", "At paper, as of"]),
        (["events", "list", "--after", "1"], ["AAPL", "OPENING"]),
    ],
)
def test_commands_show_the_lists(command: list[str], words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "openbell.cli.calls.client_for",
        lambda *given, **_: Client(given[1], account_id=given[2], transport=httpx.MockTransport(platform)),
    )
    output = RUN.invoke(app, command).output
    for word in words:
        assert word in output
    assert isinstance(json.loads(RUN.invoke(app, [*command, "--json"]).output.splitlines()[0]), dict)
