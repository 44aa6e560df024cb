"""Apply a broker's report to an order, as a sequence of order events."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final

from openbell_server.domain.orders.broker_reports import BrokerExecution, ExecutionChange, OrderReport, ReportStatus
from openbell_server.domain.orders.order_aggregate import (
    CloseReason,
    Ended,
    FillsTotalled,
    Order,
    Restated,
    SeenAtBroker,
    Standing,
    Triggered,
    advance,
)
from openbell_server.domain.orders.order_terms import EXACT, PLACES_MAX, Terms, exact_total

CLOSES: Final = {
    ReportStatus.FILLED: CloseReason.FILLED,
    ReportStatus.CANCELED: CloseReason.CANCELED,
    ReportStatus.EXPIRED: CloseReason.EXPIRED,
    ReportStatus.REJECTED: CloseReason.REJECTED,
}

# Notices of an order's event on the account's log: each needs attention.
SIGHTED_LATE: Final = "SIGHTED_LATE"
LATE_FILL: Final = "LATE_FILL"
OVERFILL: Final = "OVERFILL"
EXECUTION_BUSTED: Final = "EXECUTION_BUSTED"
EXECUTION_CORRECTED: Final = "EXECUTION_CORRECTED"
RESTATED: Final = "RESTATED"


@dataclass(frozen=True, slots=True)
class Notice:
    meaning: str
    remedy: str


NOTICES: Final = {
    SIGHTED_LATE: Notice(
        "The broker shows an order that Openbell had closed: the broker had refused it, provably did not have it, or "
        "was never sent it; or an operator had abandoned it. The order works again.",
        "Cancel the order if you no longer want it. Ask the broker why it showed the order so late: its delays are "
        "longer than its adapter declares.",
    ),
    LATE_FILL: Notice(
        "A fill came after the end of its order. It counts: orders and positions are the sum of all executions.",
        "Check the position before you send another order for the rest.",
    ),
    OVERFILL: Notice(
        "More was filled than was ever requested, by any of the order's terms or by a replace in flight.",
        "Ask the broker: either it filled too much, or somebody changed the order there.",
    ),
    EXECUTION_BUSTED: Notice(
        "The broker busted an execution. The filled quantity falls by it, and an order that was filled works again.",
        "Check the position; cancel the order if you no longer want the rest.",
    ),
    EXECUTION_CORRECTED: Notice(
        "The broker changed the quantity or the price of an execution. Totals and the average price are recomputed.",
        "Correct the execution in your own records.",
    ),
    RESTATED: Notice(
        "The broker reported other terms of the order than ours, and they count: the broker changed the order itself "
        "(for example after a split), somebody changed it there, or a replace succeeded that we recorded as failed.",
        "Check the order's terms; replace the order if you want other terms.",
    ),
}


def reported_executions(order: Order, report: OrderReport, now: datetime) -> tuple[BrokerExecution, ...]:
    """The executions of a report; from a report of totals only, one execution with the difference to the order.

    Its price gives the broker's total value. Totals below ours are outdated, or due to a bust that the broker does not
    name: they change nothing.
    """
    filled, average = report.filled_quantity, report.average_price
    if average is None:
        return report.executions
    quantity = EXACT.subtract(filled, order.filled_quantity)
    if quantity <= 0 or average <= 0:
        return ()
    value = EXACT.subtract(EXACT.multiply(filled, average), order.filled_value)
    price = EXACT.quantize(EXACT.divide(value, quantity), Decimal(1).scaleb(-PLACES_MAX))
    derived = BrokerExecution(
        execution_id=f"{report.broker_order_id}:{EXACT.normalize(filled):f}",
        quantity=quantity,
        # The broker may round the average, which can leave zero or less for a small quantity.
        price=EXACT.normalize(price) if price > 0 else average,
        executed_at=report.as_of or now,
    )
    return (derived,)


def counted_with(order: Order, unseen: Collection[BrokerExecution]) -> FillsTotalled:
    """The totals with executions that were never counted before, where none was ever changed."""
    return FillsTotalled(
        filled_quantity=exact_total([order.filled_quantity, *(fill.quantity for fill in unseen)]),
        filled_value=exact_total([order.filled_value, *(EXACT.multiply(f.quantity, f.price) for f in unseen)]),
    )


def counted_anew(executions: Iterable[BrokerExecution], changes: Collection[ExecutionChange]) -> FillsTotalled:
    """The totals of all executions with all their changes, each counted once.

    A change of an execution not yet seen counts once the execution is seen.
    """
    fills = {fill.execution_id: fill for fill in executions}
    latest: dict[str, ExecutionChange] = {}
    for change in sorted(changes, key=rank_of_change):
        latest[change.execution_id] = change
    standing = [latest.get(fill.execution_id, fill) for fill in fills.values()]
    most = {
        fill.execution_id: max([fill.quantity, *(c.quantity for c in changes if c.execution_id == fill.execution_id)])
        for fill in fills.values()
    }
    filled = exact_total(fill.quantity for fill in standing)
    return FillsTotalled(
        filled_quantity=filled,
        filled_value=exact_total(EXACT.multiply(fill.quantity, fill.price) for fill in standing),
        busted_quantity=EXACT.subtract(exact_total(most.values()), filled),
        changed=bool(changes),
    )


def rank_of_change(change: ExecutionChange) -> tuple[bool, int]:
    """Sort key: of two changes of one execution the higher counts, and a bust is final."""
    return not change.quantity, change.revision


def unseen_changes(known: Iterable[ExecutionChange], reported: Iterable[ExecutionChange]) -> list[ExecutionChange]:
    """The reported changes that are not known yet, each once."""
    seen = {(change.execution_id, change.revision) for change in known}
    news = {(change.execution_id, change.revision): change for change in reported}
    return [change for key, change in news.items() if key not in seen]


def apply_report(order: Order, report: OrderReport, counted: FillsTotalled, in_flight: Terms | None = None) -> Order:
    """The order after a broker's report; `counted` totals all executions ever seen.

    Reports may come twice, late and out of order: fills count in any state, an end that counts unseen fills waits for
    them, and an outdated WORKING never reopens a closed order. While a replace is in flight its terms may already
    apply, so an order filled only by its old quantity does not count as filled.
    """
    order = advance(order, SeenAtBroker(report.broker_order_id))
    if report.triggered:
        order = advance(order, Triggered())
    if report.terms is not None and report.terms_version is not None:
        order = advance(order, Restated(report.terms, report.terms_version))
    elif report.terms == in_flight is not None and in_flight != order.terms and report.status in CLOSES:
        # The end is final, so the replace was applied before it.
        order = advance(order, Restated(in_flight, order.terms_version + 1))
    if in_flight == order.terms:
        in_flight = None
    order = advance(
        order,
        FillsTotalled(
            counted.filled_quantity,
            counted.filled_value,
            counted.busted_quantity,
            changed=counted.changed,
            in_flight=in_flight,
        ),
    )
    # FILLED by older terms proves nothing about the current ones; any other end is final.
    is_old = (report.terms_version or order.terms_version) < order.terms_version
    if report.status in CLOSES and not (is_old and report.status is ReportStatus.FILLED):
        order = advance(order, Ended(CLOSES[report.status], report.filled_quantity))
    return order


def changes_nothing(order: Order, report: OrderReport) -> bool:
    """Whether a report changes nothing of the order, where no command is in flight."""
    if report.changes or report.filled_quantity != order.filled_quantity:
        return False
    unchanged = FillsTotalled(
        order.filled_quantity, order.filled_value, order.busted_quantity, changed=order.executions_changed
    )
    return apply_report(order, report, unchanged) == order


def notices(
    before: Order,
    after: Order,
    news: Collection[ExecutionChange],
    replaced: Terms | None = None,
    in_flight: Terms | None = None,
) -> list[str]:
    """The notices for the event log; `news` are changes of executions not seen before.

    `replaced` are the terms of our replace in flight before the report, `in_flight` those still in flight after it.
    """
    unseen = before.standing is Standing.CLOSED and not before.broker_order_ids
    # The broker may refuse both by answer and by report.
    refused_twice = before.close_reason is after.close_reason is CloseReason.REJECTED
    found = {
        SIGHTED_LATE: unseen and not refused_twice,
        LATE_FILL: before.standing is Standing.CLOSED and after.filled_quantity > before.filled_quantity,
        OVERFILL: after.overfilled_quantity(in_flight) > before.overfilled_quantity(replaced),
        EXECUTION_BUSTED: any(not change.quantity for change in news),
        EXECUTION_CORRECTED: any(change.quantity for change in news),
        RESTATED: after.terms not in (before.terms, replaced),
    }
    return [notice for notice, is_so in found.items() if is_so]
