"""Controls at the door, and between a change and everything that races it: nothing slips, and nothing is lost."""

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import time
from typing import Any

import pytest

from openbell_server.adapters.postgres.access.organizations import PostgresOrganizationStore
from openbell_server.adapters.postgres.connection import Pool, open_pool
from openbell_server.adapters.postgres.controls.symbol_controls import PostgresControlStore
from openbell_server.adapters.postgres.operators.backup_check import check_backup
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.controls.symbol_controls import ManualControl, TimeControl
from openbell_server.domain.events.account_events import EventKind
from openbell_server.domain.identifiers import Symbol, client_order_id
from openbell_server.domain.markets.trading_windows import Day
from openbell_server.domain.orders.broker_reports import Accepted, Outcome, ReportStatus, Unknown
from support.brokers.raced_commands import race, slipped
from support.brokers.scripted_broker import Harness
from support.builders.tenant import (
    Tenant,
    a_cancel,
    a_limit_create,
    a_market_create,
    a_replace,
    a_report,
    a_tenant,
    accept,
)
from support.rest.rest_api import RestApi, create_body, rest_api

AAPL = Symbol("AAPL")


async def set_manual(pool: Pool, tenant: Tenant, *, disabled: bool, symbol: Symbol = AAPL) -> None:
    where = (tenant.account.organization_id, tenant.account.id, symbol)
    await PostgresControlStore(pool).set_manual(*where, ManualControl(manually_disabled=disabled), tenant.principal)


async def set_time(pool: Pool, tenant: Tenant, **fields: Any) -> None:
    where = (tenant.account.organization_id, tenant.account.id, AAPL)
    await PostgresControlStore(pool).change_time(*where, lambda _: TimeControl(**fields), tenant.principal)


async def at_this_epoch(pool: Pool, harness: Harness) -> Harness:
    """The desk, with its account as it is now."""
    account = harness.tenant.account
    found = await PostgresOrganizationStore(pool).find_account(account.organization_id, account.id)
    assert found is not None
    return replace(harness, tenant=replace(harness.tenant, account=found))


async def shut_window(pool: Pool, tenant: Tenant) -> None:
    hour = await pool.fetchval("select extract(hour from clock_timestamp() at time zone 'UTC')::integer")
    await set_time(pool, tenant, trading_start=time((hour + 3) % 24), trading_end=time((hour + 5) % 24))


async def other_days(pool: Pool, tenant: Tenant) -> None:
    today = await pool.fetchval("select extract(isodow from clock_timestamp() at time zone 'UTC')::integer - 1")
    await set_time(pool, tenant, days=(tuple(Day)[(today + 3) % 7],))


async def disable(pool: Pool, tenant: Tenant) -> None:
    await set_manual(pool, tenant, disabled=True)


async def make_stale(pool: Pool, tenant: Tenant) -> None:
    await set_time(pool, tenant, stale_order_millis=5_000)
    await pool.execute("update action_states set queued_at = queued_at - interval '6 seconds'")


async def disable_organization(pool: Pool, tenant: Tenant) -> None:
    del tenant
    await pool.execute("update organizations set disabled = true, control_epoch = control_epoch + 1")


async def disable_account(pool: Pool, tenant: Tenant) -> None:
    del tenant
    await pool.execute("update accounts set disabled = true")


async def revoke_key(pool: Pool, tenant: Tenant) -> None:
    del tenant
    await pool.execute("update api_keys set revoked_at = clock_timestamp()")


CHANGES = {
    "SYMBOL_DISABLED": disable,
    "OUTSIDE_TRADING_WINDOW": shut_window,
    "OUTSIDE_TRADING_WINDOW by day": other_days,
    "STALE_ORDER": make_stale,
    "ORGANIZATION_DISABLED": disable_organization,
    "ACCOUNT_DISABLED": disable_account,
    "PRINCIPAL_REVOKED": revoke_key,
}


@pytest.mark.parametrize("change", list(CHANGES))
async def test_what_was_queued_before_a_change_is_skipped_at_the_door_and_its_order_closed(
    pool: Pool, harness: Harness, change: str
) -> None:
    intent = await harness.accept()
    await CHANGES[change](pool, harness.tenant)
    assert await harness.work() == []
    assert harness.broker.calls == 0
    assert await harness.states() == [("CREATE", "SKIPPED", change.partition(" ")[0])]
    order = await harness.order(intent)
    assert (order["standing"], order["close_reason"], order["filled_quantity"]) == ("CLOSED", "SKIPPED", 0)
    assert harness.hints.accounts
    kinds = await pool.fetch(
        "select kind from account_events where kind <> $1 order by event_no", EventKind.CONTROL_CHANGED
    )
    assert [row["kind"] for row in kinds] == [1, 1, 2]


@pytest.mark.parametrize("change", list(CHANGES))
async def test_a_cancel_goes_whatever_was_switched_off(pool: Pool, harness: Harness, change: str) -> None:
    intent, _ = await harness.working()
    await harness.accept(a_cancel(intent))
    await CHANGES[change](pool, harness.tenant)
    await harness.work()
    assert (await harness.states())[1][:2] == ("CANCEL", "ACKED")


@pytest.mark.parametrize("change", list(CHANGES))
async def test_a_replace_that_may_not_pass_leaves_the_order_as_it_is(pool: Pool, harness: Harness, change: str) -> None:
    intent, _ = await harness.working()
    await harness.accept(a_replace(intent))
    before = await harness.order(intent)
    await CHANGES[change](pool, harness.tenant)
    assert await harness.work() == []
    assert (await harness.states())[1] == ("REPLACE", "SKIPPED", change.partition(" ")[0])
    after = await harness.order(intent)
    assert (after["standing"], after["pending"], after["quantity"]) == ("WORKING", "NONE", before["quantity"])
    assert [write.command for write in harness.broker.writes] == ["submit"]


async def test_a_create_that_may_not_pass_takes_the_replace_behind_it_along(pool: Pool, harness: Harness) -> None:
    intent = await harness.accept(a_limit_create())
    await harness.accept(a_replace(intent))
    await set_manual(pool, harness.tenant, disabled=True)
    assert await harness.work() == []
    assert await harness.states() == [
        ("CREATE", "SKIPPED", "SYMBOL_DISABLED"),
        ("REPLACE", "SKIPPED", "ORDER_TERMINAL"),
    ]


@pytest.mark.parametrize("change", list(CHANGES))
async def test_what_is_past_its_door_is_never_skipped(pool: Pool, harness: Harness, change: str) -> None:
    await harness.accept()
    (door,) = await harness.open_doors()
    await CHANGES[change](pool, harness.tenant)
    assert await harness.open_doors() == []
    await harness.execute.dispatch(harness.broker, door)
    assert await harness.states() == [("CREATE", "ACKED", None)]


async def test_a_control_stops_its_symbol_on_its_account_and_nothing_else(pool: Pool, harness: Harness) -> None:
    await set_manual(pool, harness.tenant, disabled=True, symbol=Symbol("MSFT"))
    neighbour = Harness(pool, await a_tenant(pool))
    await set_manual(pool, neighbour.tenant, disabled=True)
    await (await at_this_epoch(pool, harness)).accept()
    assert len(await harness.work()) == 1


@pytest.mark.parametrize(
    ("environment", "seconds", "state"),
    [(Environment.LIVE, 59, "ACKED"), (Environment.LIVE, 61, "SKIPPED"), (Environment.PAPER, 3600, "ACKED")],
    ids=["fresh on live", "old on live", "old on paper"],
)
async def test_a_live_account_without_controls_sends_nothing_that_waited_for_more_than_a_minute(
    pool: Pool, environment: Environment, seconds: int, state: str
) -> None:
    harness = Harness(pool, await a_tenant(pool, environment=environment))
    await harness.accept()
    await pool.execute("update action_states set queued_at = queued_at - make_interval(secs => $1)", float(seconds))
    await harness.work()
    assert await harness.states() == [("CREATE", state, "STALE_ORDER" if state == "SKIPPED" else None)]


@pytest.mark.parametrize("answer", [Accepted("b1"), Unknown("no answer")])
async def test_what_passed_its_door_does_not_grow_too_old(pool: Pool, answer: Outcome) -> None:
    harness = Harness(pool, await a_tenant(pool, environment=Environment.LIVE))
    await harness.accept()
    (door,) = await harness.open_doors()
    await pool.execute("update action_states set queued_at = queued_at - interval '1 hour'")
    harness.broker.script.append(answer)
    await harness.execute.dispatch(harness.broker, door)
    assert await harness.open_doors() == []
    if isinstance(answer, Unknown):
        order_id = client_order_id(door.action.action_id)
        harness.broker.book[order_id] = a_report(ReportStatus.WORKING, client_order_id=order_id)
        await harness.settle(0)
    assert await harness.states() == [("CREATE", "ACKED", None)]


async def test_however_many_are_refused_those_behind_them_pass_in_the_same_round(pool: Pool, harness: Harness) -> None:
    await accept(pool, *(harness.tenant.submission() for _ in range(50)))
    await set_manual(pool, harness.tenant, disabled=True)
    await set_manual(pool, harness.tenant, disabled=False, symbol=Symbol("MSFT"))
    later = await at_this_epoch(pool, harness)
    await later.accept(a_market_create(symbol="MSFT"))
    assert len(await harness.work(free=4)) == 1
    assert Counter(state for _, state, _ in await harness.states()) == {"SKIPPED": 50, "ACKED": 1}


async def test_a_database_with_refusals_and_skipped_orders_is_whole(
    pool: Pool, database: str, harness: Harness
) -> None:
    await harness.accept()
    async with rest_api(pool) as api:
        await set_manual(pool, harness.tenant, disabled=True)
        assert (await api.submit(harness.tenant, create_body())).status_code == 422
    await harness.work()
    report = await check_backup(database)
    assert [finding.check.name for finding in report.findings if not finding.holds] == []
    await pool.execute("alter table receipts disable trigger append_only")
    await pool.execute("update receipts set body = replace(body, 'REFUSED', 'PASSED') where verdict = 'REFUSED'")
    report = await check_backup(database)
    assert [finding.check.name for finding in report.findings if not finding.holds] == ["refusals", "receipts"]


@pytest.fixture
async def counted(database: str) -> AsyncIterator[tuple[Pool, list[str]]]:
    """A pool of one connection, and what it is sent."""
    sent: list[str] = []
    pool = await open_pool(database, connections_max=1)
    async with pool.acquire() as connection:
        connection.add_query_logger(lambda record: sent.append(record.query))
    yield pool, sent
    await pool.close()


async def test_a_door_costs_no_round_trip_more_for_its_controls(pool: Pool, counted: tuple[Pool, list[str]]) -> None:
    one, sent = counted
    costs = []
    # The first looks up types.
    for controls in (0, 0, 1, 2):
        tenant = await a_tenant(pool)
        for _ in range(controls):
            await set_manual(pool, tenant, disabled=False)
        harness = await at_this_epoch(pool, Harness(one, tenant))
        for _ in range(2):
            await accept(pool, *(harness.tenant.submission() for _ in range(4)))
            sent.clear()
            assert len(await harness.open_doors(free=4)) == 4
            costs.append(len(sent))
    # Begin, lock, cancels, others, doors, commit; and the rules in three, once for their epochs.
    assert costs[2:] == [9, 6] * 3


async def test_nothing_slips_between_a_change_and_the_commands_that_race_it(pool: Pool, database: str) -> None:
    tenant = await a_tenant(pool)

    async def switch(_: RestApi, is_off: bool) -> None:
        await set_manual(pool, tenant, disabled=is_off)

    raced = await race(pool, database, tenant, switch, 41)
    answers, states = raced.answers, raced.states
    # On a machine that stands still some wait for the lock in vain, and are told that nothing was recorded.
    assert set(answers) <= {202, 409, 422, 503}, answers
    assert min(answers[202], answers[422]) > 20, answers
    assert await slipped(pool, "controls manual", "manually_disabled") == {"accepted": 0, "opened": 0}
    # Epochs are even while the symbol is disabled: nothing is refused by a control that is not there any more.
    verdicts = await pool.fetch(
        "select verdict || ' at ' || (body::jsonb ->> 'gate') as said,"
        " (body::jsonb ->> 'account_epoch')::bigint % 2 as parity, count(*) from receipts group by 1, 2"
    )
    skipped = {("REFUSED at DOOR", 0): states["SKIPPED", "SYMBOL_DISABLED"]}
    assert {(row["said"], row["parity"]): row["count"] for row in verdicts} == {
        ("PASSED at ACCEPT", 1): answers[202],
        ("REFUSED at ACCEPT", 0): answers[422],
        **({} if not states["SKIPPED", "SYMBOL_DISABLED"] else skipped),
    }
    assert set(states) <= {("ACKED", None), ("SKIPPED", "SYMBOL_DISABLED")}, states
    assert sum(states.values()) == answers[202]
    assert raced.writes == states["ACKED", None]
