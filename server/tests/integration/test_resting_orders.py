"""The life of a working order: past the limit of its symbol the platform cancels it, once, as any caller would."""

import asyncio
import json
from typing import Any

import pytest

from builders import a_cancel, a_limit_create, a_replace, a_report, a_tenant, an_execution
from openbell_server.adapters.calendars.table import load_calendars
from openbell_server.adapters.postgres.backup import check_backup
from openbell_server.adapters.postgres.calendars import PostgresSessionChanges
from openbell_server.adapters.postgres.connection import DatabaseClock, Pool
from openbell_server.adapters.postgres.intents import PostgresIntentStore
from openbell_server.adapters.postgres.organizations import PostgresOrganizationStore
from openbell_server.adapters.postgres.resting import PostgresRestingStore
from openbell_server.adapters.postgres.symbol_controls import PostgresControlStore
from openbell_server.application.cancel_by_control import CancelByControl
from openbell_server.application.end_resting import EndResting
from openbell_server.domain.broker_orders import Refused, ReportStatus, Unknown
from openbell_server.domain.controls import TimeControl
from openbell_server.domain.identifiers import IntentId, Symbol
from scripted_broker import Desk

ALL_SLOTS = frozenset(range(64))


@pytest.fixture
async def desk(pool: Pool) -> Desk:
    return Desk(pool, await a_tenant(pool))


async def limit(desk: Desk, millis: int | None, symbol: str = "AAPL") -> None:
    account = desk.tenant.account
    await PostgresControlStore(desk.pool).change_time(
        account.organization_id,
        account.id,
        Symbol(symbol),
        lambda _: TimeControl(max_resting_millis=millis),
        desk.tenant.principal,
    )


async def age(desk: Desk, seconds: float) -> None:
    await desk.pool.execute("update orders set created_at = created_at - make_interval(secs => $1)", seconds)


def a_canceller(desk: Desk) -> EndResting:
    pool = desk.pool
    cancel = CancelByControl(PostgresIntentStore(pool), DatabaseClock(pool), desk.hints, lambda _: None)
    stores = PostgresRestingStore(pool), PostgresOrganizationStore(pool)
    return EndResting(*stores, cancel, load_calendars(), PostgresSessionChanges(pool))


async def sweep(desk: Desk) -> None:
    await a_canceller(desk).sweep(ALL_SLOTS)


async def cancels(desk: Desk) -> list[dict[str, Any]]:
    rows = await desk.pool.fetch("select * from intent_actions where action_type = 'CANCEL' order by action_no")
    return [dict(row) for row in rows]


async def resting(desk: Desk, seconds: float = 6, millis: int = 5_000) -> tuple[IntentId, str]:
    """An order that has worked for so long, under a limit."""
    await limit(desk, millis)
    order = await desk.working()
    await age(desk, seconds)
    return order


async def test_an_order_past_its_limit_is_cancelled_by_the_platform_and_the_record_says_why(
    desk: Desk, database: str
) -> None:
    intent, order_id = await resting(desk)
    await sweep(desk)
    (cancel,) = await cancels(desk)
    assert (cancel["intent_id"], cancel["principal_type"], cancel["principal_id"]) == (
        intent,
        "SYSTEM",
        "max_resting_millis",
    )
    receipt = json.loads(
        await desk.pool.fetchval("select body from receipts where receipt_id = $1", cancel["receipt_id"])
    )
    (rule,) = receipt["rules"]
    assert (receipt["verdict"], rule["code"], rule["limit"], rule["control_version"]) == (
        "PASSED",
        "RESTING_TOO_LONG",
        5_000,
        1,
    )
    assert rule["observed"] >= 6_000
    for table in ("intent_outbox", "account_events"):
        assert await desk.pool.fetchval(f"select count(*) from {table}") >= 2
    await desk.work()
    assert [(write.command, write.client_order_id) for write in desk.broker.writes] == [
        ("submit", order_id),
        ("cancel", order_id),
    ]
    await desk.report(a_report(ReportStatus.CANCELED, client_order_id=order_id))
    assert (await desk.order(intent))["close_reason"] == "CANCELED"
    await sweep(desk)
    assert len(await cancels(desk)) == 1
    report = await check_backup(database)
    assert [finding.check.name for finding in report.findings if not finding.holds] == []


async def test_an_order_within_its_limit_rests(desk: Desk) -> None:
    await resting(desk, seconds=1, millis=60_000)
    await sweep(desk)
    assert await cancels(desk) == []


async def test_a_limit_is_for_its_symbol_and_for_as_long_as_it_is_set(desk: Desk) -> None:
    await limit(desk, 5_000, symbol="MSFT")
    await desk.working()
    await age(desk, 60)
    await sweep(desk)
    await limit(desk, 5_000)
    await limit(desk, None)
    await sweep(desk)
    assert await cancels(desk) == []


async def test_executors_that_sweep_together_make_one_cancel(desk: Desk) -> None:
    await resting(desk)
    await asyncio.gather(*(sweep(desk) for _ in range(6)))
    assert len(await cancels(desk)) == 1


async def test_an_order_in_doubt_is_left_to_those_who_look_it_up(desk: Desk) -> None:
    await limit(desk, 1_000)
    desk.broker.script.append(Unknown("no answer"))
    await desk.accept(a_limit_create())
    await desk.work()
    await age(desk, 60)
    await sweep(desk)
    assert await cancels(desk) == []


async def test_an_order_whose_replace_is_in_doubt_is_not_cancelled(desk: Desk) -> None:
    intent, _ = await resting(desk)
    await desk.accept(a_replace(intent))
    desk.broker.script.append(Unknown("no answer"))
    await desk.work()
    await sweep(desk)
    assert await cancels(desk) == []


async def test_an_order_that_was_not_sent_yet_does_not_rest(desk: Desk) -> None:
    await limit(desk, 1_000)
    await desk.accept(a_limit_create())
    await age(desk, 60)
    await sweep(desk)
    assert await cancels(desk) == []


async def test_an_order_that_waits_for_a_cancel_gets_no_other(desk: Desk) -> None:
    intent, _ = await resting(desk)
    await desk.accept(a_cancel(intent))
    await sweep(desk)
    await desk.work()
    await sweep(desk)
    assert [cancel["principal_type"] for cancel in await cancels(desk)] == ["API_KEY"]


async def test_a_cancel_that_comes_too_late_is_skipped_and_the_order_stays_filled(desk: Desk) -> None:
    intent, order_id = await resting(desk)
    await sweep(desk)
    await desk.report(a_report(ReportStatus.FILLED, [an_execution(1, 10)], client_order_id=order_id))
    assert await desk.work() == []
    assert (await desk.states())[1] == ("CANCEL", "SKIPPED", "ORDER_TERMINAL")
    assert (await desk.order(intent))["close_reason"] == "FILLED"
    await sweep(desk)
    assert len(await cancels(desk)) == 1


async def test_a_cancel_that_the_broker_refused_is_asked_for_again_after_twice_the_time(desk: Desk) -> None:
    await resting(desk)
    desk.broker.script.append(Refused("busy", "not now"))
    await sweep(desk)
    await desk.work()
    await sweep(desk)
    assert len(await cancels(desk)) == 1
    await age(desk, 5)
    await sweep(desk)
    assert [cancel["principal_type"] for cancel in await cancels(desk)] == ["SYSTEM", "SYSTEM"]


async def test_a_disabled_account_s_orders_end_in_time_too(desk: Desk) -> None:
    await resting(desk)
    await desk.pool.execute("update accounts set disabled = true")
    await sweep(desk)
    await desk.work()
    assert [write.command for write in desk.broker.writes] == ["submit", "cancel"]
