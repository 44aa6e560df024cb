"""The order of an intent as stored facts, the table of its states, and the function that advances it.

The status is derived, never stored.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final

from openbell_server.domain.errors import IllegalTransition
from openbell_server.domain.orders.order_terms import EXACT, Terms


class Standing(StrEnum):
    """Whether the order exists at the broker."""

    NONE = "NONE"
    WORKING = "WORKING"
    CLOSED = "CLOSED"


class CloseReason(StrEnum):
    """How an order ended."""

    FILLED = "FILLED"
    CANCELED = "CANCELED"
    EXPIRED = "EXPIRED"
    REJECTED = "REJECTED"
    SKIPPED = "SKIPPED"
    FAILED = "FAILED"
    RECONCILED_OUT = "RECONCILED_OUT"


class Pending(StrEnum):
    """The command whose answer the order waits for."""

    NONE = "NONE"
    NEW = "NEW"
    REPLACE = "REPLACE"
    CANCEL = "CANCEL"


class Certainty(StrEnum):
    """Whether the broker has confirmed what we show."""

    CONFIRMED = "CONFIRMED"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    terms: Terms
    filled_quantity: Decimal = Decimal(0)
    filled_value: Decimal = Decimal(0)
    standing: Standing = Standing.NONE
    close_reason: CloseReason | None = None
    pending: Pending = Pending.NEW
    certainty: Certainty = Certainty.CONFIRMED
    broker_order_ids: tuple[str, ...] = ()
    triggered: bool = False
    # One more at each change of the terms; reports with an older version are outdated.
    terms_version: int = 1
    # The highest quantity ever requested, where it is above the current one.
    highest_quantity: Decimal | None = None
    # Executed and then busted.
    busted_quantity: Decimal = Decimal(0)
    # Whether the broker ever busted or corrected an execution, so that totals must be recomputed.
    executions_changed: bool = False
    # An end that the broker reported, and its filled quantity: the order stays open until all those fills are seen.
    ended: CloseReason | None = None
    ended_filled: Decimal = Decimal(0)

    @property
    def quantity(self) -> Decimal:
        """The requested total, fills included."""
        return self.terms.quantity

    @property
    def leaves_quantity(self) -> Decimal:
        if self.standing is Standing.CLOSED:
            return Decimal(0)
        return max(Decimal(0), EXACT.subtract(self.quantity, self.filled_quantity))

    @property
    def unshown_end(self) -> CloseReason | None:
        """An end that the broker reported and the close reason does not show."""
        return None if self.ended is self.close_reason and self.ended in REPORTED_ENDS else self.ended

    def overfilled_quantity(self, in_flight: Terms | None = None) -> Decimal:
        """The filled quantity beyond the highest ever requested, a replace in flight included."""
        highest = max(self.quantity, self.highest_quantity or self.quantity)
        requested = max(highest, in_flight.quantity) if in_flight else highest
        return max(Decimal(0), EXACT.subtract(self.filled_quantity, requested))

    @property
    def average_price(self) -> Decimal | None:
        """Value divided by quantity of all executions, to nine decimal places."""
        if not self.filled_quantity:
            return None
        average = EXACT.divide(self.filled_value, self.filled_quantity)
        return EXACT.normalize(EXACT.quantize(average, Decimal(1).scaleb(-AVERAGE_PLACES)))


AVERAGE_PLACES: Final = 9


@dataclass(frozen=True, slots=True)
class SeenAtBroker:
    """The broker has the order, or reports on it."""

    broker_order_id: str


@dataclass(frozen=True, slots=True)
class FillsTotalled:
    """The totals of all executions so far."""

    filled_quantity: Decimal
    filled_value: Decimal
    busted_quantity: Decimal = Decimal(0)
    changed: bool = False
    # A replace in flight: by its terms the order may not be filled yet.
    in_flight: Terms | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """The broker reported an end, with its filled quantity."""

    reason: CloseReason
    filled_quantity: Decimal


@dataclass(frozen=True, slots=True)
class Triggered:
    """The stop price was reached."""


@dataclass(frozen=True, slots=True)
class Restated:
    """The broker reported other terms than ours: its answer to a replace was lost, or it changed the order itself."""

    terms: Terms
    version: int


@dataclass(frozen=True, slots=True)
class CommandSent:
    """A command passed the door."""

    pending: Pending


@dataclass(frozen=True, slots=True)
class CommandAnswered:
    """The pending command was answered and did not change the order."""


@dataclass(frozen=True, slots=True)
class ReplaceAnswered:
    """A replace was answered, with the order's terms after it and the broker's version of them if reported."""

    terms: Terms
    version: int | None = None


@dataclass(frozen=True, slots=True)
class CancelTaken:
    """The broker accepted a cancel; the order ends when the broker reports its end."""


@dataclass(frozen=True, slots=True)
class OutcomeUnknown:
    """The last command may or may not have reached the broker."""


@dataclass(frozen=True, slots=True)
class Closed:
    """Openbell or an operator established that the broker does not have the order."""

    reason: CloseReason


OrderEvent = (
    SeenAtBroker
    | FillsTotalled
    | Ended
    | Triggered
    | Restated
    | CommandSent
    | CommandAnswered
    | ReplaceAnswered
    | CancelTaken
    | OutcomeUnknown
    | Closed
)

_NONE, _WORKING, _CLOSED = Standing.NONE, Standing.WORKING, Standing.CLOSED

# Allowed standings after each event; any other pair raises IllegalTransition.
STEPS: Final[dict[type[OrderEvent], dict[Standing, frozenset[Standing]]]] = {
    # Closed → working: Openbell closed it before the broker ever showed it, and the broker shows it now.
    SeenAtBroker: {
        _NONE: frozenset({_WORKING}),
        _WORKING: frozenset({_WORKING}),
        _CLOSED: frozenset({_CLOSED, _WORKING}),
    },
    # Closed → working: it was filled, then an execution was busted or the broker reported a higher quantity.
    FillsTotalled: {_WORKING: frozenset({_WORKING, _CLOSED}), _CLOSED: frozenset({_CLOSED, _WORKING})},
    # Working → working: the end counts fills that were not seen yet.
    Ended: {_WORKING: frozenset({_WORKING, _CLOSED}), _CLOSED: frozenset({_CLOSED})},
    Triggered: {_WORKING: frozenset({_WORKING}), _CLOSED: frozenset({_CLOSED})},
    # The FillsTotalled event that follows decides whether the order is filled by the new terms.
    Restated: {_WORKING: frozenset({_WORKING}), _CLOSED: frozenset({_CLOSED})},
    CommandSent: {_NONE: frozenset({_NONE}), _WORKING: frozenset({_WORKING})},
    CommandAnswered: {_NONE: frozenset({_NONE}), _WORKING: frozenset({_WORKING}), _CLOSED: frozenset({_CLOSED})},
    # Closed → working: it was filled by its old quantity, and the broker accepted the replace nevertheless.
    ReplaceAnswered: {
        _NONE: frozenset({_NONE}),
        _WORKING: frozenset({_WORKING, _CLOSED}),
        _CLOSED: frozenset({_CLOSED, _WORKING}),
    },
    CancelTaken: {_NONE: frozenset({_NONE}), _WORKING: frozenset({_WORKING})},
    OutcomeUnknown: {_NONE: frozenset({_NONE}), _WORKING: frozenset({_WORKING})},
    Closed: {_NONE: frozenset({_CLOSED}), _WORKING: frozenset({_CLOSED})},
}

# Ends that only a broker reports; FILLED follows from the executions.
REPORTED_ENDS: Final = frozenset({CloseReason.EXPIRED, CloseReason.CANCELED, CloseReason.REJECTED})
# Reports come in any order: of two ends of one order, the later in this list counts.
_RANK: Final = (CloseReason.FILLED, CloseReason.EXPIRED, CloseReason.CANCELED, CloseReason.REJECTED)


def advance(order: Order, event: OrderEvent) -> Order:
    """The only function that changes an order; raises IllegalTransition if the table does not allow the step."""
    following = _EFFECTS[type(event)](order, event)
    if following.standing not in STEPS[type(event)].get(order.standing, frozenset()):
        raise IllegalTransition(
            f"an order that is {order.standing} cannot be {following.standing} after {type(event).__name__}"
        )
    return following


def status(order: Order) -> str:
    """The status to show: unknown first, then the pending command, then the close reason, then how far it is filled."""
    if order.certainty is Certainty.UNKNOWN and order.pending is Pending.NEW:
        return "UNKNOWN"
    if order.pending is not Pending.NONE:
        return f"PENDING_{order.pending}"
    if order.close_reason is not None:
        return order.close_reason
    return "PARTIALLY_FILLED" if order.filled_quantity else "NEW"


def _seen_at_broker(order: Order, event: SeenAtBroker) -> Order:
    is_new = event.broker_order_id not in order.broker_order_ids
    if not is_new and order.pending is not Pending.NEW and order.standing is not Standing.NONE:
        return order
    if order.standing is Standing.CLOSED and not order.broker_order_ids:
        # Openbell closed it as never received, but the broker has it: the broker is right.
        order = replace(order, standing=Standing.NONE, close_reason=None, ended=None)
    return replace(
        order,
        broker_order_ids=(*order.broker_order_ids, event.broker_order_id) if is_new else order.broker_order_ids,
        standing=Standing.WORKING if order.standing is Standing.NONE else order.standing,
        pending=Pending.NONE if order.pending is Pending.NEW else order.pending,
        # This confirms that the order exists, not that a later command arrived.
        certainty=Certainty.CONFIRMED if order.pending is Pending.NEW else order.certainty,
    )


def _fills_totalled(order: Order, event: FillsTotalled) -> Order:
    counted = replace(
        order,
        filled_quantity=event.filled_quantity,
        filled_value=event.filled_value,
        busted_quantity=event.busted_quantity,
        executions_changed=order.executions_changed or event.changed,
    )
    return _settled(counted, event.in_flight)


def _ended(order: Order, event: Ended) -> Order:
    filled = event.filled_quantity
    if order.ended is event.reason:
        # Fills may follow an end, so the highest reported total counts, unless some were busted since.
        filled = (min if order.executions_changed else max)(filled, order.ended_filled)
    elif order.ended is not None and _RANK.index(order.ended) > _RANK.index(event.reason):
        return _settled(order)
    return _settled(replace(order, ended=event.reason, ended_filled=filled))


def _triggered(order: Order, _: Triggered) -> Order:
    return replace(order, triggered=True)


def _restated(order: Order, event: Restated) -> Order:
    return _with_terms(order, event.terms, event.version)


def _command_sent(order: Order, event: CommandSent) -> Order:
    """A new order is pending from the start; a cancel replaces a pending replace."""
    outranked = {Pending.NONE, Pending.REPLACE} if event.pending is Pending.CANCEL else {Pending.NONE}
    return replace(order, pending=event.pending) if order.pending in outranked else order


def _command_answered(order: Order, _: CommandAnswered) -> Order:
    if order.pending is Pending.NEW:
        # It is unknown whether the order itself exists, and this answer does not show it.
        return order
    return replace(order, pending=Pending.NONE, certainty=Certainty.CONFIRMED)


def _replace_answered(order: Order, event: ReplaceAnswered) -> Order:
    """An order filled by its new terms has ended; a cancel queued behind the replace stays pending."""
    version = event.version or order.terms_version + (event.terms != order.terms)
    before, order = order, _with_terms(order, event.terms, version)
    if order.standing is Standing.CLOSED:
        was_full = order.close_reason is CloseReason.FILLED and order.terms != before.terms
        return _settled(order) if was_full else order
    if order.pending is not Pending.NEW:
        pending = Pending.NONE if order.pending is Pending.REPLACE else order.pending
        order = replace(order, pending=pending, certainty=Certainty.CONFIRMED)
    return _settled(order) if order.standing is Standing.WORKING else order


def _cancel_taken(order: Order, _: CancelTaken) -> Order:
    return order if order.pending is Pending.NEW else replace(order, certainty=Certainty.CONFIRMED)


def _outcome_unknown(order: Order, _: OutcomeUnknown) -> Order:
    return replace(order, certainty=Certainty.UNKNOWN)


def _closed(order: Order, event: Closed) -> Order:
    return _close(order, event.reason)


_EFFECTS: Final[dict[type[OrderEvent], Callable[[Order, Any], Order]]] = {
    SeenAtBroker: _seen_at_broker,
    FillsTotalled: _fills_totalled,
    Ended: _ended,
    Triggered: _triggered,
    Restated: _restated,
    CommandSent: _command_sent,
    CommandAnswered: _command_answered,
    ReplaceAnswered: _replace_answered,
    CancelTaken: _cancel_taken,
    OutcomeUnknown: _outcome_unknown,
    Closed: _closed,
}


def _with_terms(order: Order, terms: Terms, version: int) -> Order:
    """The later version of the terms counts; both quantities count as requested, in any order of reports."""
    highest = max(order.highest_quantity or order.quantity, order.quantity, terms.quantity)
    if version > order.terms_version:
        if order.ended is CloseReason.FILLED:
            order = _without_end(order)
        order = replace(order, terms=terms, terms_version=version)
    highest_quantity = highest if highest > order.quantity else None
    return order if highest_quantity == order.highest_quantity else replace(order, highest_quantity=highest_quantity)


def _settled(order: Order, in_flight: Terms | None = None) -> Order:
    """Close the order if it is filled, or ended with all fills of that end seen; reopen it if it is not filled now."""
    wanted = max(order.quantity, in_flight.quantity if in_flight else order.quantity)
    if order.ended is CloseReason.FILLED and order.busted_quantity:
        order = _without_end(order)
    if order.filled_quantity >= wanted:
        return _close(order, CloseReason.FILLED)
    if order.ended is not None and order.filled_quantity >= order.ended_filled:
        return _close(order, order.ended)
    if order.close_reason is CloseReason.FILLED and order.filled_quantity < order.quantity:
        return replace(order, standing=Standing.WORKING, close_reason=None)
    return order


def _without_end(order: Order) -> Order:
    """Drop a reported FILLED that is outdated by new terms or a bust: the executions decide."""
    return replace(order, ended=None, ended_filled=Decimal(0))


def _close(order: Order, reason: CloseReason) -> Order:
    return replace(
        order,
        standing=Standing.CLOSED,
        close_reason=reason,
        pending=Pending.NONE,
        certainty=Certainty.CONFIRMED,
        # The executions decide whether it is filled; any other reported end stays valid after a bust.
        ended=None if order.ended is CloseReason.FILLED and order.filled_quantity >= order.quantity else order.ended,
        ended_filled=Decimal(0),
    )
