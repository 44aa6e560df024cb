"""Cancel/replace races as order state matrices of the FIX protocol tell them, message by message, and our order beside.

D9, D11, D13 and D15 are counted as in appendix D of FIX 4.2, D21 as in FIX 4.3 (which has it as 21):

- D9: a replace of the price only crosses the fill of all that is left; the broker refuses it, too late.
- D11: a replace down to some total crosses fills of just that much; it is taken, and the order is full.
- D13: two replaces, one after the other, both taken, with fills before, between and after.
- D15: a replace is refused while fills go on, the next one is taken.
- D21: a second replace follows while the first waits. There the broker refuses the second; here it is never sent to a
  broker that has not answered the first, so its refusal is a row that changes nothing.

Beside the broker's order status stands what we show where we know more than the broker when it wrote: that a replace
is on its way to it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, NamedTuple

from openbell_server.domain.orders.action_outcomes import after_outcome, past_door
from openbell_server.domain.orders.broker_reports import Accepted, OrderReport, Outcome, Refused, ReportStatus
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_aggregate import Order, status
from openbell_server.domain.orders.order_terms import Terms
from support.brokers.order_model import Asked, Intent
from support.brokers.single_order_broker import TOO_LATE
from support.builders.tenant import an_execution, some_terms


class Row(NamedTuple):
    """A message with its number, and the order after it: quantity, filled, left, and the word we show."""

    message: str
    number: int
    quantity: int
    filled: int
    left: int
    word: str


NEW, PART, FULL, WAITS = "NEW", "PARTIALLY_FILLED", "FILLED", "PENDING_REPLACE"
# What every matrix begins with, and the other way that may go.
_SENT = Row("order", 10000, 10000, 0, 10000, "PENDING_NEW")
_TAKEN = (_SENT, Row("taken", 0, 10000, 0, 10000, NEW))
REFUSED_AT_ONCE: Final = (_SENT, Row("refused", 0, 10000, 0, 0, "REJECTED"))
_FIRST_FILL = (*_TAKEN, Row("fill", 1000, 10000, 1000, 9000, PART))

MATRICES: Final[dict[str, tuple[Row, ...]]] = {
    "D9": (
        *_FIRST_FILL,
        Row("ask", 10000, 10000, 1000, 9000, WAITS),
        Row("fill", 9000, 10000, 10000, 0, FULL),
        Row("not replaced", 0, 10000, 10000, 0, FULL),
    ),
    "D11": (
        *_TAKEN,
        Row("ask", 7000, 10000, 0, 10000, WAITS),
        Row("fill", 7000, 10000, 7000, 3000, WAITS),
        Row("replaced", 7000, 7000, 7000, 0, FULL),
    ),
    "D13": (
        *_FIRST_FILL,
        Row("ask", 8000, 10000, 1000, 9000, WAITS),
        Row("pending", 0, 10000, 1000, 9000, WAITS),
        Row("fill", 500, 10000, 1500, 8500, WAITS),
        Row("replaced", 8000, 8000, 1500, 6500, PART),
        Row("fill", 2000, 8000, 3500, 4500, PART),
        Row("ask", 6000, 8000, 3500, 4500, WAITS),
        Row("pending", 0, 8000, 3500, 4500, WAITS),
        Row("replaced", 6000, 6000, 3500, 2500, PART),
        Row("fill", 2500, 6000, 6000, 0, FULL),
    ),
    "D15": (
        *_FIRST_FILL,
        Row("ask", 8000, 10000, 1000, 9000, WAITS),
        Row("pending", 0, 10000, 1000, 9000, WAITS),
        Row("fill", 500, 10000, 1500, 8500, WAITS),
        Row("not replaced", 0, 10000, 1500, 8500, PART),
        Row("fill", 2000, 10000, 3500, 6500, PART),
        Row("ask", 6000, 10000, 3500, 6500, WAITS),
        Row("pending", 0, 10000, 3500, 6500, WAITS),
        Row("replaced", 6000, 6000, 3500, 2500, PART),
        Row("fill", 1500, 6000, 5000, 1000, PART),
    ),
    "D21": (
        *_FIRST_FILL,
        Row("ask", 8000, 10000, 1000, 9000, WAITS),
        Row("ask", 7000, 10000, 1000, 9000, WAITS),
        Row("pending", 0, 10000, 1000, 9000, WAITS),
        Row("second refused", 0, 10000, 1000, 9000, WAITS),
        Row("replaced", 8000, 8000, 1000, 7000, PART),
        Row("fill", 2000, 8000, 3000, 5000, PART),
    ),
}


@dataclass(slots=True)
class Follower:
    """Our side of a matrix; what the broker took is told by its answers, or by its reports alone."""

    by_report: bool
    intent: Intent
    terms: Terms
    version: int = 1
    unsent: int = 0

    def message(self, message: str, number: int) -> None:
        {
            "order": self._order,
            "taken": self._taken,
            "refused": lambda _: self._answer(Refused("E0", "no")),
            "fill": self._report,
            "ask": self._ask,
            "pending": lambda _: self._report(),
            "replaced": self._replaced,
            "not replaced": lambda _: self._answer(TOO_LATE),
            "second refused": self._second_refused,
        }[message](number)

    def _order(self, _: int) -> None:
        self.intent.actions.append(Asked(ActionType.CREATE))

    def _taken(self, _: int) -> None:
        if self.by_report:
            self._report()
        else:
            self._answer(Accepted("b1"))

    def _ask(self, quantity: int) -> None:
        if self.intent.in_flight is not None:
            self.unsent += 1
            return
        asked = Asked(ActionType.REPLACE, some_terms(quantity, f"{len(self.intent.actions) + 1}"))
        self.intent.order = past_door(ActionType.REPLACE, self.intent.order)
        self.intent.actions.append(asked)

    def _replaced(self, _: int) -> None:
        replacement = self.intent.actions[-1].replacement
        assert replacement is not None
        self.terms, self.version = replacement, self.version + 1
        if self.by_report:
            self._report()
        else:
            self._answer(Accepted("b2", self.version))

    def _second_refused(self, _: int) -> None:
        assert self.unsent == 1

    def _answer(self, outcome: Outcome) -> None:
        action = self.intent.actions[-1]
        order = self.intent.order
        settlement = after_outcome(action.action_type, action.state, order, outcome, action.replacement)
        self.intent.settle(action, settlement)

    def _report(self, filled: int = 0) -> None:
        number = len(self.intent.executions) + 1
        fills = (an_execution(number, filled),) if filled else ()
        count = self.intent.order.filled_quantity + Decimal(filled)
        report = OrderReport(
            client_order_id="c",
            broker_order_id=f"b{self.version}",
            status=ReportStatus.FILLED if count >= self.terms.quantity else ReportStatus.WORKING,
            filled_quantity=count,
            executions=fills,
            terms=self.terms if self.by_report else None,
            terms_version=self.version if self.by_report else None,
        )
        self.intent.report(report)


def wrong_rows(rows: Sequence[Row], *, by_report: bool) -> list[str]:
    """Drive our order through the messages of a matrix; the rows after which it is not as the matrix says."""
    first = some_terms(10000, "1")
    follower = Follower(by_report, Intent(Order(terms=first)), first)
    wrong = []
    for place, row in enumerate(rows, 1):
        follower.message(row.message, row.number)
        order = follower.intent.order
        found = f"{order.quantity} {order.filled_quantity} {order.leaves_quantity} {status(order)}"
        if found != f"{row.quantity} {row.filled} {row.left} {row.word}":
            wrong.append(f"row {place}: {row} but {found}")
    return wrong
