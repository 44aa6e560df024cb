"""Positions with their money, and profit by day: what is shown, in which zone, and what is refused."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.domain.identifiers import client_order_id
from openbell_server.domain.orders.broker_reports import BrokerExecution, ExecutionChange, ReportStatus
from openbell_server.domain.orders.order_terms import OrderSide
from support.brokers.scripted_broker import Harness
from support.builders.tenant import a_market_create, a_report, a_tenant
from support.rest.managed_accounts import url_of
from support.rest.rest_api import RestApi, pointers, problem

Fill = tuple[str, int, int, str]
FILLS: Sequence[tuple[OrderSide, Fill]] = [
    (OrderSide.BUY, ("AAPL", 10, 100, "2026-01-05T15:00:00Z")),
    (OrderSide.BUY, ("AAPL", 10, 110, "2026-01-05T23:30:00Z")),
    (OrderSide.SELL, ("AAPL", 15, 120, "2026-01-06T01:00:00Z")),
    (OrderSide.BUY, ("MSFT", 2, 300, "2026-01-07T15:00:00Z")),
]
RANGE = {"since": "2026-01-01T00:00:00Z", "until": "2026-01-31T00:00:00Z"}


@pytest.fixture
async def harness(pool: Pool) -> Harness:
    return Harness(pool, await a_tenant(pool))


@pytest.fixture
async def order_of_first_fill(harness: Harness) -> str:
    """Fills as listed; the id of the first one's order."""
    names = []
    for number, (side, fill) in enumerate(FILLS):
        await harness.accept(replace(a_market_create("100", fill[0]), order_side=side))
        (door,) = await harness.work()
        names.append(client_order_id(door.action.action_id))
        await harness.report(a_report(ReportStatus.WORKING, [execution(number)], client_order_id=names[-1]))
    await harness.pool.execute(
        "insert into instruments (organization_id, broker, symbol, asset_class, quote_currency, tradable, fractional,"
        " multiplier, as_of) select $1, 'paper', 'AAPL', 'us_equity', 'USD', true, true, 1, now()",
        harness.account.organization_id,
    )
    await harness.pool.execute(
        "insert into reference_prices (organization_id, broker, symbol, price, source, as_of)"
        " values ($1, 'paper', 'AAPL', 130, 'quote', now())",
        harness.account.organization_id,
    )
    return names[0]


def execution(number: int) -> BrokerExecution:
    _, (_, quantity, price, at) = FILLS[number]
    return BrokerExecution(
        execution_id=f"e{number}",
        quantity=Decimal(quantity),
        price=Decimal(price),
        executed_at=datetime.fromisoformat(at),
    )


async def read(api: RestApi, harness: Harness, what: str, **asked: str) -> Any:
    answer = await api.client.get(
        f"{url_of(harness.tenant)}/{what}", params=asked, headers={"x-api-key": harness.tenant.key}
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


async def rows(api: RestApi, harness: Harness, **asked: str) -> list[tuple[Any, ...]]:
    found = (await read(api, harness, "profit", **RANGE, **asked))["data"]
    return [(row.get("day"), row.get("symbol"), Decimal(row["realized"]), row["trades"]) for row in found]


@pytest.mark.usefixtures("order_of_first_fill")
async def test_a_position_has_its_cost_value_and_profit_as_far_as_they_are_known(
    api: RestApi, harness: Harness
) -> None:
    held = {row["symbol"]: row for row in (await read(api, harness, "positions"))["data"]}
    first = {name: value for name, value in held["AAPL"].items() if not name.endswith("_at")}
    assert first == {
        "symbol": "AAPL",
        "quantity": "5",
        "currency": "USD",
        "cost": "525",
        "average_cost": "105",
        "market_price": "130",
        "market_value": "650",
        "unrealized": "125",
        "realized": "225",
        "fees": "0",
        # The broker reported no fees.
        "profit_complete": False,
    }
    assert {"currency", "market_price", "market_value", "unrealized"}.isdisjoint(held["MSFT"])
    assert (held["MSFT"]["cost"], held["MSFT"]["realized"]) == ("600", "0")
    fifo = {row["symbol"]: row for row in (await read(api, harness, "positions", cost_method="FIFO"))["data"]}
    assert (fifo["AAPL"]["cost"], fifo["AAPL"]["realized"], fifo["AAPL"]["unrealized"]) == ("550", "250", "100")


@pytest.mark.usefixtures("order_of_first_fill")
async def test_a_read_of_positions_makes_executors_refresh_their_prices(api: RestApi, harness: Harness) -> None:
    await read(api, harness, "positions")
    wanted = await harness.pool.fetch("select symbol from wanted_symbols order by symbol")
    assert [row["symbol"] for row in wanted] == ["AAPL", "MSFT"]


@pytest.mark.usefixtures("order_of_first_fill")
async def test_profit_is_listed_by_day_of_the_zone_and_by_symbol(api: RestApi, harness: Harness) -> None:
    assert await rows(api, harness) == [
        ("2026-01-05", "AAPL", 0, 2),
        ("2026-01-06", "AAPL", 225, 1),
        ("2026-01-07", "MSFT", 0, 1),
    ]
    assert await rows(api, harness, timezone="America/New_York", symbol="AAPL", cost_method="FIFO") == [
        ("2026-01-05", "AAPL", 250, 3)
    ]
    assert await rows(api, harness, group_by="SYMBOL", order="desc") == [(None, "MSFT", 0, 1), (None, "AAPL", 225, 3)]
    by_day = await rows(api, harness, group_by="DAY")
    assert by_day == [("2026-01-05", None, 0, 2), ("2026-01-06", None, 225, 1), ("2026-01-07", None, 0, 1)]


async def test_a_bust_changes_the_day_of_the_fill(api: RestApi, harness: Harness, order_of_first_fill: str) -> None:
    busted = ExecutionChange(execution_id="e0", revision=1, quantity=Decimal(0), price=Decimal(0))
    report = a_report(ReportStatus.WORKING, client_order_id=order_of_first_fill)
    await harness.report(replace(report, changes=(busted,)))
    # 10 bought at 110, 15 sold at 120: 5 are short now.
    assert await rows(api, harness, symbol="AAPL") == [
        ("2026-01-05", "AAPL", 0, 1),
        ("2026-01-06", "AAPL", 100, 1),
    ]


@pytest.mark.usefixtures("order_of_first_fill")
async def test_pages_of_profit_join(api: RestApi, harness: Harness) -> None:
    whole = (await read(api, harness, "profit", **RANGE))["data"]
    first = await read(api, harness, "profit", **RANGE, limit="2")
    rest = await read(api, harness, "profit", **RANGE, limit="2", next_cursor=first["next_cursor"])
    assert (len(first["data"]), first["data"] + rest["data"], rest["next_cursor"]) == (2, whole, None)


@pytest.mark.parametrize(
    ("what", "asked", "field"),
    [
        ("positions", {"cost_method": "LIFO"}, "/cost_method"),
        ("profit", {"group_by": "YEAR"}, "/group_by"),
        ("profit", {"timezone": "Mars/Olympus"}, "/timezone"),
        ("profit", {"since": "2020-01-01T00:00:00Z"}, "/since"),
        ("profit", {"since": "2026-02-01T00:00:00Z", "until": "2026-01-01T00:00:00Z"}, "/since"),
        ("profit", {"symbol": "?"}, "/symbol"),
    ],
)
async def test_a_wrong_parameter_is_refused_by_name(
    api: RestApi, harness: Harness, what: str, asked: dict[str, str], field: str
) -> None:
    answer = await api.client.get(
        f"{url_of(harness.tenant)}/{what}", params=asked, headers={"x-api-key": harness.tenant.key}
    )
    assert pointers(problem(answer, 400, "invalid_parameter")) == [field]
