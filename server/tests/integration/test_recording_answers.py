"""Answers of brokers for one account: those that come meanwhile are recorded together, and none suffers for another."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from openbell_server.adapters.postgres.connection import UNAVAILABLE, Pool
from openbell_server.adapters.postgres.execution.execution import PostgresAccountTransaction, PostgresExecutionStore
from openbell_server.application.execution import record_outcomes
from openbell_server.application.execution.execute_action import ExecuteAction
from openbell_server.application.execution.record_outcomes import Door
from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.domain.orders.broker_reports import Accepted, Outcome, Refused, ReportStatus
from openbell_server.domain.orders.order_terms import TimeInForce
from support.brokers.scripted_broker import Harness, until_so
from support.builders.tenant import a_replace, a_report, some_terms

OTHERS = 4


@dataclass(frozen=True, slots=True)
class BusyStore(PostgresExecutionStore):
    """Its first transaction begins when the gate opens; each after the first may fail."""

    gate: asyncio.Event = field(default_factory=asyncio.Event)
    begun: list[BrokerAccount] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)

    @asynccontextmanager
    async def account_transaction(self, account: BrokerAccount) -> AsyncIterator[PostgresAccountTransaction]:
        self.begun.append(account)
        if len(self.begun) == 1:
            await self.gate.wait()
        elif self.failures:
            raise self.failures.pop()
        async with super(BusyStore, self).account_transaction(account) as transaction:
            yield transaction


@pytest.fixture
def store(pool: Pool) -> BusyStore:
    return BusyStore(pool)


async def doors_of(harness: Harness) -> list[Door]:
    for _ in range(1 + OTHERS):
        await harness.accept()
    return await harness.open_doors(1 + OTHERS)


async def recorded(
    harness: Harness, store: BusyStore, answers: Sequence[tuple[Door, Outcome]]
) -> list[bool | BaseException]:
    """What each is told; all but the first come while the first is recorded."""
    execute = ExecuteAction(store, harness.fence, harness.hints, harness.execute.new_id, harness.clock, UNAVAILABLE)
    recording = [asyncio.ensure_future(execute.answers(*answers[0]))]
    await until_so(lambda: len(store.begun) == 1)
    recording += [asyncio.ensure_future(execute.answers(*answer)) for answer in answers[1:]]
    await until_so(lambda: sum(len(line.answers) for line in execute.answers._lines.values()) == len(answers) - 1)
    store.gate.set()
    told = await asyncio.gather(*recording, return_exceptions=True)
    assert not execute.answers._lines
    return told


async def test_answers_that_come_while_one_is_recorded_are_recorded_together(
    harness: Harness, store: BusyStore
) -> None:
    doors = await doors_of(harness)
    answers = [
        (door, Refused("no", "no") if number % 2 else Accepted(f"b{number}")) for number, door in enumerate(doors)
    ]
    assert await recorded(harness, store, answers) == [False] * len(doors)
    assert len(store.begun) == 2
    assert [state for _, state, _ in await harness.states()] == ["ACKED", "REFUSED", "ACKED", "REFUSED", "ACKED"]
    numbers = await harness.pool.fetch("select event_no from account_events order by event_no")
    assert [row["event_no"] for row in numbers] == list(range(1, len(numbers) + 1))


async def test_what_comes_twice_for_an_intent_is_judged_by_what_the_first_left(
    harness: Harness, store: BusyStore
) -> None:
    first, *doors = await doors_of(harness)
    answers = [(first, Accepted("b"))] + [(door, Accepted(f"b{number}")) for number, door in enumerate(doors)]
    await recorded(harness, store, [*answers, *answers])
    assert len(store.begun) == 2
    assert {state for _, state, _ in await harness.states()} == {"ACKED"}
    told = await harness.pool.fetchval("select count(*) from account_events where body::jsonb ->> 'status' = 'ACKED'")
    assert told == len(answers)


async def test_one_answer_that_cannot_be_recorded_takes_no_other_with_it(
    harness: Harness, store: BusyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    doors = await doors_of(harness)
    settlement = record_outcomes.settlement_of

    def fails(action: Any, *given: Any) -> Any:
        if action.action_id == doors[2].action.action_id:
            raise ArithmeticError("this one")
        return settlement(action, *given)

    monkeypatch.setattr(record_outcomes, "settlement_of", fails)
    told = await recorded(harness, store, [(door, Accepted("b")) for door in doors])
    assert [type(each) for each in told] == [bool, bool, ArithmeticError, bool, bool]
    assert [state for _, state, _ in await harness.states()] == ["ACKED", "ACKED", "DISPATCHING", "ACKED", "ACKED"]


async def test_answers_that_met_a_store_that_was_away_are_recorded_when_it_is_back(
    harness: Harness, store: BusyStore
) -> None:
    doors = await doors_of(harness)
    store.failures.append(ConnectionResetError("away"))
    assert await recorded(harness, store, [(door, Accepted("b")) for door in doors]) == [False] * len(doors)
    assert {state for _, state, _ in await harness.states()} == {"ACKED"}


async def test_an_answer_that_comes_after_the_evidence_changes_nothing(harness: Harness) -> None:
    terms = some_terms(12, "1.75", TimeInForce.GOOD_TILL_CANCEL)
    intent, order_id = await harness.working()
    await harness.accept(a_replace(intent))
    (door,) = await harness.open_doors()
    await harness.report(a_report(ReportStatus.CANCELED, client_order_id=order_id, terms=terms))
    assert (await harness.states())[1] == ("REPLACE", "ACKED", None)
    harness.broker.script.append(Refused("order_closed", "CANCELED"))
    await harness.execute.dispatch(harness.broker, door)
    assert (await harness.states())[1] == ("REPLACE", "ACKED", None)
    row = await harness.order(intent)
    assert some_terms(row["quantity"], row["limit_price"], TimeInForce(row["time_in_force"])) == terms
