"""What a broker says: the four honest outcomes of a command, and reports about an order."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from openbell_server.domain.orders import Terms


@dataclass(frozen=True, slots=True)
class Accepted:
    """The broker took the command."""

    broker_order_id: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The broker said no, in words its adapter's table calls definite."""

    broker_code: str
    broker_text: str


@dataclass(frozen=True, slots=True)
class NotSent:
    """Provably nothing left this machine."""

    why: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """It may or may not have reached the broker; nobody guesses."""

    why: str


Outcome = Accepted | Refused | NotSent | Unknown


class ReportStatus(StrEnum):
    """How a broker says an order stands."""

    WORKING = "WORKING"
    FILLED = "FILLED"
    CANCELED = "CANCELED"
    EXPIRED = "EXPIRED"
    REJECTED = "REJECTED"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerExecution:
    """One fill."""

    execution_id: str
    quantity: Decimal
    price: Decimal
    executed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderReport:
    """A broker's word about one order: how it stands, and executions (all, or those new since the last report)."""

    client_order_id: str
    broker_order_id: str
    status: ReportStatus
    filled_quantity: Decimal
    executions: tuple[BrokerExecution, ...]
    # As the order stands at the broker; a look-up shows them wherever orders can be replaced.
    terms: Terms | None = None
    broker_code: str | None = None
    broker_text: str | None = None
