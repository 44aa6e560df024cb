"""Several brokers at one desk: none is held up by another, and each gets no more calls than it takes."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID, uuid4

import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.execution.execution import PostgresExecutionStore
from openbell_server.application.execution.account_dispatcher import AccountDispatcher, Bulkhead
from openbell_server.application.execution.broker_budget import BrokerBudget, BudgetedSession
from openbell_server.application.execution.follow_broker import FollowBroker
from openbell_server.application.execution.recover_account import RecoverAccount
from openbell_server.application.execution.settle_unknown import SettleUnknown
from openbell_server.brokers.paper.definition import PaperBroker
from openbell_server.brokers.paper.profiles import PAPER
from openbell_server.domain.orders.broker_reports import Accepted, NotSent, OrderReport, Outcome, Unknown
from support.brokers.paper_broker import until
from support.brokers.scripted_broker import Harness, until_so
from support.builders.tenant import a_cancel, a_limit_create, a_tenant, accept


class NamedBroker(PaperBroker):
    """Implements BrokerDefinition by a name and what differs from paper."""

    def __init__(self, name: str, **differs: Any) -> None:
        self.name = name
        self.capabilities = replace(PAPER.capabilities, **differs)


@dataclass(slots=True)
class Floor:
    """Desks of brokers, and what works all of them."""

    harnesses: dict[str, Harness]
    work: AccountDispatcher

    async def states(self, name: str) -> list[str]:
        rows = await self.harnesses[name].pool.fetch(
            "select s.state from action_states s join accounts a using (account_id) where a.broker = $1"
            " order by s.action_no",
            name,
        )
        return [row["state"] for row in rows]

    async def until_all(self, name: str, state: str, count: int) -> None:
        async def is_so() -> bool:
            return (await self.states(name)).count(state) == count

        await until(is_so, 60)


@asynccontextmanager
async def a_floor(pool: Pool, *definitions: NamedBroker) -> AsyncIterator[Floor]:
    """One account at each broker, all followed until the block ends."""
    harnesses, brokers, bulkheads = {}, {}, {}
    for definition in definitions:
        harness = Harness(pool, await a_tenant(pool))
        await pool.execute(
            "update accounts set broker = $1 where account_id = $2", definition.name, harness.account.account_id
        )
        budget = BrokerBudget(definition.capabilities, harness.clock)
        harnesses[definition.name], bulkheads[definition.name] = harness, Bulkhead(budget, harness.broker)
    first = next(iter(harnesses.values()))
    slots, store = await first.all_slots(), PostgresExecutionStore(pool)
    async with AsyncExitStack() as stack:
        for definition in definitions:
            harness, bulkhead = harnesses[definition.name], bulkheads[definition.name]
            session = BudgetedSession(harness.broker, bulkhead.budget)
            brokers[definition.name] = FollowBroker(
                definition, session, store, harness.track, slots, harness.sign_ins, time.monotonic
            )
            stack.push_async_callback(_end, asyncio.ensure_future(brokers[definition.name].run()))
        settle = SettleUnknown(store, first.track, first.hints, first.execute)
        recover = RecoverAccount(store, first.track)
        work = AccountDispatcher(store, first.execute, settle, recover, brokers, slots, bulkheads)
        await until_so(lambda: all(broker.ready(harnesses[name].account) for name, broker in brokers.items()))
        yield Floor(harnesses, work)
        await work.drain()


async def _end(running: asyncio.Task[None]) -> None:
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_broker_that_takes_half_a_minute_holds_up_no_door_and_no_look_up_of_another(pool: Pool) -> None:
    creates = 60

    async def half_a_minute(_: str) -> Outcome:
        await asyncio.sleep(30)
        return Accepted("b1")

    async def never_found(_: str) -> OrderReport | None:
        await asyncio.sleep(30)
        return None

    async with a_floor(pool, NamedBroker("slow", calls_at_once_max=32), NamedBroker("swift")) as floor:
        slow, swift = floor.harnesses["slow"], floor.harnesses["swift"]
        neighbours = [Harness(pool, await a_tenant(pool), slow.broker) for _ in range(11)]
        for harness in neighbours:
            await pool.execute("update accounts set broker = 'slow' where account_id = $1", harness.account.account_id)
        for harness in (slow, *neighbours):
            await accept(pool, *(harness.tenant.submission() for _ in range(4)))
        slow.broker.script.extend([half_a_minute] * 1_000)
        slow.broker.look_up = never_found
        for harness in (slow, *neighbours):
            floor.work.notify(harness.account.account_id)
        await until_so(lambda: slow.broker.calls >= 10)
        # In doubt at both: at the slow one more accounts than are looked at together.
        swift.broker.script.append(Unknown("no answer"))
        await swift.accept()
        floor.work.notify(swift.account.account_id)
        await floor.until_all("swift", "UNKNOWN", 1)
        await pool.execute(
            "update action_states set state = 'UNKNOWN', unknown_since = clock_timestamp(), send_started_at ="
            " clock_timestamp() - interval '1 minute', updated_at = clock_timestamp() - interval '1 minute'"
            " where state in ('DISPATCHING', 'UNKNOWN')"
        )
        await floor.work.sweep()
        await accept(pool, *(swift.tenant.submission() for _ in range(creates)))
        began = asyncio.get_running_loop().time()
        floor.work.notify(swift.account.account_id)
        await until_so(lambda: len(swift.broker.writes) == creates + 1 and len(swift.broker.asked) > 0)
        # Far less than one answer of the slow one takes, or one look-up of it at most.
        assert asyncio.get_running_loop().time() - began < 20
        assert len(slow.broker.writes) == slow.broker.calls < 48
        for task in floor.work._tasks:
            task.cancel()


async def test_cancels_pass_while_new_orders_are_over_budget_and_all_flows_in_its_time(pool: Pool) -> None:
    async with a_floor(pool, NamedBroker("counted", calls_per_second_max=5, calls_reserved=0.4)) as floor:
        harness = floor.harnesses["counted"]
        working = [await harness.accept(a_limit_create()) for _ in range(2)]
        await harness.work()
        await accept(pool, *(harness.tenant.submission() for _ in range(7)))
        floor.work.notify(harness.account.account_id)
        await until_so(lambda: len(harness.broker.writes) == 2 + 3)
        for intent in working:
            await harness.accept(a_cancel(intent))
        floor.work.notify(harness.account.account_id)
        await until_so(lambda: len(harness.broker.writes) == 2 + 3 + 2)
        assert [write.command for write in harness.broker.writes[-2:]] == ["cancel", "cancel"]
        # No door opens for what would have to wait.
        assert (await floor.states("counted")).count("QUEUED") == 4
        harness.clock.seconds += 1
        await until_so(lambda: len(harness.broker.writes) == 7 + 3)
        harness.clock.seconds += 1
        await floor.until_all("counted", "ACKED", 2 + 7 + 2)


async def test_after_a_request_for_calm_new_orders_wait_cancels_pass_and_then_all_flows(pool: Pool) -> None:
    async with a_floor(pool, NamedBroker("busy")) as floor:
        harness = floor.harnesses["busy"]
        intent = await harness.accept(a_limit_create())
        await harness.work()
        harness.broker.script.append(NotSent("429", retry_after=3))
        await harness.accept()
        floor.work.notify(harness.account.account_id)
        await floor.until_all("busy", "FAILED", 1)
        assert floor.work.bulkheads["busy"].budget.is_paused
        await accept(pool, *(harness.tenant.submission() for _ in range(6)))
        await harness.accept(a_cancel(intent))
        floor.work.notify(harness.account.account_id)
        await floor.until_all("busy", "ACKED", 2)
        assert [write.command for write in harness.broker.writes] == ["submit", "cancel"]
        assert (await floor.states("busy")).count("QUEUED") == 6
        for _ in range(2):
            # Not longer than the leases of slots last.
            harness.clock.seconds += 1.5
            await floor.work.slots.renew()
        await floor.until_all("busy", "ACKED", 8)
        assert not floor.work.bulkheads["busy"].budget.is_paused


@pytest.mark.parametrize("in_flight", [2, 4])
async def test_one_place_in_flight_is_a_cancel_s(pool: Pool, in_flight: int) -> None:
    gate = asyncio.Event()

    async def when_open(_: str) -> Outcome:
        await gate.wait()
        return Accepted("b1")

    async with a_floor(pool, NamedBroker("full", in_flight_max=in_flight)) as floor:
        harness = floor.harnesses["full"]
        intent = await harness.accept(a_limit_create())
        await harness.work()
        await accept(pool, *(harness.tenant.submission() for _ in range(6)))
        harness.broker.script.extend([when_open] * (in_flight - 1))
        floor.work.notify(harness.account.account_id)
        await until_so(lambda: harness.broker.calls == in_flight and not floor.work._working)
        await harness.accept(a_cancel(intent))
        floor.work.notify(harness.account.account_id)
        await until_so(lambda: [write.command for write in harness.broker.writes].count("cancel") == 1)
        # The cancel is settled a moment after it was written, and no create takes its place.
        await floor.until_all("full", "ACKED", 2)
        states = await floor.states("full")
        assert (states.count("DISPATCHING"), states.count("QUEUED")) == (in_flight - 1, 7 - in_flight)
        gate.set()
        await floor.until_all("full", "ACKED", 8)


def counted_looks(floor: Floor) -> list[UUID]:
    """The ids of every look for doors, from now on."""
    looks: list[UUID] = []

    def new_id() -> UUID:
        looks.append(uuid4())
        return looks[-1]

    floor.work.execute = replace(floor.work.execute, new_id=new_id)
    return looks


async def test_after_an_answer_nobody_looks_for_doors_where_nothing_waits(pool: Pool) -> None:
    async with a_floor(pool, NamedBroker("only")) as floor:
        looks, harness = counted_looks(floor), floor.harnesses["only"]
        await harness.accept()
        floor.work.notify(harness.account.account_id)
        await floor.until_all("only", "ACKED", 1)
        await floor.work.drain()
        assert len(looks) == 1


async def test_who_found_every_place_taken_is_looked_after_when_one_is_free(pool: Pool) -> None:
    asked, may_answer = asyncio.Event(), asyncio.Event()

    async def in_time(_: str) -> Outcome:
        asked.set()
        await may_answer.wait()
        return Accepted("b1")

    async with a_floor(pool, NamedBroker("only", in_flight_max=1)) as floor:
        looks, harness = counted_looks(floor), floor.harnesses["only"]
        harness.broker.script.append(in_time)
        await harness.accept()
        floor.work.notify(harness.account.account_id)
        await asked.wait()
        # As a hint of what is recorded a moment after the answer, which comes before its place is given back.
        floor.work.notify(harness.account.account_id)
        await until_so(lambda: harness.account.account_id in floor.work._at_in_flight_limit)
        may_answer.set()
        await until_so(lambda: len(looks) == 2)
