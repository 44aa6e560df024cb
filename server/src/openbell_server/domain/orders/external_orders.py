"""Orders at a broker that Openbell did not send: how they are recorded, and which of them halt the account."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final

from openbell_server.domain.identifiers import ActionId, Symbol, action_of
from openbell_server.domain.orders.broker_reports import OrderDescription, OrderReport
from openbell_server.domain.orders.order_reports import CLOSES, counted_anew
from openbell_server.domain.orders.order_terms import EXACT, PLACES_MAX, OrderSide, OrderType, Terms, TimeInForce

# Halts an account: its broker has more orders under our ids than were ever sent.
ORDERS_EXCEED_DOORS: Final = "ORDERS_EXCEED_DOORS"
_VERSION: Final = 7
_SHOWN_MAX: Final = 5
_ROUNDED_PLACES: Final = 10


class ExternalStatus(StrEnum):
    """The status of an order that Openbell did not send."""

    WORKING = "WORKING"
    DONE_FOR_DAY = "DONE_FOR_DAY"
    FILLED = "FILLED"
    CANCELED = "CANCELED"
    EXPIRED = "EXPIRED"
    REJECTED = "REJECTED"
    # The command that a restored database lacked was sent again: the order now belongs to that intent.
    ADOPTED = "ADOPTED"


_ENDS: Final = frozenset({ExternalStatus.ADOPTED, *(ExternalStatus(status) for status in CLOSES)})


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalOrder:
    """An order that Openbell did not send, as its broker reports it."""

    broker_order_id: str
    client_order_id: str | None
    symbol: Symbol
    order_side: OrderSide
    order_type: OrderType
    quantity: Decimal | None
    limit_price: Decimal | None
    stop_price: Decimal | None
    time_in_force: TimeInForce | None
    status: ExternalStatus
    filled_quantity: Decimal
    # Quantity multiplied by price, of all fills; None: unknown.
    filled_value: Decimal | None = None
    accepted_at: datetime

    @property
    def is_open(self) -> bool:
        return self.status not in _ENDS

    @property
    def average_price(self) -> Decimal | None:
        """Exact if 18 decimals suffice, otherwise rounded to 10."""
        if self.filled_value is None or not self.filled_quantity:
            return None
        average = EXACT.divide(self.filled_value, self.filled_quantity)
        shown = EXACT.quantize(average, Decimal(1).scaleb(-PLACES_MAX))
        if EXACT.multiply(shown, self.filled_quantity) != self.filled_value:
            shown = EXACT.quantize(average, Decimal(1).scaleb(-_ROUNDED_PLACES))
        return EXACT.normalize(shown)


def merge_report(known: ExternalOrder | None, report: OrderReport, description: OrderDescription) -> ExternalOrder:
    """The order after a report, in any order of reports.

    The filled quantity falls only where the broker reports busted executions.
    """
    status, filled = ExternalStatus(report.status), report.filled_quantity
    if known is not None:
        if not known.is_open:
            status = known.status
        if not report.changes:
            filled = max(filled, known.filled_quantity)
        if known.status is ExternalStatus.ADOPTED:
            filled = known.filled_quantity
    terms: Terms | ExternalOrder | None = known if report.terms is None else report.terms
    return ExternalOrder(
        broker_order_id=report.broker_order_id,
        client_order_id=report.client_order_id,
        symbol=description.symbol,
        order_side=description.order_side,
        order_type=description.order_type,
        quantity=None if terms is None else terms.quantity,
        limit_price=None if terms is None else terms.limit_price,
        stop_price=None if terms is None else terms.stop_price,
        time_in_force=None if terms is None else terms.time_in_force,
        status=status,
        filled_quantity=filled,
        filled_value=_filled_value(known, report, filled),
        accepted_at=description.accepted_at,
    )


def position_change(before: ExternalOrder | None, after: ExternalOrder) -> Decimal:
    return _signed(after, _new_quantity(before, after.filled_quantity))


def value_of_change(before: ExternalOrder | None, after: ExternalOrder, report: OrderReport | None) -> Decimal | None:
    """The value of the fills by which an order changes a position, negative for sells; None: unknown."""
    value_before = before.filled_value if before else Decimal(0)
    if after.filled_value is not None and value_before is not None:
        return _signed(after, EXACT.subtract(after.filled_value, value_before))
    # The report may name the new fills where the earlier ones are unknown.
    new = _new_quantity(before, after.filled_quantity)
    value = None if report is None else _value_of_new_fills(report, new)
    return None if value is None else _signed(after, value)


def _filled_value(known: ExternalOrder | None, report: OrderReport, filled: Decimal) -> Decimal | None:
    """The value of all fills after a report: from its executions, or else from its average price; None: unknown."""
    if known is not None and known.status is ExternalStatus.ADOPTED:
        return known.filled_value
    counted = counted_anew(report.executions, report.changes)
    if counted.filled_quantity == filled:
        return counted.filled_value
    value_before, new = known.filled_value if known else Decimal(0), _new_quantity(known, filled)
    if value_before is not None and not report.changes:
        value = _value_of_new_fills(report, new) if new else Decimal(0)
        if value is not None:
            return EXACT.add(value_before, value)
    if report.average_price is not None and report.filled_quantity == filled:
        return EXACT.multiply(filled, report.average_price)
    return None


def _value_of_new_fills(report: OrderReport, quantity: Decimal) -> Decimal | None:
    """The value of a report's executions if they add up to the new quantity."""
    counted = counted_anew(report.executions, ())
    return None if report.changes or counted.filled_quantity != quantity else counted.filled_value


def _signed(order: ExternalOrder, amount: Decimal) -> Decimal:
    return amount if order.order_side is OrderSide.BUY else EXACT.minus(amount)


def _new_quantity(before: ExternalOrder | None, filled: Decimal) -> Decimal:
    return EXACT.subtract(filled, before.filled_quantity if before else Decimal(0))


def own_action(client_order_id: str | None) -> ActionId | None:
    """The action behind a client order id, or None if Openbell did not make the id."""
    action_id = None if client_order_id is None else action_of(client_order_id)
    return action_id if action_id is not None and action_id.version == _VERSION else None


def excess(
    listed: Collection[OrderReport],
    unsent: Collection[ActionId],
    unrecorded: Collection[ActionId],
    since: datetime | None,
) -> list[str]:
    """Describe orders under our ids beyond those that passed a door, accepted after `since`.

    The texts are stored with the halt.
    """
    found: dict[ActionId, set[str]] = defaultdict(set)
    for report in listed:
        action_id = own_action(report.client_order_id)
        is_settled = since is not None and (report.description is None or report.description.accepted_at <= since)
        if action_id is not None and not is_settled:
            found[action_id].add(report.broker_order_id)
    texts = []
    for action_id, orders in found.items():
        named = ", ".join(sorted(orders))
        if action_id in unrecorded:
            texts.append(f"order {named} bears the id of an action {action_id} that is not on record")
        if action_id in unsent:
            texts.append(f"order {named} belongs to action {action_id}, which was never sent")
        if len(orders) > 1:
            texts.append(f"orders {named} bear one id, that of action {action_id}")
    return texts


def summarize(excesses: Collection[str]) -> str:
    """The first five texts, and the number of the others."""
    shown = [*excesses][:_SHOWN_MAX]
    return "; ".join(shown) + (f"; and {len(excesses) - len(shown)} more" if len(excesses) > len(shown) else "")
