"""Orders of a symbol whose control says so are cancelled when its window or its market closes, and no others."""

import json
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from openbell_server.adapters.calendars.table import load_calendars
from openbell_server.adapters.postgres.access.organizations import PostgresOrganizationStore
from openbell_server.adapters.postgres.connection import DatabaseClock
from openbell_server.adapters.postgres.controls.calendars import PostgresCalendarOperators, PostgresSessionChanges
from openbell_server.adapters.postgres.controls.resting_orders import PostgresRestingStore
from openbell_server.adapters.postgres.controls.symbol_controls import PostgresControlStore
from openbell_server.adapters.postgres.intents.intents import PostgresIntentStore
from openbell_server.application.controls.cancel_by_control import CancelByControl
from openbell_server.application.controls.cancel_resting_orders import CancelRestingOrders
from openbell_server.domain.controls.symbol_controls import OnClose, TimeControl
from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.markets.calendars import Session, SessionChange
from openbell_server.domain.orders.broker_reports import Refused
from support.brokers.scripted_broker import Harness
from support.builders.tenant import a_cancel

ALL_SLOTS = frozenset(range(64))


async def control(harness: Harness, symbol: str = "AAPL", **fields: Any) -> None:
    account = harness.tenant.account
    where = (account.organization_id, account.id, Symbol(symbol))
    wanted = TimeControl(**{"on_close": OnClose.CANCEL, **fields})
    await PostgresControlStore(harness.pool).change_time(*where, lambda _: wanted, harness.tenant.principal)


def hours_from_now(first: int, last: int) -> dict[str, Any]:
    now = datetime.now(UTC)
    start, end = (now + timedelta(hours=hours) for hours in (first, last))
    return {"trading_start": start.time().replace(microsecond=0), "trading_end": end.time().replace(microsecond=0)}


CLOSED = hours_from_now(6, 9)
OPEN = hours_from_now(-6, 6)


async def sweep(harness: Harness) -> None:
    pool = harness.pool
    cancel = CancelByControl(PostgresIntentStore(pool), DatabaseClock(pool), harness.hints, lambda _: None)
    stores, calendars = (PostgresRestingStore(pool), PostgresOrganizationStore(pool)), load_calendars()
    await CancelRestingOrders(*stores, cancel, calendars, PostgresSessionChanges(pool)).sweep(ALL_SLOTS)


async def cancels(harness: Harness) -> list[dict[str, Any]]:
    rows = await harness.pool.fetch("select * from intent_actions where action_type = 'CANCEL' order by action_no")
    return [dict(row) for row in rows]


async def test_a_working_order_is_cancelled_when_its_window_has_closed_and_the_receipt_says_why(
    harness: Harness,
) -> None:
    intent, order_id = await harness.working()
    await control(harness, **CLOSED)
    await sweep(harness)
    await sweep(harness)
    (cancel,) = await cancels(harness)
    assert (cancel["intent_id"], cancel["principal_type"], cancel["principal_id"]) == (intent, "SYSTEM", "on_close")
    body = await harness.pool.fetchval("select body from receipts where receipt_id = $1", cancel["receipt_id"])
    (rule,) = json.loads(body)["rules"]
    assert (rule["code"], rule["verdict"], rule["comparison"], rule["control_version"]) == (
        "OUTSIDE_TRADING_WINDOW",
        "EXCEEDED",
        "WITHIN",
        1,
    )
    assert not any(start <= rule["observed"] < end for start, end in rule["limit"])
    await harness.work()
    assert [(write.command, write.client_order_id) for write in harness.broker.writes][-1] == ("cancel", order_id)


async def test_an_order_is_left_while_it_is_open_or_where_nobody_asked_for_a_cancel(harness: Harness) -> None:
    await harness.working()
    await control(harness, **OPEN)
    await sweep(harness)
    await control(harness, **{**CLOSED, "on_close": OnClose.LEAVE})
    await sweep(harness)
    await control(harness, **{**CLOSED, "on_close": None})
    await sweep(harness)
    await control(harness, symbol="MSFT", **CLOSED)
    await sweep(harness)
    assert await cancels(harness) == []


async def test_what_cannot_be_known_closes_nothing(harness: Harness) -> None:
    await harness.working()
    await control(harness, timezone="Mars/Olympus", **CLOSED)
    await sweep(harness)
    await control(harness, calendar="XMOON")
    await sweep(harness)
    assert await cancels(harness) == []


async def test_a_market_that_an_operator_closes_has_its_orders_cancelled(harness: Harness) -> None:
    await harness.working()
    now = datetime.now(UTC)
    operators = PostgresCalendarOperators(harness.pool, "olga")

    async def hours(opens: datetime, closes: datetime) -> None:
        change = SessionChange(
            calendar="XTSE",
            trade_date=date(now.year, now.month, now.day),
            session=Session.REGULAR,
            opens_at=opens,
            closes_at=closes,
            reason="trial",
        )
        await operators.change([change])

    await hours(now - timedelta(hours=1), now + timedelta(hours=1))
    await control(harness, calendar="XTSE", session=Session.REGULAR)
    await sweep(harness)
    assert await cancels(harness) == []
    await hours(now - timedelta(hours=2), now - timedelta(hours=1))
    await sweep(harness)
    (cancel,) = await cancels(harness)
    body = await harness.pool.fetchval("select body from receipts where receipt_id = $1", cancel["receipt_id"])
    (rule,) = json.loads(body)["rules"]
    assert (rule["code"], rule["inputs"]["calendar"]) == ("MARKET_CLOSED", "XTSE")


async def test_a_cancel_that_the_broker_refused_is_asked_for_again_later_and_not_at_once(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.working()
    await control(harness, **CLOSED)
    await sweep(harness)
    harness.broker.script.append(Refused("NO", "no"))
    await harness.work()
    await sweep(harness)
    assert len(await cancels(harness)) == 1
    monkeypatch.setattr("openbell_server.application.controls.cancel_resting_orders.AGAIN_AFTER", timedelta(0))
    await sweep(harness)
    assert len(await cancels(harness)) == 2


async def test_an_order_that_waits_for_a_cancel_already_gets_no_second_one(harness: Harness) -> None:
    intent, _ = await harness.working()
    await harness.accept(a_cancel(intent))
    await control(harness, **CLOSED)
    await sweep(harness)
    assert len(await cancels(harness)) == 1
