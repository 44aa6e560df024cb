"""Whatever a broker answers and reports, a tick writes what the long way would have written."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import pytest

from openbell_server.application.execution.record_outcomes import Door, RecordOutcomes
from openbell_server.application.execution.track_orders import TrackOrders
from openbell_server.domain.identifiers import ActionId, IntentId, client_order_id
from openbell_server.domain.orders.broker_reports import (
    Accepted,
    BrokerExecution,
    ExecutionChange,
    NotSent,
    OrderReport,
    Outcome,
    Refused,
    ReportStatus,
    Unknown,
)
from openbell_server.domain.orders.intents import CreateIntent
from openbell_server.domain.orders.order_terms import OrderSide
from simulation.memory_database import Book, DatabaseAway
from support.builders.tenant import a_limit_create, a_report, an_execution, new_id
from support.environment.scripted_ticks import Executor
from support.environment.store_benches import InMemory
from support.environment.tick_benches import memory_tick_bench
from support.rest.rest_api import RecordedHints

News = Outcome | OrderReport
ACCEPTED = Accepted("b1")
TWO, THREE, FIVE = an_execution(1, 2), an_execution(2, 3, 7), an_execution(3, 5)
PARTS = an_execution(1, Decimal("0.10")), an_execution(2, Decimal("1.2500"))


def works(*fills: BrokerExecution, told: Sequence[BrokerExecution] | None = None) -> OrderReport:
    return a_report(ReportStatus.WORKING, fills, told)


def ends(status: ReportStatus, *fills: BrokerExecution) -> OrderReport:
    return a_report(status, fills)


BUST = replace(
    works(TWO),
    filled_quantity=Decimal(0),
    changes=(ExecutionChange(execution_id="e1", revision=1, quantity=Decimal(0), price=Decimal(1)),),
)
SCRIPTS: dict[str, list[News]] = {
    "accepted": [ACCEPTED],
    "refused": [Refused("42", "no money")],
    "not sent": [NotSent("throttled", 1.0)],
    "unknown": [Unknown("no answer")],
    "accepted and working": [ACCEPTED, works()],
    "accepted and filled": [ACCEPTED, ends(ReportStatus.FILLED, TWO, THREE, FIVE)],
    "filled before the answer": [ends(ReportStatus.FILLED, TWO, THREE, FIVE), ACCEPTED],
    "working before the answer": [works(), ACCEPTED],
    "filled in parts": [ACCEPTED, works(TWO), works(TWO, THREE), ends(ReportStatus.FILLED, TWO, THREE, FIVE)],
    "only what is new": [ACCEPTED, works(TWO), works(TWO, THREE, told=[THREE])],
    "an answer between fills": [works(TWO), ACCEPTED, works(TWO, THREE)],
    "fills that come late": [ACCEPTED, works(TWO, THREE, told=[THREE]), works(TWO, THREE, told=[TWO])],
    "reported twice": [ACCEPTED, works(TWO), works(TWO), ACCEPTED],
    "one fill twice in a report": [works(TWO, told=[TWO, TWO])],
    "unknown, then reported": [Unknown("no answer"), works(TWO)],
    "reported, then unknown": [works(TWO), Unknown("no answer")],
    "unknown, then refused": [Unknown("no answer"), Refused("42", "")],
    "refused, yet reported": [Refused("42", ""), works(TWO)],
    "reported, yet refused": [works(TWO), Refused("42", "")],
    "not sent, yet reported": [NotSent("away"), works()],
    "canceled with a fill": [ACCEPTED, ends(ReportStatus.CANCELED, TWO)],
    "expired before the answer": [ends(ReportStatus.EXPIRED), ACCEPTED],
    "rejected": [ACCEPTED, replace(ends(ReportStatus.REJECTED), broker_code="7", broker_text="closed")],
    "an end before its fills": [ACCEPTED, replace(ends(ReportStatus.CANCELED, TWO), executions=()), works(TWO)],
    "digits": [ACCEPTED, works(*PARTS)],
    "busted": [ACCEPTED, works(TWO), BUST],
    "busted, then filled": [ACCEPTED, works(TWO), BUST, works(TWO, THREE)],
    "triggered": [ACCEPTED, replace(works(), triggered=True), works(TWO)],
    "more than was asked for": [ACCEPTED, works(TWO, an_execution(9, 100))],
    "totals alone": [
        ACCEPTED,
        replace(works(TWO, told=[]), average_price=Decimal(3), as_of=TWO.executed_at),
    ],
    "another id of the broker": [ACCEPTED, replace(works(TWO), broker_order_id="b2")],
}


@dataclass(slots=True)
class Desk:
    """One order whose door is open, in a database of its own, and what is made of news about it."""

    executor: Executor
    door: Door
    record: RecordOutcomes
    track: TrackOrders
    has_ticks: bool
    incomplete: list[OrderReport] = field(default_factory=list)

    async def take(self, received: News) -> None:
        """As the executor takes it: together with others, or else the long way."""
        if not isinstance(received, OrderReport):
            await self.record(self.door, received)
            return
        report = replace(received, client_order_id=client_order_id(self.door.action.action_id))
        left, incomplete = await self.executor.ticks.apply([report]) if self.has_ticks else ([report], [])
        incomplete += await self.track(self.door.account, left) if left else []
        self.incomplete += incomplete

    def outcome(self) -> dict[str, Any]:
        """All that was written, but times, attempts and versions."""
        database, account = self.executor.bench.database, self.door.account
        assert isinstance(database, InMemory)
        book: Book = database.memory.books[account.account_id]
        row = book.actions[self.door.action.action_id]
        return {
            "action": (row.state, row.reason, row.settled_at is not None),
            "order": book.orders[row.intent_id],
            "executions": book.executions,
            "positions": book.positions,
            "events": book.events,
            "incomplete": self.incomplete,
        }


async def desks(command: CreateIntent) -> list[Desk]:
    """The same order twice: of an executor with ticks, and of one without."""
    first, found = await memory_tick_bench(), []
    action_id, intent_id = ActionId(new_id()), IntentId(new_id())
    for has_ticks in (True, False):
        bench = await memory_tick_bench()
        assert isinstance(bench.database, InMemory)
        bench.database.memory.add_account(Book(account=first.account))
        executor = Executor(replace(bench, account=first.account))
        await bench.database.accept(first.account, action_id, intent_id, command)
        opened = await executor.ticks.open_doors(first.account, 1)
        assert opened is not None
        in_tick = executor.ticks.record if has_ticks else None
        record = RecordOutcomes(bench.store, executor.clock, (DatabaseAway,), Counter(), in_tick)
        track = TrackOrders(bench.store, RecordedHints())
        found.append(Desk(executor, opened.doors[0], record, track, has_ticks))
    return found


@pytest.mark.parametrize("side", [OrderSide.BUY, OrderSide.SELL])
@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
async def test_each_in_a_tick_of_its_own_gives_what_the_long_way_gives(script: list[News], side: OrderSide) -> None:
    ticked, long = await desks(replace(a_limit_create(), order_side=side))
    for received in script:
        await ticked.take(received)
        await long.take(received)
        assert ticked.outcome() == long.outcome()


@pytest.mark.parametrize("side", [OrderSide.BUY, OrderSide.SELL])
@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
async def test_all_in_one_tick_give_what_the_long_way_gives(script: list[News], side: OrderSide) -> None:
    ticked, long = await desks(replace(a_limit_create(), order_side=side))
    await asyncio.wait_for(asyncio.gather(*(ticked.take(received) for received in script)), 10)
    for received in script:
        await long.take(received)
    assert ticked.outcome() | {"incomplete": []} == long.outcome() | {"incomplete": []}


async def test_the_usual_news_need_no_long_way() -> None:
    for name in ("accepted", "refused", "unknown", "filled in parts", "filled before the answer", "digits"):
        ticked, _ = await desks(a_limit_create())
        for received in SCRIPTS[name]:
            await ticked.take(received)
        assert ticked.executor.ticks.long_way == {}, name
