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
from openbell_server.domain.orders.order_reports import CLOSES
from openbell_server.domain.orders.order_terms import EXACT, OrderSide, OrderType, Terms, TimeInForce

# Halts an account: its broker has more orders under our ids than were ever sent.
ORDERS_EXCEED_DOORS: Final = "ORDERS_EXCEED_DOORS"
_VERSION: Final = 7
_SHOWN_MAX: Final = 5


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
    accepted_at: datetime

    @property
    def is_open(self) -> bool:
        return self.status not in _ENDS


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
        accepted_at=description.accepted_at,
    )


def position_change(before: ExternalOrder | None, after: ExternalOrder) -> Decimal:
    change = EXACT.subtract(after.filled_quantity, before.filled_quantity if before else Decimal(0))
    return change if after.order_side is OrderSide.BUY else -change


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
