"""Orders of a symbol whose control says so are cancelled when its window or its market closes, and no others."""

import json
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from builders import a_cancel, a_tenant
from openbell_server.adapters.calendars.table import load_calendars
from openbell_server.adapters.postgres.calendars import PostgresCalendarOperators, PostgresSessionChanges
from openbell_server.adapters.postgres.connection import DatabaseClock, Pool
from openbell_server.adapters.postgres.intents import PostgresIntentStore
from openbell_server.adapters.postgres.organizations import PostgresOrganizationStore
from openbell_server.adapters.postgres.resting import PostgresRestingStore
from openbell_server.adapters.postgres.symbol_controls import PostgresControlStore
from openbell_server.application.cancel_by_control import CancelByControl
from openbell_server.application.end_resting import EndResting
from openbell_server.domain.broker_orders import Refused
from openbell_server.domain.controls import OnClose, TimeControl
from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.market_calendars import Session, SessionChange
from scripted_broker import Desk

ALL_SLOTS = frozenset(range(64))


@pytest.fixture
async def desk(pool: Pool) -> Desk:
    return Desk(pool, await a_tenant(pool))


async def control(desk: Desk, symbol: str = "AAPL", **fields: Any) -> None:
    account = desk.tenant.account
    where = (account.organization_id, account.id, Symbol(symbol))
    wanted = TimeControl(**{"on_close": OnClose.CANCEL, **fields})
    await PostgresControlStore(desk.pool).change_time(*where, lambda _: wanted, desk.tenant.principal)


def hours_from_now(first: int, last: int) -> dict[str, Any]:
    now = datetime.now(UTC)
    start, end = (now + timedelta(hours=hours) for hours in (first, last))
    return {"trading_start": start.time().replace(microsecond=0), "trading_end": end.time().replace(microsecond=0)}


CLOSED = hours_from_now(6, 9)
OPEN = hours_from_now(-6, 6)


async def sweep(desk: Desk) -> None:
    pool = desk.pool
    cancel = CancelByControl(PostgresIntentStore(pool), DatabaseClock(pool), desk.hints, lambda _: None)
    stores, calendars = (PostgresRestingStore(pool), PostgresOrganizationStore(pool)), load_calendars()
    await EndResting(*stores, cancel, calendars, PostgresSessionChanges(pool)).sweep(ALL_SLOTS)


async def cancels(desk: Desk) -> list[dict[str, Any]]:
    rows = await desk.pool.fetch("select * from intent_actions where action_type = 'CANCEL' order by action_no")
    return [dict(row) for row in rows]


async def test_a_working_order_is_cancelled_when_its_window_has_closed_and_the_receipt_says_why(desk: Desk) -> None:
    intent, order_id = await desk.working()
    await control(desk, **CLOSED)
    await sweep(desk)
    await sweep(desk)
    (cancel,) = await cancels(desk)
    assert (cancel["intent_id"], cancel["principal_type"], cancel["principal_id"]) == (intent, "SYSTEM", "on_close")
    body = await desk.pool.fetchval("select body from receipts where receipt_id = $1", cancel["receipt_id"])
    (rule,) = json.loads(body)["rules"]
    assert (rule["code"], rule["verdict"], rule["comparison"], rule["control_version"]) == (
        "OUTSIDE_TRADING_WINDOW",
        "EXCEEDED",
        "within",
        1,
    )
    assert not any(start <= rule["observed"] < end for start, end in rule["limit"])
    await desk.work()
    assert [(write.command, write.client_order_id) for write in desk.broker.writes][-1] == ("cancel", order_id)


async def test_an_order_is_left_while_it_is_open_or_where_nobody_asked_for_a_cancel(desk: Desk) -> None:
    await desk.working()
    await control(desk, **OPEN)
    await sweep(desk)
    await control(desk, **{**CLOSED, "on_close": OnClose.LEAVE})
    await sweep(desk)
    await control(desk, **{**CLOSED, "on_close": None})
    await sweep(desk)
    await control(desk, symbol="MSFT", **CLOSED)
    await sweep(desk)
    assert await cancels(desk) == []


async def test_what_cannot_be_known_closes_nothing(desk: Desk) -> None:
    await desk.working()
    await control(desk, timezone="Mars/Olympus", **CLOSED)
    await sweep(desk)
    await control(desk, calendar="XMOON")
    await sweep(desk)
    assert await cancels(desk) == []


async def test_a_market_that_an_operator_closes_has_its_orders_cancelled(desk: Desk) -> None:
    await desk.working()
    now = datetime.now(UTC)
    operators = PostgresCalendarOperators(desk.pool, "olga")

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
    await control(desk, calendar="XTSE", session=Session.REGULAR)
    await sweep(desk)
    assert await cancels(desk) == []
    await hours(now - timedelta(hours=2), now - timedelta(hours=1))
    await sweep(desk)
    (cancel,) = await cancels(desk)
    body = await desk.pool.fetchval("select body from receipts where receipt_id = $1", cancel["receipt_id"])
    (rule,) = json.loads(body)["rules"]
    assert (rule["code"], rule["inputs"]["calendar"]) == ("MARKET_CLOSED", "XTSE")


async def test_a_cancel_that_the_broker_refused_is_asked_for_again_later_and_not_at_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk.working()
    await control(desk, **CLOSED)
    await sweep(desk)
    desk.broker.script.append(Refused("NO", "no"))
    await desk.work()
    await sweep(desk)
    assert len(await cancels(desk)) == 1
    monkeypatch.setattr("openbell_server.application.end_resting.AGAIN_AFTER", timedelta(0))
    await sweep(desk)
    assert len(await cancels(desk)) == 2


async def test_an_order_that_waits_for_a_cancel_already_gets_no_second_one(desk: Desk) -> None:
    intent, _ = await desk.working()
    await desk.accept(a_cancel(intent))
    await control(desk, **CLOSED)
    await sweep(desk)
    assert len(await cancels(desk)) == 1
