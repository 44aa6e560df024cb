"""Answers of brokers for one account: those that come meanwhile are recorded together, and none suffers for another."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from builders import a_tenant
from openbell_server.adapters.postgres.connection import UNAVAILABLE, Pool
from openbell_server.adapters.postgres.execution import PostgresAccountTransaction, PostgresExecutionStore
from openbell_server.application import record_answers
from openbell_server.application.execute_action import ExecuteAction
from openbell_server.application.ports.execution import BrokerAccount
from openbell_server.application.record_answers import Door
from openbell_server.domain.broker_orders import Accepted, Outcome, Refused
from scripted_broker import Desk, until_so

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
async def desk(pool: Pool) -> Desk:
    return Desk(pool, await a_tenant(pool))


@pytest.fixture
def store(pool: Pool) -> BusyStore:
    return BusyStore(pool)


async def doors_of(desk: Desk) -> list[Door]:
    for _ in range(1 + OTHERS):
        await desk.accept()
    return await desk.open_doors(1 + OTHERS)


async def recorded(desk: Desk, store: BusyStore, answers: Sequence[tuple[Door, Outcome]]) -> list[bool | BaseException]:
    """What each is told; all but the first come while the first is recorded."""
    execute = ExecuteAction(store, desk.fence, desk.hints, desk.execute.new_id, desk.clock, UNAVAILABLE)
    recording = [asyncio.ensure_future(execute.answers(*answers[0]))]
    await until_so(lambda: len(store.begun) == 1)
    recording += [asyncio.ensure_future(execute.answers(*answer)) for answer in answers[1:]]
    await until_so(lambda: sum(len(line.answers) for line in execute.answers._lines.values()) == len(answers) - 1)
    store.gate.set()
    told = await asyncio.gather(*recording, return_exceptions=True)
    assert not execute.answers._lines
    return told


async def test_answers_that_come_while_one_is_recorded_are_recorded_together(desk: Desk, store: BusyStore) -> None:
    doors = await doors_of(desk)
    answers = [
        (door, Refused("no", "no") if number % 2 else Accepted(f"b{number}")) for number, door in enumerate(doors)
    ]
    assert await recorded(desk, store, answers) == [False] * len(doors)
    assert len(store.begun) == 2
    assert [state for _, state, _ in await desk.states()] == ["ACKED", "REFUSED", "ACKED", "REFUSED", "ACKED"]
    numbers = await desk.pool.fetch("select event_no from account_events order by event_no")
    assert [row["event_no"] for row in numbers] == list(range(1, len(numbers) + 1))


async def test_what_comes_twice_for_an_intent_is_judged_by_what_the_first_left(desk: Desk, store: BusyStore) -> None:
    first, *doors = await doors_of(desk)
    answers = [(first, Accepted("b"))] + [(door, Accepted(f"b{number}")) for number, door in enumerate(doors)]
    await recorded(desk, store, [*answers, *answers])
    assert len(store.begun) == 2
    assert {state for _, state, _ in await desk.states()} == {"ACKED"}
    told = await desk.pool.fetchval("select count(*) from account_events where body::jsonb ->> 'state' = 'ACKED'")
    assert told == len(answers)


async def test_one_answer_that_cannot_be_recorded_takes_no_other_with_it(
    desk: Desk, store: BusyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    doors = await doors_of(desk)
    settlement = record_answers._settlement

    def fails(action: Any, *given: Any) -> Any:
        if action.action_id == doors[2].action.action_id:
            raise ArithmeticError("this one")
        return settlement(action, *given)

    monkeypatch.setattr(record_answers, "_settlement", fails)
    told = await recorded(desk, store, [(door, Accepted("b")) for door in doors])
    assert [type(each) for each in told] == [bool, bool, ArithmeticError, bool, bool]
    assert [state for _, state, _ in await desk.states()] == ["ACKED", "ACKED", "DISPATCHING", "ACKED", "ACKED"]


async def test_answers_that_met_a_store_that_was_away_are_recorded_when_it_is_back(
    desk: Desk, store: BusyStore
) -> None:
    doors = await doors_of(desk)
    store.failures.append(ConnectionResetError("away"))
    assert await recorded(desk, store, [(door, Accepted("b")) for door in doors]) == [False] * len(doors)
    assert {state for _, state, _ in await desk.states()} == {"ACKED"}
