"""One intent and the broker that has its order: every step of both in any order, and what must hold after each."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import reduce
from typing import Final, NamedTuple
from unittest.mock import patch

from openbell_server.domain.orders import action_lifecycle, action_outcomes, order_aggregate, order_reports
from openbell_server.domain.orders.action_lifecycle import PAST_DOOR, SETTLED, ActionState
from openbell_server.domain.orders.action_outcomes import Settlement, after_absence, after_look, after_outcome
from openbell_server.domain.orders.broker_reports import (
    BrokerExecution,
    ExecutionChange,
    OrderReport,
    Outcome,
    Refused,
    ReportStatus,
    Unknown,
)
from openbell_server.domain.orders.intent_reports import Reported, after_report_of_intent
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_aggregate import (
    Certainty,
    Closed,
    CloseReason,
    FillsTotalled,
    Order,
    OrderEvent,
    Pending,
    ReplaceAnswered,
    SeenAtBroker,
    Standing,
    advance,
)
from openbell_server.domain.orders.order_reports import (
    OVERFILL,
    RESTATED,
    counted_anew,
    counted_with,
    reported_executions,
    unseen_changes,
)
from openbell_server.domain.orders.order_terms import Terms
from support.brokers.single_order_broker import AbstractBroker, Habits
from support.builders.tenant import some_terms

NOW: Final = datetime(2026, 1, 5, 12, tzinfo=UTC)
LOST: Final = Unknown("no answer")
# Numbers to choose by are below this: one that many others divide.
PICK_MAX: Final = 2520


class Step(NamedTuple):
    """One event and the orders before and after it."""

    before: Order
    event: OrderEvent
    after: Order


@contextmanager
def recorded_steps() -> Iterator[list[Step]]:
    """Every step that the domain makes of any order while the block runs."""
    steps: list[Step] = []

    def recorded(order: Order, event: OrderEvent) -> Order:
        following = order_aggregate.advance(order, event)
        steps.append(Step(order, event, following))
        return following

    with ExitStack() as patches:
        for module in (order_reports, action_outcomes, sys.modules[__name__]):
            patches.enter_context(patch.object(module, "advance", recorded))
        yield steps


@dataclass(slots=True)
class Asked:
    """One of our actions, and what became of it on the way."""

    action_type: ActionType
    replacement: Terms | None = None
    state: ActionState = ActionState.DISPATCHING
    is_on_wire: bool = True
    was_taken: bool = False
    answer: Outcome | None = None


@dataclass(slots=True)
class Intent:
    """Our side: the order, its actions, and the executions that were told."""

    order: Order
    actions: list[Asked] = field(default_factory=list)
    executions: dict[str, BrokerExecution] = field(default_factory=dict)
    changes: list[ExecutionChange] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def report(self, report: OrderReport) -> Reported:
        """Apply a report as the application does."""
        told = reported_executions(self.order, report, NOW)
        unseen = {f.execution_id: f for f in told if f.execution_id not in self.executions}
        self.executions |= unseen
        news = unseen_changes(self.changes, report.changes)
        self.changes += news
        if report.changes or self.order.executions_changed:
            counted = counted_anew(self.executions.values(), self.changes)
        else:
            counted = counted_with(self.order, unseen.values())
        reported = after_report_of_intent(self.order, self.actions, report, counted, news)
        for action, settlement in zip(self.actions, reported.settlements, strict=True):
            if settlement is not None and settlement.state is not None:
                action.state = action_lifecycle.advance(action.state, settlement.state)
        self.order = reported.order
        self.said += reported.notices
        return reported

    def settle(self, action: Asked, settlement: Settlement) -> None:
        if settlement.state is not None:
            action.state = action_lifecycle.advance(action.state, settlement.state)
        self.order = settlement.order
        self.said += settlement.notices

    @property
    def in_flight(self) -> Asked | None:
        return next((action for action in self.actions if action.state in PAST_DOOR), None)


class OrderMachine:
    """Both sides and the wire between them; each operation takes a number and uses it to choose."""

    def __init__(self, habits: Habits, steps: list[Step]) -> None:
        self.broker = AbstractBroker(some_terms(10, "1.50"), habits)
        self.intent = Intent(Order(terms=self.broker.terms), [Asked(ActionType.CREATE)])
        self.first = self.intent.order
        self.steps = steps
        self.events: list[OrderEvent] = []
        self.lost = False

    def do(self, operation: str, pick: int) -> None:
        """Do it, where it can be done now, and check everything."""
        begun = self.intent.order
        del self.steps[:]
        getattr(self, f"_{operation}")(pick)
        assert not self.steps or (self.steps[0].before, self.steps[-1].after) == (begun, self.intent.order)
        self._check_steps()
        self.events += [step.event for step in self.steps]
        self._check()

    # The broker.

    def _fill(self, pick: int) -> None:
        broker = self.broker
        is_late = broker.end is ReportStatus.CANCELED and pick % 4 == 0 and broker.leaves > 0
        if broker.is_working or is_late:
            most = broker.leaves + (5 if broker.habits.overfills and pick % 5 == 0 else 0)
            broker.fill(most if pick % 3 == 0 else 1 + pick % most, 1 + pick % 7)

    def _change(self, pick: int) -> None:
        broker = self.broker
        if found := broker.changeable():
            execution_id = found[pick % len(found)]
            most = int(broker.live[execution_id][0]) + max(0, broker.leaves)
            broker.change(execution_id, 0 if pick % 2 else 1 + pick % most, 1 + pick % 5)

    def _finish(self, pick: int) -> None:
        if self.broker.is_working and pick % 3 == 0:
            self.broker.finish((ReportStatus.EXPIRED, ReportStatus.CANCELED, ReportStatus.REJECTED)[pick // 3 % 3])

    def _restate(self, pick: int) -> None:
        broker = self.broker
        if broker.habits.tells_versions and broker.ids and broker.end is None and (broker.is_working or pick % 4 == 0):
            quantity = max(1, int(broker.filled)) + pick % 9
            broker.restate(replace(broker.terms, quantity=Decimal(quantity), limit_price=Decimal(1 + pick % 3)))

    def _mention(self, pick: int) -> None:
        """Say something that ends nothing."""
        if self.broker.ids:
            (self.broker.trigger, self.broker.rest_for_the_day)[pick % 2]()

    # The wire.

    def _arrive(self, pick: int) -> None:
        waiting = [action for action in self.intent.actions if action.is_on_wire]
        if waiting:
            self._take(waiting[pick % len(waiting)], lies=pick % 10 == 0)

    def _take(self, action: Asked, *, lies: bool = False) -> None:
        action.is_on_wire = False
        if action.replacement and action.state in SETTLED and not self.broker.habits.tells_versions:
            # It came too late to be taken; only a broker that tells versions could tell us of its mistake.
            return
        if action.action_type is ActionType.CREATE:
            refuses = lies and bool(self.broker.version % 2)
            action.answer = Refused("E0", "no") if refuses else self.broker.create()
            action.was_taken = not refuses
            if lies and not refuses:
                action.answer = Refused("E9", "duplicate")
            return
        if action.replacement is not None:
            action.answer = self.broker.replace(action.replacement)
        else:
            action.answer = self.broker.cancel()
        action.was_taken = not isinstance(action.answer, Refused)

    def _lose_command(self, pick: int) -> None:
        waiting = [action for action in self.intent.actions if action.is_on_wire]
        if waiting and pick % 3 == 0:
            waiting[0].is_on_wire = False

    def _answer(self, _: int) -> None:
        action = self.intent.in_flight
        if action is not None and action.answer is not None and action.state is ActionState.DISPATCHING:
            self._settle(action, action.answer)

    def _time_out(self, _: int) -> None:
        """The answer did not come in time; waiting any longer ends no doubt."""
        action = self.intent.in_flight
        if action is not None:
            self._settle(action, LOST)
            assert action.state is ActionState.UNKNOWN or self.intent.order.standing is Standing.CLOSED
            doubtful = self.intent.order
            if action.state is ActionState.UNKNOWN:
                self._settle(action, LOST)
                assert (action.state, self.intent.order) == (ActionState.UNKNOWN, doubtful)

    def _settle(self, action: Asked, outcome: Outcome) -> None:
        order, asked = self.intent.order, action.replacement
        self.intent.settle(action, after_outcome(action.action_type, action.state, order, outcome, asked))

    def _deliver(self, pick: int) -> None:
        feed = self.broker.feed
        if feed:
            place = pick % len(feed)
            # Some come again.
            report = feed[place] if pick % 5 == 0 else feed.pop(place)
            self._report(report)

    def _lose_report(self, pick: int) -> None:
        if self.broker.feed and pick % 3 == 0:
            self.broker.feed.pop(pick % len(self.broker.feed))
            self.lost = True

    def _report(self, report: OrderReport) -> None:
        self.intent.report(report)
        before, mark = self.intent.order, len(self.steps)
        again = self.intent.report(report)
        assert (again.order, again.notices) == (before, []), "a report that came twice was applied twice"
        assert all(each is None or each.state is None for each in again.settlements)
        del self.steps[mark:]

    # We.

    def _ask_replace(self, pick: int) -> None:
        order = self.intent.order
        if order.standing is Standing.WORKING and order.pending is Pending.NONE and self.intent.in_flight is None:
            quantity = order.filled_quantity + 1 + pick % 12
            terms = some_terms(quantity, f"{2 + pick % 50}")
            self._ask(Asked(ActionType.REPLACE, terms))

    def _ask_cancel(self, pick: int) -> None:
        order = self.intent.order
        ready = order.standing is Standing.WORKING and self.intent.in_flight is None
        if ready and order.pending is Pending.NONE and pick % 4 == 0:
            self._ask(Asked(ActionType.CANCEL))

    def _ask(self, action: Asked) -> None:
        self.intent.order = action_outcomes.past_door(action.action_type, self.intent.order)
        self.intent.actions.append(action)

    def _look(self, _: int) -> None:
        report = self.broker.look()
        if report is not None:
            self._report(report)
        action = self.intent.in_flight
        if action is not None and action.state is ActionState.UNKNOWN:
            if action.action_type is not ActionType.CANCEL:
                # Only past every delay does a look-up that misses prove anything.
                proves = not action.is_on_wire
                settlement = after_look(self.intent.order, report, action.replacement, missed_before=proves)
                self.intent.settle(action, settlement)
            elif not action.is_on_wire:
                action.answer = self.broker.cancel()
                self._settle(action, action.answer)

    def _give_up(self, pick: int) -> None:
        """Of a create in doubt: wrongly proved absent, or given up by an operator."""
        action = self.intent.actions[0]
        if action.state is ActionState.UNKNOWN and pick % 3 == 0:
            if pick % 2:
                order = advance(self.intent.order, Closed(CloseReason.RECONCILED_OUT))
                self.intent.settle(action, Settlement(ActionState.ABANDONED, None, order))
            else:
                self.intent.settle(action, after_absence(self.intent.order))

    # What must hold.

    def _check_steps(self) -> None:
        for before, event, after in self.steps:
            if before.standing is Standing.CLOSED and after.standing is not Standing.CLOSED:
                was_full = before.close_reason is CloseReason.FILLED
                unseen = isinstance(event, SeenAtBroker) and not before.broker_order_ids
                assert unseen or (was_full and isinstance(event, FillsTotalled | ReplaceAnswered)), event
        for step, following in zip(self.steps, self.steps[1:], strict=False):
            assert step.after == following.before

    def _check(self) -> None:
        intent, order = self.intent, self.intent.order
        filled = counted_anew(intent.executions.values(), intent.changes)
        assert (order.filled_quantity, order.filled_value) == (filled.filled_quantity, filled.filled_value)
        assert order.filled_quantity >= 0
        left = max(Decimal(0), order.quantity - order.filled_quantity)
        assert order.leaves_quantity == (0 if order.standing is Standing.CLOSED else left)
        assert (order.close_reason is None) == (order.standing is not Standing.CLOSED)
        assert (order.standing is Standing.NONE) == (order.pending is Pending.NEW)
        flying = [action for action in intent.actions if action.state in PAST_DOOR]
        assert len(flying) <= 1
        replacement = flying[0].replacement if flying else None
        if order.pending is Pending.REPLACE:
            assert replacement is not None
        if order.pending is Pending.CANCEL:
            assert intent.actions[-1].action_type is ActionType.CANCEL
        if order.certainty is Certainty.UNKNOWN:
            assert flying
            assert flying[0].state is ActionState.UNKNOWN
        if order.overfilled_quantity(replacement):
            assert OVERFILL in intent.said
        if OVERFILL in intent.said:
            # What was taken back may be told after what was filled instead.
            assert self.broker.habits.overfills or self.broker.changes or self.lost, "a false alarm"

    def finish(self, pick: int) -> None:
        """Let everything come to an end, and compare with the broker's truth."""
        for action in self.intent.actions:
            if action.is_on_wire:
                self._take(action)
        self.do("answer", 0)
        self.do("time_out", 0)
        while self.broker.feed:
            pick += 1
            self.do("deliver", pick)
        certain = not self.lost and self.broker.habits.tells_versions and self.intent.in_flight is None
        if certain and self.broker.ids:
            self._compare()
        for _ in range(3):
            self.do("look", 0)
            while self.broker.feed:
                self.do("deliver", 1)
        self._compare()
        assert reduce(order_aggregate.advance, self.events, self.first) == self.intent.order

    def _compare(self) -> None:
        order, broker, create = self.intent.order, self.broker, self.intent.actions[0]
        if not broker.ids:
            assert (order.standing, order.filled_quantity) == (Standing.CLOSED, Decimal(0))
            return
        status = CloseReason(broker.status) if broker.status is not ReportStatus.WORKING else None
        assert (order.close_reason, order.filled_quantity, order.filled_value, order.terms, order.triggered) == (
            status,
            broker.filled,
            broker.value,
            broker.terms,
            broker.triggered,
        )
        assert order.standing is (Standing.CLOSED if status else Standing.WORKING)
        assert (order.pending, order.certainty) == (Pending.NONE, Certainty.CONFIRMED)
        assert broker.ids[-1] in order.broker_order_ids
        assert all(action.state in SETTLED for action in self.intent.actions)
        assert create.state is ActionState.ACKED or (status, broker.filled) == (CloseReason.REJECTED, Decimal(0))
        for action in self.intent.actions[1:]:
            if not broker.restated and action.replacement is not None:
                was_acked = action.state is ActionState.ACKED
                assert was_acked == action.was_taken or (action.was_taken and RESTATED in self.intent.said)


OPERATIONS: Final = (
    "fill",
    "change",
    "finish",
    "restate",
    "mention",
    "arrive",
    "lose_command",
    "answer",
    "time_out",
    "deliver",
    "lose_report",
    "ask_replace",
    "ask_cancel",
    "look",
    "give_up",
)
