"""Decide from memory what an outcome or a report changes, by the functions that decide it under the account's lock."""

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, NoReturn, TypeVar, cast

from openbell_server.application.execution.ports import DraftEvent
from openbell_server.application.execution.record_outcomes import record, settlement_of
from openbell_server.application.execution.track_orders import apply_report
from openbell_server.application.ports.account_transaction import AccountTransaction, TrackedAction
from openbell_server.domain.events.account_events import EventKind
from openbell_server.domain.identifiers import IntentId, Symbol
from openbell_server.domain.orders.action_lifecycle import SETTLED, ActionState, Reason, advance
from openbell_server.domain.orders.broker_reports import BrokerExecution, OrderReport, Outcome
from openbell_server.domain.orders.order_aggregate import Order
from openbell_server.domain.orders.order_terms import EXACT
from openbell_server.domain.orders.positions import PositionCause

# The position is the last field of a trade's body.
_POSITION: Final = ',"position":'

Result = TypeVar("Result")


class NeedsDatabase(Exception):
    """The decision needs more than is remembered of an order."""


@dataclass(slots=True)
class DraftTransaction:
    """The part of AccountTransaction that an order with one action needs; keeps what would be written."""

    action: TrackedAction
    # The ids of the order's executions.
    known: frozenset[str]
    now: datetime
    reason: Reason | None = None
    executions: list[BrokerExecution] = field(default_factory=list)
    events: list[DraftEvent] = field(default_factory=list)
    # By how much the position changes; None without executions.
    change: Decimal | None = None

    def __getattr__(self, name: str) -> NoReturn:
        raise NeedsDatabase(name)

    def apply(self, received: Outcome | OrderReport) -> None:
        """Apply an answer of the broker or a report of it; raises NeedsDatabase."""
        before = self.action
        # Nothing here waits: each call of a draft returns at once.
        if isinstance(received, OrderReport):
            (after,) = _run_now(apply_report(cast("AccountTransaction", self), [before], received))
            if after.order != self.action.order:
                self.action = replace(self.action, order=after.order)
        else:
            settlement = settlement_of(before, received, [before])
            _run_now(record(cast("AccountTransaction", self), before, settlement, [before]))
        if _details(before.order) != _details(self.action.order):
            raise NeedsDatabase("details of the order")

    async def save_action(self, action: TrackedAction, state: ActionState, reason: Reason | None) -> None:
        advance(action.state, state)
        self.reason = reason
        settled_at = self.now if state in SETTLED else None
        self.action = replace(self.action, state=state, settled_at=settled_at)

    async def save_order(self, action: TrackedAction, order: Order) -> None:
        del action
        self.action = replace(self.action, order=order)

    async def add_executions(self, intent_id: IntentId, fills: Sequence[BrokerExecution]) -> set[str]:
        del intent_id
        seen = self.known | {fill.execution_id for fill in self.executions}
        unseen = {fill.execution_id: fill for fill in reversed(fills) if fill.execution_id not in seen}
        self.executions += reversed(unseen.values())
        return set(unseen)

    async def add_to_position(
        self, symbol: Symbol, change: Decimal, cause: PositionCause, intent_id: IntentId | None = None
    ) -> Decimal:
        """Returns 0: positions of the draft are relative to the one after it."""
        del symbol, cause, intent_id
        # Trades before this change have a position that is lower by it.
        self.events = [
            event if event.position is None else replace(event, position=EXACT.subtract(event.position, change))
            for event in self.events
        ]
        self.change = EXACT.add(self.change or Decimal(0), change)
        return Decimal(0)

    def append_event(self, kind: EventKind, intent_id: IntentId | None, seq: int | None, body: str) -> None:
        del intent_id
        assert seq is not None
        if kind is not EventKind.BROKER_TRADE:
            self.events.append(DraftEvent(kind, seq, body))
            return
        start, _, position = body.rpartition(_POSITION)
        self.events.append(DraftEvent(kind, seq, start + _POSITION, Decimal(position.strip('"}'))))


def _details(order: Order) -> tuple[object, ...]:
    """What changes with few orders, and is not written in sets."""
    return (
        order.terms,
        order.terms_version,
        order.triggered,
        order.highest_quantity,
        order.busted_quantity,
        order.executions_changed,
        order.unshown_end,
        order.ended_filled,
    )


def _run_now(work: Coroutine[Any, Any, Result]) -> Result:
    """The result of a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as ended:
        result: Result = ended.value
        return result
    work.close()
    raise NeedsDatabase("it waits")
