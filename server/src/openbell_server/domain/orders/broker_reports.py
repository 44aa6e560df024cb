"""What a broker reports: the four outcomes of a command, and reports about an order."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from openbell_exchange.terms import ReportStatus as ReportStatus
from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.orders.order_terms import OrderSide, OrderType, Terms


@dataclass(frozen=True, slots=True)
class Accepted:
    """The broker accepted the command."""

    broker_order_id: str
    # Of the replaced terms, from a broker that reports versions.
    terms_version: int | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The broker refused the command, by an answer that its adapter's table lists as definite."""

    broker_code: str
    broker_text: str


@dataclass(frozen=True, slots=True)
class NotSent:
    """The command provably had no effect: it never left this machine, or the broker rejected it unread."""

    why: str
    # Seconds to wait, from a broker that throttles: 0 if it gives no time, None if it does not throttle.
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    """The command may or may not have reached the broker."""

    why: str


Outcome = Accepted | Refused | NotSent | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderName:
    """All ids of an order that a broker may know; a session uses those that its broker supports."""

    client_order_id: str
    broker_order_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerExecution:
    execution_id: str
    quantity: Decimal
    price: Decimal
    executed_at: datetime
    # In the quote currency of the instrument, negative if it is a rebate; None if the broker does not report fees.
    fee: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionChange:
    """A bust (quantity 0, final) or a correction of a fill."""

    execution_id: str
    # Of two changes of one fill the higher revision counts, in any order of arrival.
    revision: int
    quantity: Decimal
    price: Decimal
    # None: the fee stays.
    fee: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderDescription:
    """An order as the broker accepted it, for orders that Openbell did not send."""

    symbol: Symbol
    order_side: OrderSide
    order_type: OrderType
    accepted_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderReport:
    """A broker's report on one order: its status, and executions (all, or those new since the last report).

    A look-up returns all executions, busted ones too, with their changes.
    """

    # None where the broker stores no client ids.
    client_order_id: str | None
    broker_order_id: str
    status: ReportStatus
    # The broker's total, without busted executions.
    filled_quantity: Decimal
    executions: tuple[BrokerExecution, ...]
    changes: tuple[ExecutionChange, ...] = ()
    triggered: bool = False
    # The order's current terms at the broker; a look-up returns them where orders can be replaced. With a version (1 at
    # the start, one more at each change) they replace ours if ours are older.
    terms: Terms | None = None
    terms_version: int | None = None
    # Present in look-ups and lists.
    description: OrderDescription | None = None
    broker_code: str | None = None
    broker_text: str | None = None
    # From a broker that reports totals without executions; executions are derived from the totals. `as_of` is the
    # broker's time of the totals; without it an execution counts from when it was received.
    average_price: Decimal | None = None
    as_of: datetime | None = None
