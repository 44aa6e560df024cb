"""The life of a working order: past the limit of its symbol the platform cancels it, once, as any caller would."""

import asyncio
import json
from typing import Any

from openbell_server.adapters.calendars.table import load_calendars
from openbell_server.adapters.postgres.access.organizations import PostgresOrganizationStore
from openbell_server.adapters.postgres.connection import DatabaseClock
from openbell_server.adapters.postgres.controls.calendars import PostgresSessionChanges
from openbell_server.adapters.postgres.controls.resting_orders import PostgresRestingStore
from openbell_server.adapters.postgres.controls.symbol_controls import PostgresControlStore
from openbell_server.adapters.postgres.intents.intents import PostgresIntentStore
from openbell_server.adapters.postgres.operators.backup_check import check_backup
from openbell_server.application.controls.cancel_by_control import CancelByControl
from openbell_server.application.controls.cancel_resting_orders import CancelRestingOrders
from openbell_server.domain.controls.symbol_controls import TimeControl
from openbell_server.domain.identifiers import IntentId, Symbol
from openbell_server.domain.orders.broker_reports import Refused, ReportStatus, Unknown
from support.brokers.scripted_broker import Harness
from support.builders.tenant import a_cancel, a_limit_create, a_replace, a_report, an_execution

ALL_SLOTS = frozenset(range(64))


async def limit(harness: Harness, millis: int | None, symbol: str = "AAPL") -> None:
    account = harness.tenant.account
    await PostgresControlStore(harness.pool).change_time(
        account.organization_id,
        account.id,
        Symbol(symbol),
        lambda _: TimeControl(max_resting_millis=millis),
        harness.tenant.principal,
    )


async def age(harness: Harness, seconds: float) -> None:
    await harness.pool.execute("update orders set created_at = created_at - make_interval(secs => $1)", seconds)


def a_canceller(harness: Harness) -> CancelRestingOrders:
    pool = harness.pool
    cancel = CancelByControl(PostgresIntentStore(pool), DatabaseClock(pool), harness.hints, lambda _: None)
    stores = PostgresRestingStore(pool), PostgresOrganizationStore(pool)
    return CancelRestingOrders(*stores, cancel, load_calendars(), PostgresSessionChanges(pool))


async def sweep(harness: Harness) -> None:
    await a_canceller(harness).sweep(ALL_SLOTS)


async def cancels(harness: Harness) -> list[dict[str, Any]]:
    rows = await harness.pool.fetch("select * from intent_actions where action_type = 'CANCEL' order by action_no")
    return [dict(row) for row in rows]


async def resting(harness: Harness, seconds: float = 6, millis: int = 5_000) -> tuple[IntentId, str]:
    """An order that has worked for so long, under a limit."""
    await limit(harness, millis)
    order = await harness.working()
    await age(harness, seconds)
    return order


async def test_an_order_past_its_limit_is_cancelled_by_the_platform_and_the_record_says_why(
    harness: Harness, database: str
) -> None:
    intent, order_id = await resting(harness)
    await sweep(harness)
    (cancel,) = await cancels(harness)
    assert (cancel["intent_id"], cancel["principal_type"], cancel["principal_id"]) == (
        intent,
        "SYSTEM",
        "max_resting_millis",
    )
    receipt = json.loads(
        await harness.pool.fetchval("select body from receipts where receipt_id = $1", cancel["receipt_id"])
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
        assert await harness.pool.fetchval(f"select count(*) from {table}") >= 2
    await harness.work()
    assert [(write.command, write.client_order_id) for write in harness.broker.writes] == [
        ("submit", order_id),
        ("cancel", order_id),
    ]
    await harness.report(a_report(ReportStatus.CANCELED, client_order_id=order_id))
    assert (await harness.order(intent))["close_reason"] == "CANCELED"
    await sweep(harness)
    assert len(await cancels(harness)) == 1
    report = await check_backup(database)
    assert [finding.check.name for finding in report.findings if not finding.holds] == []


async def test_an_order_within_its_limit_rests(harness: Harness) -> None:
    await resting(harness, seconds=1, millis=60_000)
    await sweep(harness)
    assert await cancels(harness) == []


async def test_a_limit_is_for_its_symbol_and_for_as_long_as_it_is_set(harness: Harness) -> None:
    await limit(harness, 5_000, symbol="MSFT")
    await harness.working()
    await age(harness, 60)
    await sweep(harness)
    await limit(harness, 5_000)
    await limit(harness, None)
    await sweep(harness)
    assert await cancels(harness) == []


async def test_executors_that_sweep_together_make_one_cancel(harness: Harness) -> None:
    await resting(harness)
    await asyncio.gather(*(sweep(harness) for _ in range(6)))
    assert len(await cancels(harness)) == 1


async def test_an_order_in_doubt_is_left_to_those_who_look_it_up(harness: Harness) -> None:
    await limit(harness, 1_000)
    harness.broker.script.append(Unknown("no answer"))
    await harness.accept(a_limit_create())
    await harness.work()
    await age(harness, 60)
    await sweep(harness)
    assert await cancels(harness) == []


async def test_an_order_whose_replace_is_in_doubt_is_not_cancelled(harness: Harness) -> None:
    intent, _ = await resting(harness)
    await harness.accept(a_replace(intent))
    harness.broker.script.append(Unknown("no answer"))
    await harness.work()
    await sweep(harness)
    assert await cancels(harness) == []


async def test_an_order_that_was_not_sent_yet_does_not_rest(harness: Harness) -> None:
    await limit(harness, 1_000)
    await harness.accept(a_limit_create())
    await age(harness, 60)
    await sweep(harness)
    assert await cancels(harness) == []


async def test_an_order_that_waits_for_a_cancel_gets_no_other(harness: Harness) -> None:
    intent, _ = await resting(harness)
    await harness.accept(a_cancel(intent))
    await sweep(harness)
    await harness.work()
    await sweep(harness)
    assert [cancel["principal_type"] for cancel in await cancels(harness)] == ["API_KEY"]


async def test_a_cancel_that_comes_too_late_is_skipped_and_the_order_stays_filled(harness: Harness) -> None:
    intent, order_id = await resting(harness)
    await sweep(harness)
    await harness.report(a_report(ReportStatus.FILLED, [an_execution(1, 10)], client_order_id=order_id))
    assert await harness.work() == []
    assert (await harness.states())[1] == ("CANCEL", "SKIPPED", "ORDER_TERMINAL")
    assert (await harness.order(intent))["close_reason"] == "FILLED"
    await sweep(harness)
    assert len(await cancels(harness)) == 1


async def test_a_cancel_that_the_broker_refused_is_asked_for_again_after_twice_the_time(
    harness: Harness,
) -> None:
    await resting(harness)
    harness.broker.script.append(Refused("busy", "not now"))
    await sweep(harness)
    await harness.work()
    await sweep(harness)
    assert len(await cancels(harness)) == 1
    await age(harness, 5)
    await sweep(harness)
    assert [cancel["principal_type"] for cancel in await cancels(harness)] == ["SYSTEM", "SYSTEM"]


async def test_a_disabled_account_s_orders_end_in_time_too(harness: Harness) -> None:
    await resting(harness)
    await harness.pool.execute("update accounts set disabled = true")
    await sweep(harness)
    await harness.work()
    assert [write.command for write in harness.broker.writes] == ["submit", "cancel"]
