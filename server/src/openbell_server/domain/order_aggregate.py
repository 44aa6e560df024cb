"""The order of an intent as stored facts, and the functions that advance it; its status is derived, never stored."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from typing import Final

from openbell_server.domain.broker_orders import BrokerExecution, OrderReport, ReportStatus
from openbell_server.domain.orders import EXACT, Terms, exact_total


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

    @property
    def average_price(self) -> Decimal | None:
        """Value over quantity of all executions, to nine places."""
        if not self.filled_quantity:
            return None
        average = EXACT.divide(self.filled_value, self.filled_quantity)
        return EXACT.normalize(EXACT.quantize(average, Decimal(1).scaleb(-AVERAGE_PLACES)))


AVERAGE_PLACES: Final = 9

CLOSES: Final = {
    ReportStatus.FILLED: CloseReason.FILLED,
    ReportStatus.CANCELED: CloseReason.CANCELED,
    ReportStatus.EXPIRED: CloseReason.EXPIRED,
    ReportStatus.REJECTED: CloseReason.REJECTED,
}


def status(order: Order) -> str:
    """The one word to show: doubt first, then what is pending, then how it ended, then how far it is."""
    if order.certainty is Certainty.UNKNOWN and order.pending is Pending.NEW:
        return "UNKNOWN"
    if order.pending is not Pending.NONE:
        return f"PENDING_{order.pending}"
    if order.close_reason is not None:
        return order.close_reason
    return "PARTIALLY_FILLED" if order.filled_quantity else "NEW"


def apply_report(
    order: Order, report: OrderReport, unseen: Iterable[BrokerExecution], in_flight: Terms | None = None
) -> Order:
    """The order after a broker's report; unseen are its executions that were never counted before.

    Reports may come twice, late and out of order: fills add up in any state, an end is final, and an old
    WORKING never reopens a closed order. While a replace is in flight its terms may be the order's already, so an
    order that is full by its old quantity only is not yet taken for filled.
    """
    if order.close_reason is CloseReason.FAILED:
        # We said that the broker never had it, and the broker says that it has: the broker is right.
        order = replace(order, standing=Standing.NONE, close_reason=None)
    ids = order.broker_order_ids
    if report.broker_order_id not in ids:
        ids = (*ids, report.broker_order_id)
    fills = tuple(unseen)
    filled = exact_total([order.filled_quantity, *(fill.quantity for fill in fills)])
    value = exact_total([order.filled_value, *(EXACT.multiply(fill.quantity, fill.price) for fill in fills)])
    order = replace(
        order,
        broker_order_ids=ids,
        filled_quantity=filled,
        filled_value=value,
        standing=Standing.WORKING if order.standing is Standing.NONE else order.standing,
        pending=Pending.NONE if order.pending is Pending.NEW else order.pending,
        # A report answers whether the order is there, not whether a later command reached it.
        certainty=Certainty.CONFIRMED if order.pending is Pending.NEW else order.certainty,
    )
    if filled >= max(order.quantity, in_flight.quantity if in_flight else order.quantity):
        order = close(order, CloseReason.FILLED)
    # An end that counts more fills than we have seen waits for them: the caller asks the broker again.
    if report.status in CLOSES and report.filled_quantity <= filled and order.standing is not Standing.CLOSED:
        order = close(order, CLOSES[report.status])
    if in_flight is not None and order.standing is Standing.CLOSED and report.status in CLOSES:
        # The end is final, so it shows whether the replace came first.
        order = replace(order, terms=in_flight) if report.terms == in_flight else order
    return order


def close(order: Order, reason: CloseReason) -> Order:
    """The order, ended."""
    return replace(
        order, standing=Standing.CLOSED, close_reason=reason, pending=Pending.NONE, certainty=Certainty.CONFIRMED
    )


def doubt(order: Order) -> Order:
    """The order while nobody can say whether its last command reached the broker."""
    return replace(order, certainty=Certainty.UNKNOWN)


def settle_command(order: Order) -> Order:
    """The order once its pending command is answered and left it as it was."""
    return replace(order, pending=Pending.NONE, certainty=Certainty.CONFIRMED)


def settle_replace(order: Order, terms: Terms) -> Order:
    """The order once a replace is answered, with the terms it has now; full by them, it has ended.

    A cancel that waits behind the replace stays pending.
    """
    order = replace(order, terms=terms)
    if order.standing is Standing.CLOSED:
        return order
    if order.filled_quantity >= terms.quantity:
        return close(order, CloseReason.FILLED)
    pending = Pending.NONE if order.pending is Pending.REPLACE else order.pending
    return replace(order, pending=pending, certainty=Certainty.CONFIRMED)
