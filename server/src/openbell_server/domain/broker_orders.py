"""What a broker says: the four honest outcomes of a command, and reports about an order."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.orders import OrderSide, OrderType, Terms


@dataclass(frozen=True, slots=True)
class Accepted:
    """The broker took the command."""

    broker_order_id: str
    # Of the terms that a replace made, from a broker whose reports tell it.
    terms_version: int | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The broker said no, in words its adapter's table calls definite."""

    broker_code: str
    broker_text: str


@dataclass(frozen=True, slots=True)
class NotSent:
    """Provably nothing was taken: it never left this machine, or its broker turned it away unread."""

    why: str
    # For how many seconds a broker that turned it away wants calm: 0 if it does not say, None if it wants none.
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    """It may or may not have reached the broker; nobody guesses."""

    why: str


Outcome = Accepted | Refused | NotSent | Unknown


class ReportStatus(StrEnum):
    """How a broker says an order stands."""

    WORKING = "WORKING"
    # It does no more today, and is no end: an order that outlives the day works on, another one gets an end of its own.
    DONE_FOR_DAY = "DONE_FOR_DAY"
    FILLED = "FILLED"
    CANCELED = "CANCELED"
    EXPIRED = "EXPIRED"
    REJECTED = "REJECTED"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderName:
    """All that a broker may know an order by; a session uses what its broker understands."""

    client_order_id: str
    broker_order_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerExecution:
    """One fill."""

    execution_id: str
    quantity: Decimal
    price: Decimal
    executed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionChange:
    """What a broker says of a fill afterwards: taken back (quantity 0, for good), or other numbers."""

    execution_id: str
    # Of two changes of one fill the higher counts, in whatever order they come.
    revision: int
    quantity: Decimal
    price: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderDescription:
    """What an order was when the broker took it, for orders that are not ours."""

    symbol: Symbol
    order_side: OrderSide
    order_type: OrderType
    accepted_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderReport:
    """A broker's word about one order: how it stands, and executions (all, or those new since the last report).

    A look-up shows all executions, those too that were taken back, with what changed of them.
    """

    # None where the broker knows no ids of its clients.
    client_order_id: str | None
    broker_order_id: str
    status: ReportStatus
    # By the broker's count, what was taken back left out.
    filled_quantity: Decimal
    executions: tuple[BrokerExecution, ...]
    changes: tuple[ExecutionChange, ...] = ()
    triggered: bool = False
    # As the order stands at the broker; a look-up shows them wherever orders can be replaced. With a version (1 as it
    # began, one more at each change) they are the order's wherever ours are older.
    terms: Terms | None = None
    terms_version: int | None = None
    # A look-up and a list tell it.
    description: OrderDescription | None = None
    broker_code: str | None = None
    broker_text: str | None = None
    # Of all that filled, from a broker that names no executions: they are derived from the totals. And since when the
    # totals are so, by the broker's clock; without it an execution counts as made when it was learned of.
    average_price: Decimal | None = None
    as_of: datetime | None = None
