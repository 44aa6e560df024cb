"""What a broker's report makes of an order: the events it stands for, applied one after the other."""

from collections.abc import Collection, Iterable
from typing import Final

from openbell_server.domain.broker_orders import BrokerExecution, ExecutionChange, OrderReport, ReportStatus
from openbell_server.domain.order_aggregate import (
    CloseReason,
    Counted,
    Ended,
    Order,
    Restated,
    Sighted,
    Standing,
    Triggered,
    advance,
)
from openbell_server.domain.orders import EXACT, Terms, exact_total

CLOSES: Final = {
    ReportStatus.FILLED: CloseReason.FILLED,
    ReportStatus.CANCELED: CloseReason.CANCELED,
    ReportStatus.EXPIRED: CloseReason.EXPIRED,
    ReportStatus.REJECTED: CloseReason.REJECTED,
}

# What an order's event on the account's log says beside the order: each of them is worth a look.
LATE_FILL: Final = "LATE_FILL"
OVERFILL: Final = "OVERFILL"
EXECUTION_BUSTED: Final = "EXECUTION_BUSTED"
EXECUTION_CORRECTED: Final = "EXECUTION_CORRECTED"
RESTATED: Final = "RESTATED"
SIGHTED_LATE: Final = "SIGHTED_LATE"


def counted_with(order: Order, unseen: Collection[BrokerExecution]) -> Counted:
    """The count after executions that were never counted before, where none was ever changed."""
    return Counted(
        filled_quantity=exact_total([order.filled_quantity, *(fill.quantity for fill in unseen)]),
        filled_value=exact_total([order.filled_value, *(EXACT.multiply(f.quantity, f.price) for f in unseen)]),
    )


def counted_anew(executions: Iterable[BrokerExecution], changes: Collection[ExecutionChange]) -> Counted:
    """The count of all executions of an order with all that was said of them, each once.

    What is said of an execution that was not seen yet counts once it is.
    """
    fills = {fill.execution_id: fill for fill in executions}
    latest: dict[str, ExecutionChange] = {}
    for change in sorted(changes, key=lambda change: (not change.quantity, change.revision)):
        latest[change.execution_id] = change
    standing = [latest.get(fill.execution_id, fill) for fill in fills.values()]
    most = {
        fill.execution_id: max([fill.quantity, *(c.quantity for c in changes if c.execution_id == fill.execution_id)])
        for fill in fills.values()
    }
    filled = exact_total(fill.quantity for fill in standing)
    return Counted(
        filled_quantity=filled,
        filled_value=exact_total(EXACT.multiply(fill.quantity, fill.price) for fill in standing),
        busted_quantity=EXACT.subtract(exact_total(most.values()), filled),
        changed=bool(changes),
    )


def apply_report(order: Order, report: OrderReport, counted: Counted, in_flight: Terms | None = None) -> Order:
    """The order after a broker's report; counted is what all executions that were ever seen come to.

    Reports may come twice, late and out of order: fills count in any state, an end that counts unseen fills waits for
    them, and an old WORKING never reopens a closed order. While a replace is in flight its terms may be the order's
    already, so an order that is full by its old quantity only is not yet taken for filled.
    """
    order = advance(order, Sighted(report.broker_order_id))
    if report.triggered:
        order = advance(order, Triggered())
    if report.terms is not None and report.terms_version is not None:
        order = advance(order, Restated(report.terms, report.terms_version))
    elif report.terms == in_flight is not None and report.status in CLOSES:
        # The end is final, so it shows that the replace came first.
        order = advance(order, Restated(in_flight, order.terms_version + 1))
    if in_flight == order.terms:
        in_flight = None
    order = advance(
        order,
        Counted(
            counted.filled_quantity,
            counted.filled_value,
            counted.busted_quantity,
            changed=counted.changed,
            in_flight=in_flight,
        ),
    )
    if report.status in CLOSES:
        order = advance(order, Ended(CLOSES[report.status], report.filled_quantity))
    return order


def notices(before: Order, after: Order, report: OrderReport, replaced: Terms | None = None) -> list[str]:
    """What of a report is out of the ordinary, for the one who reads the log; replaced is what our own replace asks."""
    busted = any(not change.quantity for change in report.changes)
    corrected = any(change.quantity for change in report.changes)
    changed = after.filled_quantity != before.filled_quantity or after.filled_value != before.filled_value
    found = {
        SIGHTED_LATE: before.standing is Standing.CLOSED and not before.broker_order_ids,
        LATE_FILL: before.standing is Standing.CLOSED and after.filled_quantity > before.filled_quantity,
        OVERFILL: after.overfilled_quantity > before.overfilled_quantity,
        EXECUTION_BUSTED: busted and changed,
        EXECUTION_CORRECTED: corrected and changed,
        RESTATED: after.terms != before.terms and after.terms != replaced,
    }
    return [notice for notice, is_so in found.items() if is_so]
