"""What a broker's report makes of an order: the events it stands for, applied one after the other."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
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
from openbell_server.domain.orders import EXACT, PLACES_MAX, Terms, exact_total

CLOSES: Final = {
    ReportStatus.FILLED: CloseReason.FILLED,
    ReportStatus.CANCELED: CloseReason.CANCELED,
    ReportStatus.EXPIRED: CloseReason.EXPIRED,
    ReportStatus.REJECTED: CloseReason.REJECTED,
}

# What an order's event on the account's log says beside the order: each of them is worth a look.
SIGHTED_LATE: Final = "SIGHTED_LATE"
LATE_FILL: Final = "LATE_FILL"
OVERFILL: Final = "OVERFILL"
EXECUTION_BUSTED: Final = "EXECUTION_BUSTED"
EXECUTION_CORRECTED: Final = "EXECUTION_CORRECTED"
RESTATED: Final = "RESTATED"


@dataclass(frozen=True, slots=True)
class Notice:
    """What a notice means and what to do, as the documentation prints it."""

    meaning: str
    remedy: str


NOTICES: Final = {
    SIGHTED_LATE: Notice(
        "The broker shows an order that we had closed because it refused it, provably did not have it, or was never "
        "sent it; or an operator had given it up. It works again, as the broker says.",
        "Decide whether you still want it, and cancel it if not. Ask the broker why it showed the order so late: its "
        "delays are longer than its adapter declares.",
    ),
    LATE_FILL: Notice(
        "A fill came after the end of its order. It counts: orders and positions are the sum of all executions.",
        "Look at the position before you send another order for the rest.",
    ),
    OVERFILL: Notice(
        "More was filled than was ever asked for, by any of the order's terms or by a replace under way.",
        "Ask the broker: either it filled too much, or somebody changed the order there.",
    ),
    EXECUTION_BUSTED: Notice(
        "The broker took an execution back. What is filled is less by it, and an order that was full works again.",
        "Look at the position; cancel the order if you do not want the rest any more.",
    ),
    EXECUTION_CORRECTED: Notice(
        "The broker changed the quantity or the price of an execution. Sums and the average are made anew.",
        "Book the difference where you keep books of your own.",
    ),
    RESTATED: Notice(
        "The broker told other terms of the order than ours, and they count: it changed the order of its own accord "
        "(a split, say), somebody did so there, or a replace went through that we took for failed.",
        "Look at the order's terms; replace them if they are not what you want.",
    ),
}


def executions_told(order: Order, report: OrderReport, now: datetime) -> tuple[BrokerExecution, ...]:
    """The executions of a report; of one that tells totals only, a single one of all that it counts beyond the order.

    Its price makes the value of all what the broker says it is. Totals below ours are old, or something was taken back
    that nobody can name: they change nothing.
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
        # An average that its broker rounded may leave nothing, or less, for a small quantity.
        price=EXACT.normalize(price) if price > 0 else average,
        executed_at=report.as_of or now,
    )
    return (derived,)


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
    for change in sorted(changes, key=rank_of_change):
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


def rank_of_change(change: ExecutionChange) -> tuple[bool, int]:
    """Of two changes of one execution the higher counts; nothing comes after it was taken back."""
    return not change.quantity, change.revision


def unseen_changes(known: Iterable[ExecutionChange], told: Iterable[ExecutionChange]) -> list[ExecutionChange]:
    """What is told of executions that was not known, each once."""
    seen = {(change.execution_id, change.revision) for change in known}
    news = {(change.execution_id, change.revision): change for change in told}
    return [change for key, change in news.items() if key not in seen]


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
    elif report.terms == in_flight is not None and in_flight != order.terms and report.status in CLOSES:
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
    # Full by earlier terms says nothing of these; any other end is final.
    is_old = (report.terms_version or order.terms_version) < order.terms_version
    if report.status in CLOSES and not (is_old and report.status is ReportStatus.FILLED):
        order = advance(order, Ended(CLOSES[report.status], report.filled_quantity))
    return order


def tells_nothing_new(order: Order, report: OrderReport) -> bool:
    """Whether a report says no more of an order than is known, where nothing is in flight."""
    if report.changes or report.filled_quantity != order.filled_quantity:
        return False
    unchanged = Counted(
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
    """What of a report is out of the ordinary, for the one who reads the log; news are changes never told before.

    Replaced is what our own replace in flight asked for before the report, in_flight what it still asks for.
    """
    unsighted = before.standing is Standing.CLOSED and not before.broker_order_ids
    # A refusal that is told by answer and by report is no surprise.
    refused_twice = before.close_reason is after.close_reason is CloseReason.REJECTED
    found = {
        SIGHTED_LATE: unsighted and not refused_twice,
        LATE_FILL: before.standing is Standing.CLOSED and after.filled_quantity > before.filled_quantity,
        OVERFILL: after.overfilled_quantity(in_flight) > before.overfilled_quantity(replaced),
        EXECUTION_BUSTED: any(not change.quantity for change in news),
        EXECUTION_CORRECTED: any(change.quantity for change in news),
        RESTATED: after.terms not in (before.terms, replaced),
    }
    return [notice for notice, is_so in found.items() if is_so]
