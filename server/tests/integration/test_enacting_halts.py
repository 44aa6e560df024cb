"""A halt is put on record, ends what works in its scope by cancels of its own, and ends when it is lifted."""

import asyncio
import json
from dataclasses import replace
from datetime import timedelta

import pytest

from openbell_server.adapters.postgres.access.organizations import PostgresOrganizationStore
from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.operators.backup_check import check_backup
from openbell_server.domain.controls.findings import Mode, Scope
from openbell_server.domain.controls.receipts import Evaluation, receipt_of
from openbell_server.domain.controls.rules import Override
from openbell_server.domain.events.account_events import EventKind
from openbell_server.domain.identifiers import Symbol, client_order_id
from openbell_server.domain.orders.broker_guarantees import IdClass
from openbell_server.domain.orders.broker_reports import Accepted, Outcome, Refused, ReportStatus, Unknown
from openbell_server.domain.orders.order_terms import OrderSide
from support.brokers.scripted_broker import Harness, until_so
from support.builders.tenant import a_cancel, a_key, a_limit_create, a_replace, a_report, a_tenant, accept, an_execution
from support.tenancy.halts import ALL_SLOTS, Switchboard, switch_terms


@pytest.fixture
async def board(pool: Pool) -> Switchboard:
    return Switchboard(Harness(pool, await a_tenant(pool)))


async def events(board: Switchboard) -> list[dict[str, object]]:
    rows = await board.harness.pool.fetch(
        "select body from account_events where kind = $1 order by event_no", EventKind.ACCOUNT_CHANGED
    )
    return [json.loads(row["body"]) for row in rows]


async def age_cancels(board: Switchboard, seconds: float) -> None:
    """As if all that was asked for had been asked for so much earlier."""
    async with board.harness.pool.acquire() as connection, connection.transaction():
        await connection.execute("alter table intent_actions disable trigger append_only")
        back = f"interval '{seconds} seconds'"
        await connection.execute(f"update intent_actions set created_at = created_at - {back}")
        await connection.execute(f"update account_halts set halted_at = halted_at - {back}")
        await connection.execute("alter table intent_actions enable trigger append_only")


@pytest.mark.parametrize("scope", list(Scope))
async def test_a_halt_at_every_scope_cancels_what_works_and_the_record_names_the_switch(
    board: Switchboard, database: str, scope: Scope
) -> None:
    intent, order_id = await board.harness.working()
    halt = await board.halt(scope)
    await board.sweep()
    (cancel,) = await board.cancels()
    assert (cancel["intent_id"], cancel["principal_type"], cancel["principal_id"]) == (intent, "SYSTEM", "halt")
    receipt = json.loads(
        await board.harness.pool.fetchval("select body from receipts where receipt_id = $1", cancel["receipt_id"])
    )
    (line,) = receipt["rules"]
    assert (line["code"], line["scope"], line["verdict"], line["control_version"]) == (
        "HALTED",
        scope,
        "EXCEEDED",
        halt.version,
    )
    await board.harness.work()
    assert [write.command for write in board.harness.broker.writes] == ["submit", "cancel"]
    await board.harness.report(a_report(ReportStatus.CANCELED, client_order_id=order_id))
    assert (await board.harness.order(intent))["close_reason"] == "CANCELED"
    await board.sweep()
    assert len(await board.cancels()) == 1
    findings = (await check_backup(database)).findings
    assert [finding.check.name for finding in findings if not finding.holds] == []


async def test_a_halt_is_on_record_once_with_its_time_and_followers_see_it(board: Switchboard) -> None:
    halt = await board.halt(cancel_working=False)
    await asyncio.gather(*(board.sweep() for _ in range(4)))
    (record,) = await board.records()
    assert (record["halted_at"], record["version"], record["state"]) == (halt.updated_at, 1, "HALTED")
    (event,) = await events(board)
    assert (event["changed"], event["reason"]) == (
        ["halt"],
        {"code": "HALTED", "broker_code": None, "broker_text": None},
    )
    account_id = board.harness.tenant.account.id
    assert board.heard == [account_id]
    assert {account.account_id for account in board.compared} == {account_id}


async def test_a_halt_that_leaves_working_orders_cancels_none(board: Switchboard) -> None:
    await board.harness.working()
    await board.halt(cancel_working=False)
    await board.sweep()
    assert await board.cancels() == []


async def test_a_switch_of_another_organization_or_of_other_slots_does_nothing_here(
    board: Switchboard, pool: Pool
) -> None:
    await board.harness.working()
    other = Switchboard(Harness(pool, await a_tenant(pool)))
    for scope in (Scope.ORGANIZATION, Scope.ACCOUNT, Scope.SYMBOL, Scope.KEY):
        await other.halt(scope)
    await board.sweep()
    assert {record["account_id"] for record in await board.records()} == {other.harness.tenant.account.id}
    await board.halt()
    await board.enacting().sweep(ALL_SLOTS - {board.harness.account.slot})
    assert await board.cancels() == []


async def test_the_halt_of_a_symbol_ends_orders_of_that_symbol_only(board: Switchboard) -> None:
    aapl, _ = await board.harness.working()
    msft = await board.harness.accept(replace(a_limit_create(), symbol=Symbol("MSFT")))
    await board.harness.work()
    await board.halt(Scope.SYMBOL, symbol="MSFT")
    await board.sweep()
    assert [cancel["intent_id"] for cancel in await board.cancels()] == [msft]
    await board.halt(Scope.SYMBOL, symbol="AAPL")
    await board.sweep()
    assert [cancel["intent_id"] for cancel in await board.cancels()] == [msft, aapl]


async def test_the_halt_of_a_key_ends_orders_that_the_key_asked_for_only(board: Switchboard) -> None:
    harness = board.harness
    ours, _ = await harness.working()
    other, _ = await a_key(harness.pool, harness.tenant.account.organization_id)
    (accepted,) = await accept(harness.pool, replace(harness.tenant, principal=other).submission(a_limit_create()))
    await harness.work()
    await board.halt(Scope.KEY, api_key_id=other.id)
    await board.sweep()
    assert [cancel["intent_id"] for cancel in await board.cancels()] == [accepted.intent_id]
    assert (await harness.order(ours))["pending"] == "NONE"


async def test_an_order_whose_door_was_earlier_is_cancelled_when_it_comes_to_work(board: Switchboard) -> None:
    answered = asyncio.Event()

    async def late(_: str) -> Outcome:
        await answered.wait()
        return Accepted("b1")

    board.harness.broker.script.append(late)
    intent = await board.harness.accept(a_limit_create())
    working = asyncio.ensure_future(board.harness.work())
    await until_so(lambda: bool(board.harness.broker.writes))
    await board.halt()
    await board.sweep()
    assert await board.cancels() == []
    answered.set()
    await working
    await board.sweep()
    assert [cancel["intent_id"] for cancel in await board.cancels()] == [intent]
    halt, figures, (in_flight,) = await board.told()
    assert (figures.doors_opened_after, figures.in_flight, in_flight.state) == (0, 1, "ACKED")
    assert in_flight.dispatched_at < halt.halted_at < in_flight.settled_at  # type: ignore[operator] # it is settled


async def test_an_order_in_doubt_is_cancelled_once_it_settles(board: Switchboard) -> None:
    board.harness.broker.script.append(Unknown("no answer"))
    intent = await board.harness.accept(a_limit_create())
    (door,) = await board.harness.work()
    await board.halt()
    await board.sweep()
    assert await board.cancels() == []
    name = client_order_id(door.action.order_action_id)
    board.harness.broker.book[name] = a_report(ReportStatus.WORKING, client_order_id=name)
    await board.harness.settle(0)
    await board.sweep()
    assert [cancel["intent_id"] for cancel in await board.cancels()] == [intent]


async def test_an_order_in_doubt_that_never_arrived_is_not_written_again_after_a_halt(board: Switchboard) -> None:
    board.harness.broker.script.append(Unknown("no answer"))
    await board.harness.accept(a_limit_create())
    await board.harness.work()
    await board.halt()
    await board.sweep()
    await board.harness.settle(0, IdClass.ENFORCED)
    await board.harness.pool.execute(
        "update action_states set probes = jsonb_build_array(jsonb_build_object("
        "'at', clock_timestamp() - interval '5 seconds', 'found', false)),"
        " send_started_at = send_started_at - interval '10 seconds'"
    )
    await board.harness.settle(0, IdClass.ENFORCED)
    assert [write.command for write in board.harness.broker.writes] == ["submit"]
    assert [state for _, state, _ in await board.harness.states()] == ["FAILED"]


async def test_an_order_whose_replace_is_in_doubt_is_cancelled_all_the_same(board: Switchboard) -> None:
    intent, _ = await board.harness.working()
    await board.harness.accept(a_replace(intent))
    board.harness.broker.script.append(Unknown("no answer"))
    await board.harness.work()
    await board.halt()
    await board.sweep()
    assert len(await board.cancels()) == 1


async def test_an_order_that_waits_for_somebody_s_cancel_gets_no_other(board: Switchboard) -> None:
    intent, _ = await board.harness.working()
    await board.harness.accept(a_cancel(intent))
    await board.halt()
    await board.sweep()
    assert [cancel["principal_type"] for cancel in await board.cancels()] == ["API_KEY"]


async def test_a_cancel_that_the_broker_refused_is_asked_for_again_ever_later(board: Switchboard) -> None:
    await board.harness.working()
    await board.halt()
    board.harness.broker.script += [Refused("busy", "not now"), Refused("busy", "not now")]
    await board.sweep()
    await board.harness.work()
    await board.sweep()
    assert len(await board.cancels()) == 1
    await age_cancels(board, 1)
    await board.sweep()
    await board.harness.work()
    assert len(await board.cancels()) == 2
    await age_cancels(board, 1)
    await board.sweep()
    assert len(await board.cancels()) == 2
    await age_cancels(board, 1)
    await board.sweep()
    assert len(await board.cancels()) == 3


async def test_an_order_that_filled_instead_needs_no_cancel_and_the_report_says_so(board: Switchboard) -> None:
    intent, order_id = await board.harness.working()
    await board.halt()
    await board.sweep()
    await board.harness.report(a_report(ReportStatus.FILLED, [an_execution(1, 10)], client_order_id=order_id))
    assert await board.harness.work() == []
    assert (await board.harness.order(intent))["close_reason"] == "FILLED"
    _, figures, _ = await board.told()
    assert (figures.cancels_asked, figures.cancels_confirmed, figures.ended_otherwise) == (1, 0, 1)


async def test_sweeps_at_once_and_halts_at_several_scopes_make_one_cancel(board: Switchboard) -> None:
    await board.harness.working()
    for scope in Scope:
        await board.halt(scope)
    await asyncio.gather(*(board.sweep() for _ in range(4)))
    assert len(await board.cancels()) == 1


async def test_a_lifted_halt_ends_and_asks_for_no_more_cancels(board: Switchboard) -> None:
    await board.halt()
    await board.sweep()
    lifted = await board.resume()
    await board.harness.working()
    await board.sweep()
    (record,) = await board.records()
    assert record["lifted_at"] == lifted.updated_at
    assert await board.cancels() == []
    assert [event["reason"]["code"] for event in await events(board)] == ["HALTED", "RESUMED"]  # type: ignore[index]
    (report,) = await board.reports()
    assert (report.halt.lifted_at, report.account) == (lifted.updated_at, None)


async def test_a_halt_lifted_and_set_again_between_two_sweeps_is_two_halts(board: Switchboard) -> None:
    await board.halt()
    await board.sweep()
    lifted = await board.resume()
    intent, _ = await board.harness.working()
    await board.halt()
    await board.sweep()
    first, second = await board.records()
    assert (first["version"], first["lifted_at"]) == (1, lifted.updated_at)
    assert (second["version"], second["lifted_at"]) == (3, None)
    assert [cancel["intent_id"] for cancel in await board.cancels()] == [intent]


async def test_a_halt_that_nobody_noticed_before_it_was_lifted_leaves_no_trace(board: Switchboard) -> None:
    await board.harness.working()
    await board.halt()
    await board.resume()
    await board.sweep()
    assert (await board.records(), await board.cancels(), board.heard) == ([], [], [])


async def test_a_halt_for_a_time_ends_by_itself(board: Switchboard, pool: Pool) -> None:
    now = await pool.fetchval("select clock_timestamp()")
    terms = Override(terms=switch_terms(cancel_working=True), expires_at=now + timedelta(hours=1))
    await board.set(board.address(Scope.ACCOUNT), terms)
    await board.sweep()
    await pool.execute("update control_rules set override_expires_at = clock_timestamp()")
    await board.sweep()
    (record,) = await board.records()
    assert record["lifted_at"] is not None
    await board.harness.working()
    await board.sweep()
    assert await board.cancels() == []


async def test_a_switch_in_shadow_mode_halts_nothing(board: Switchboard) -> None:
    await board.harness.working()
    await board.set(board.address(Scope.ACCOUNT), replace(switch_terms(cancel_working=True), mode=Mode.SHADOW))
    await board.sweep()
    assert (await board.records(), await board.cancels()) == ([], [])


async def test_where_rules_are_only_watched_a_halt_cancels_nothing(board: Switchboard) -> None:
    await board.harness.working()
    await board.harness.pool.execute("update organizations set paper_enforcement = 'SHADOW'")
    await board.halt()
    await board.sweep()
    assert await board.cancels() == []
    (report,) = await board.reports()
    assert report.account is not None
    assert report.account.quietness.is_watched_only


async def test_an_order_that_may_be_sent_because_it_reduces_is_not_cancelled(board: Switchboard) -> None:
    harness = board.harness
    _, order_id = await harness.working()
    await harness.report(a_report(ReportStatus.FILLED, [an_execution(1, 10)], client_order_id=order_id))
    before = await harness.accept(a_limit_create())
    harness.broker.script.append(Accepted("b2"))
    await harness.work()
    # What is held is known by the broker's word.
    await harness.pool.execute("update account_counters set positions_as_of = clock_timestamp()")
    await board.halt(state="REDUCE_ONLY")
    await harness.accept(replace(a_limit_create(quantity="5"), order_side=OrderSide.SELL))
    harness.broker.script.append(Accepted("b3"))
    assert len(await harness.work()) == 1
    await board.sweep()
    assert [cancel["intent_id"] for cancel in await board.cancels()] == [before]
    _, figures, _ = await board.told()
    assert (figures.doors_opened_after, figures.reducing_doors_after) == (None, 1)


async def test_queued_commands_are_skipped_as_halted_and_counted(board: Switchboard) -> None:
    for _ in range(3):
        await board.harness.accept(a_limit_create())
    await board.halt()
    await board.sweep()
    assert (await board.told())[1].queued == 3
    assert await board.harness.work(2) == []
    assert await board.harness.states() == [("CREATE", "SKIPPED", "HALTED")] * 3
    _, figures, in_flight = await board.told()
    assert (figures.queued, figures.skipped, figures.doors_opened_after, in_flight) == (0, 3, 0, [])


async def test_a_replace_that_reduces_passes_a_halt_and_is_counted_apart(board: Switchboard) -> None:
    intent, _ = await board.harness.working()
    await board.halt(cancel_working=False)
    now, account = await board.harness.pool.fetchval("select clock_timestamp()"), board.harness.tenant.account
    current = await PostgresOrganizationStore(board.harness.pool).find_account(account.organization_id, account.id)
    assert current is not None
    receipt = receipt_of(current, Evaluation(command={}, evaluated_at=now, exempt="REDUCES_RISK"))
    submission = replace(board.harness.tenant, account=current).submission(a_replace(intent, "1.50", "5"))
    await accept(board.harness.pool, replace(submission, receipt=receipt))
    assert len(await board.harness.work()) == 1
    _, figures, _ = await board.told()
    assert (figures.doors_opened_after, figures.reducing_doors_after) == (0, 1)


@pytest.mark.parametrize("scope", [Scope.PLATFORM, Scope.ORGANIZATION, Scope.KEY, Scope.ACCOUNT])
async def test_no_door_is_dated_after_a_halt_whichever_of_them_comes_first(board: Switchboard, scope: Scope) -> None:
    for _ in range(30):
        await board.harness.accept(a_limit_create())

    async def open_doors() -> None:
        while await board.harness.open_doors(1):
            pass

    await asyncio.gather(open_doors(), board.halt(scope, cancel_working=False))
    _, figures, in_flight = await board.told()
    assert (figures.doors_opened_after, figures.in_flight) == (0, len(in_flight))
    assert figures.in_flight + figures.skipped + figures.queued == 30
