"""The order of an intent as stored facts, the table of its standings, and the one function that advances it.

Its status is derived, never stored.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final

from openbell_server.domain.errors import IllegalTransition
from openbell_server.domain.orders import EXACT, Terms


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
    """Which command the order waits for."""

    NONE = "NONE"
    NEW = "NEW"
    REPLACE = "REPLACE"
    CANCEL = "CANCEL"


class Certainty(StrEnum):
    """Whether what we show is the broker's word."""

    CONFIRMED = "CONFIRMED"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The facts."""

    terms: Terms
    filled_quantity: Decimal = Decimal(0)
    filled_value: Decimal = Decimal(0)
    standing: Standing = Standing.NONE
    close_reason: CloseReason | None = None
    pending: Pending = Pending.NEW
    certainty: Certainty = Certainty.CONFIRMED
    broker_order_ids: tuple[str, ...] = ()
    triggered: bool = False
    # How often the broker has changed the terms since the order began; what is told of earlier terms is old.
    terms_version: int = 1
    # The most that was ever asked for, where that is more than now.
    highest_quantity: Decimal | None = None
    # What was executed and taken back again.
    busted_quantity: Decimal = Decimal(0)
    # Whether the broker ever took back or corrected an execution, so that sums must be made anew.
    executions_changed: bool = False
    # An end that the broker told, and the fills that it counted: the order stays open until all of them are seen.
    ended: CloseReason | None = None
    ended_filled: Decimal = Decimal(0)

    @property
    def quantity(self) -> Decimal:
        """The total asked for, fills included."""
        return self.terms.quantity

    @property
    def leaves_quantity(self) -> Decimal:
        """What may still fill."""
        if self.standing is Standing.CLOSED:
            return Decimal(0)
        return max(Decimal(0), EXACT.subtract(self.quantity, self.filled_quantity))

    def overfilled_quantity(self, in_flight: Terms | None = None) -> Decimal:
        """What was filled beyond the most that was ever asked for; a replace in flight asks too."""
        highest = max(self.quantity, self.highest_quantity or self.quantity)
        asked = max(highest, in_flight.quantity) if in_flight else highest
        return max(Decimal(0), EXACT.subtract(self.filled_quantity, asked))

    @property
    def average_price(self) -> Decimal | None:
        """Value over quantity of all executions, to nine places."""
        if not self.filled_quantity:
            return None
        average = EXACT.divide(self.filled_value, self.filled_quantity)
        return EXACT.normalize(EXACT.quantize(average, Decimal(1).scaleb(-AVERAGE_PLACES)))


AVERAGE_PLACES: Final = 9


@dataclass(frozen=True, slots=True)
class Sighted:
    """The broker has the order, or says something about it."""

    broker_order_id: str


@dataclass(frozen=True, slots=True)
class Counted:
    """What all executions come to by now."""

    filled_quantity: Decimal
    filled_value: Decimal
    busted_quantity: Decimal = Decimal(0)
    changed: bool = False
    # A replace that is in flight: by its terms the order may not be full yet.
    in_flight: Terms | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """The broker told an end, and how much it counts as filled."""

    reason: CloseReason
    filled_quantity: Decimal


@dataclass(frozen=True, slots=True)
class Triggered:
    """A stop was reached."""


@dataclass(frozen=True, slots=True)
class Restated:
    """The broker told other terms than ours: of a replace whose answer got lost, or of its own accord."""

    terms: Terms
    version: int


@dataclass(frozen=True, slots=True)
class Asked:
    """A command passed the door."""

    pending: Pending


@dataclass(frozen=True, slots=True)
class Answered:
    """The pending command was answered and left the order as it was."""


@dataclass(frozen=True, slots=True)
class ReplaceAnswered:
    """A replace was answered; the terms are those it has now, with the broker's count of them if it was told."""

    terms: Terms
    version: int | None = None


@dataclass(frozen=True, slots=True)
class CancelTaken:
    """The broker took a cancel; the order ends when it says so."""


@dataclass(frozen=True, slots=True)
class Doubted:
    """Nobody can say whether the last command reached the broker."""


@dataclass(frozen=True, slots=True)
class Closed:
    """We, or an operator, know that the broker does not have the order."""

    reason: CloseReason


OrderEvent = (
    Sighted
    | Counted
    | Ended
    | Triggered
    | Restated
    | Asked
    | Answered
    | ReplaceAnswered
    | CancelTaken
    | Doubted
    | Closed
)

_NONE, _WORKING, _CLOSED = Standing.NONE, Standing.WORKING, Standing.CLOSED

# Which standing may follow which, by event; a pair that is not here is refused loudly.
STEPS: Final[dict[type[OrderEvent], dict[Standing, frozenset[Standing]]]] = {
    # Closed → working: we had closed it without the broker ever having shown it, and it shows it.
    Sighted: {_NONE: frozenset({_WORKING}), _WORKING: frozenset({_WORKING}), _CLOSED: frozenset({_CLOSED, _WORKING})},
    # Closed → working: it was full, and is not: an execution was taken back, or the broker told of a higher quantity.
    Counted: {_WORKING: frozenset({_WORKING, _CLOSED}), _CLOSED: frozenset({_CLOSED, _WORKING})},
    # Working → working: it counts fills that were not seen yet.
    Ended: {_WORKING: frozenset({_WORKING, _CLOSED}), _CLOSED: frozenset({_CLOSED})},
    Triggered: {_WORKING: frozenset({_WORKING}), _CLOSED: frozenset({_CLOSED})},
    # Whether it is over by the new terms, the count says that follows.
    Restated: {_WORKING: frozenset({_WORKING}), _CLOSED: frozenset({_CLOSED})},
    Asked: {_NONE: frozenset({_NONE}), _WORKING: frozenset({_WORKING})},
    Answered: {_NONE: frozenset({_NONE}), _WORKING: frozenset({_WORKING}), _CLOSED: frozenset({_CLOSED})},
    # Closed → working: it was full by its old quantity when the replace came, and the broker took it all the same.
    ReplaceAnswered: {
        _NONE: frozenset({_NONE}),
        _WORKING: frozenset({_WORKING, _CLOSED}),
        _CLOSED: frozenset({_CLOSED, _WORKING}),
    },
    CancelTaken: {_NONE: frozenset({_NONE}), _WORKING: frozenset({_WORKING})},
    Doubted: {_NONE: frozenset({_NONE}), _WORKING: frozenset({_WORKING})},
    Closed: {_NONE: frozenset({_CLOSED}), _WORKING: frozenset({_CLOSED})},
}

# Ends that only a broker can tell; whether an order is full, its executions say.
TOLD_ENDS: Final = frozenset({CloseReason.EXPIRED, CloseReason.CANCELED, CloseReason.REJECTED})
# Of two ends that a broker tells of one order, the later in this list is the truer: reports come in any order.
_RANK: Final = (CloseReason.FILLED, CloseReason.EXPIRED, CloseReason.CANCELED, CloseReason.REJECTED)


def advance(order: Order, event: OrderEvent) -> Order:
    """The order after an event, or a loud refusal: nothing else changes an order."""
    following = _EFFECTS[type(event)](order, event)
    if following.standing not in STEPS[type(event)].get(order.standing, frozenset()):
        raise IllegalTransition(
            f"an order that is {order.standing} cannot be {following.standing} after {type(event).__name__}"
        )
    return following


def status(order: Order) -> str:
    """The one word to show: doubt first, then what is pending, then how it ended, then how far it is."""
    if order.certainty is Certainty.UNKNOWN and order.pending is Pending.NEW:
        return "UNKNOWN"
    if order.pending is not Pending.NONE:
        return f"PENDING_{order.pending}"
    if order.close_reason is not None:
        return order.close_reason
    return "PARTIALLY_FILLED" if order.filled_quantity else "NEW"


def _sighted(order: Order, event: Sighted) -> Order:
    is_new = event.broker_order_id not in order.broker_order_ids
    if order.standing is Standing.CLOSED and not order.broker_order_ids:
        # We said that the broker never had it, and the broker says that it has: the broker is right.
        order = replace(order, standing=Standing.NONE, close_reason=None, ended=None)
    return replace(
        order,
        broker_order_ids=(*order.broker_order_ids, event.broker_order_id) if is_new else order.broker_order_ids,
        standing=Standing.WORKING if order.standing is Standing.NONE else order.standing,
        pending=Pending.NONE if order.pending is Pending.NEW else order.pending,
        # It answers whether the order is there, not whether a later command reached it.
        certainty=Certainty.CONFIRMED if order.pending is Pending.NEW else order.certainty,
    )


def _counted(order: Order, event: Counted) -> Order:
    counted = replace(
        order,
        filled_quantity=event.filled_quantity,
        filled_value=event.filled_value,
        busted_quantity=event.busted_quantity,
        executions_changed=order.executions_changed or event.changed,
    )
    return _resting(counted, event.in_flight)


def _ended(order: Order, event: Ended) -> Order:
    filled = event.filled_quantity
    if order.ended is event.reason:
        # Fills may follow an end, so the most that was told counts, unless some were taken back since.
        filled = (min if order.executions_changed else max)(filled, order.ended_filled)
    elif order.ended is not None and _RANK.index(order.ended) > _RANK.index(event.reason):
        return _resting(order)
    return _resting(replace(order, ended=event.reason, ended_filled=filled))


def _triggered(order: Order, _: Triggered) -> Order:
    return replace(order, triggered=True)


def _restated(order: Order, event: Restated) -> Order:
    return _with_terms(order, event.terms, event.version)


def _asked(order: Order, event: Asked) -> Order:
    """A new order is pending from the start; a cancel outranks a replace."""
    outranked = {Pending.NONE, Pending.REPLACE} if event.pending is Pending.CANCEL else {Pending.NONE}
    return replace(order, pending=event.pending) if order.pending in outranked else order


def _answered(order: Order, _: Answered) -> Order:
    if order.pending is Pending.NEW:
        # What is in doubt is whether the order itself is there, and this does not answer it.
        return order
    return replace(order, pending=Pending.NONE, certainty=Certainty.CONFIRMED)


def _replace_answered(order: Order, event: ReplaceAnswered) -> Order:
    """Full by its terms, the order has ended; a cancel that waits behind the replace stays pending."""
    version = event.version or order.terms_version + (event.terms != order.terms)
    before, order = order, _with_terms(order, event.terms, version)
    if order.standing is Standing.CLOSED:
        was_full = order.close_reason is CloseReason.FILLED and order.terms != before.terms
        return _resting(order) if was_full else order
    if order.pending is not Pending.NEW:
        pending = Pending.NONE if order.pending is Pending.REPLACE else order.pending
        order = replace(order, pending=pending, certainty=Certainty.CONFIRMED)
    return _resting(order) if order.standing is Standing.WORKING else order


def _cancel_taken(order: Order, _: CancelTaken) -> Order:
    return order if order.pending is Pending.NEW else replace(order, certainty=Certainty.CONFIRMED)


def _doubted(order: Order, _: Doubted) -> Order:
    return replace(order, certainty=Certainty.UNKNOWN)


def _closed(order: Order, event: Closed) -> Order:
    return _close(order, event.reason)


_EFFECTS: Final[dict[type[OrderEvent], Callable[[Order, Any], Order]]] = {
    Sighted: _sighted,
    Counted: _counted,
    Ended: _ended,
    Triggered: _triggered,
    Restated: _restated,
    Asked: _asked,
    Answered: _answered,
    ReplaceAnswered: _replace_answered,
    CancelTaken: _cancel_taken,
    Doubted: _doubted,
    Closed: _closed,
}


def _with_terms(order: Order, terms: Terms, version: int) -> Order:
    """Of two terms the later are the order's; both were asked for, whichever is told first."""
    highest = max(order.highest_quantity or order.quantity, order.quantity, terms.quantity)
    if version > order.terms_version:
        if order.ended is CloseReason.FILLED:
            order = _without_end(order)
        order = replace(order, terms=terms, terms_version=version)
    return replace(order, highest_quantity=highest if highest > order.quantity else None)


def _resting(order: Order, in_flight: Terms | None = None) -> Order:
    """Whether the order is over, by all that is known: full, or ended with every fill seen that the end counts."""
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
    """Full it was, by other terms or before something was taken back; whether it is now, its executions say."""
    return replace(order, ended=None, ended_filled=Decimal(0))


def _close(order: Order, reason: CloseReason) -> Order:
    return replace(
        order,
        standing=Standing.CLOSED,
        close_reason=reason,
        pending=Pending.NONE,
        certainty=Certainty.CONFIRMED,
        # How full it is, its executions say; any other end holds, should one of them be taken back.
        ended=None if order.ended is CloseReason.FILLED and order.filled_quantity >= order.quantity else order.ended,
        ended_filled=Decimal(0),
    )
