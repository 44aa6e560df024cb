"""What the paper broker and its session say to each other: JSON bodies, decimals as strings, times with their zone."""

import dataclasses
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Final
from uuid import UUID

import msgspec

from openbell_server.brokers.paper.keys import KEY_EXPIRED, KEY_REFUSED
from openbell_server.domain.broker_orders import BrokerExecution, OrderReport, ReportStatus
from openbell_server.domain.orders import DECIMAL_PATTERN, OrderSide, OrderType, Terms, TimeInForce

DecimalText = Annotated[str, msgspec.Meta(pattern=DECIMAL_PATTERN, max_length=38)]
AwareTime = Annotated[datetime, msgspec.Meta(tz=True)]
ClientOrderId = Annotated[str, msgspec.Meta(pattern="^[0-9A-Za-z_-]{1,64}$", max_length=64)]

DUPLICATE_ID: Final = "duplicate_client_order_id"
UNKNOWN_ORDER: Final = "unknown_order"
# Every definite no, with its status; a 4xx without one of these codes says nothing about the command.
REFUSALS: Final[dict[str, int]] = {
    "malformed": 400,
    KEY_REFUSED: 401,
    KEY_EXPIRED: 401,
    UNKNOWN_ORDER: 404,
    DUPLICATE_ID: 409,
    "order_closed": 409,
    "expired": 422,
    "insufficient_buying_power": 422,
    "invalid_order": 422,
    "refused": 422,
}


class OrderBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new order."""

    client_order_id: ClientOrderId
    symbol: str
    side: OrderSide
    type: OrderType
    quantity: DecimalText
    limit_price: DecimalText | None = None
    stop_price: DecimalText | None = None
    time_in_force: TimeInForce
    valid_until: AwareTime


class ReplacementBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an order shall become; the quantity is the total, fills included, and the id is this command's own."""

    client_order_id: ClientOrderId
    quantity: DecimalText
    limit_price: DecimalText | None = None
    stop_price: DecimalText | None = None
    time_in_force: TimeInForce
    valid_until: AwareTime


class PriceBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A price to hold a symbol at; without a size each order may take as much as it likes."""

    price: DecimalText
    size: DecimalText | None = None


class CashBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an account's cash shall be."""

    cash: DecimalText


class PositionBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an account has of a symbol, below zero if it is short, and what that costs now."""

    symbol: str
    quantity: str
    price: str


class AccountBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an account stands; the numbers may be below zero."""

    cash: str
    buying_power: str
    fees_paid: str
    positions: tuple[PositionBody, ...]


class AcceptedBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer to a command that was done."""

    broker_order_id: str


class RefusalBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer to a command that was not done."""

    code: str
    text: str


class SessionBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer to a sign-in: what the key is for."""

    external_account_id: str | None
    expires_at: AwareTime | None


class LastKeyBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The key that an account came with last, without its secret."""

    key_id: str | None
    seen_at: AwareTime | None


class ExecutionBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fill."""

    execution_id: str
    quantity: DecimalText
    price: DecimalText
    executed_at: AwareTime


class ReportBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an order stands, with executions."""

    client_order_id: str
    broker_order_id: str
    status: ReportStatus
    filled_quantity: DecimalText
    executions: tuple[ExecutionBody, ...] = ()

    def to_report(self) -> OrderReport:
        """As the platform says it."""
        return OrderReport(
            client_order_id=self.client_order_id,
            broker_order_id=self.broker_order_id,
            status=self.status,
            filled_quantity=Decimal(self.filled_quantity),
            executions=tuple(
                BrokerExecution(
                    execution_id=execution.execution_id,
                    quantity=Decimal(execution.quantity),
                    price=Decimal(execution.price),
                    executed_at=execution.executed_at,
                )
                for execution in self.executions
            ),
        )


class LedgerOrderBody(ReportBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An order as the ledger holds it: what is asked by now, and all that became of it."""

    number: int
    account_id: UUID
    symbol: str
    side: OrderSide
    type: OrderType
    quantity: DecimalText
    limit_price: DecimalText | None
    stop_price: DecimalText | None
    time_in_force: TimeInForce
    accepted_at: AwareTime

    def to_report(self) -> OrderReport:
        """As the platform says it, with the terms."""
        terms = Terms(
            quantity=Decimal(self.quantity),
            limit_price=None if self.limit_price is None else Decimal(self.limit_price),
            stop_price=None if self.stop_price is None else Decimal(self.stop_price),
            time_in_force=self.time_in_force,
        )
        return dataclasses.replace(ReportBody.to_report(self), terms=terms)


class OrderPage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A page of an account's orders; next goes into `after`, null on the last page."""

    orders: tuple[LedgerOrderBody, ...]
    next: int | None


class FeedLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One line of the feed: the first says where it starts, an empty one says that it lives, the rest are updates."""

    connected: int | None = None
    number: int | None = None
    account_id: UUID | None = None
    report: ReportBody | None = None


class LedgerSummary(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The ledger in numbers."""

    requests: int
    refused: int
    orders: int
    executions: int
    updates: int
    repeated_submits: int


def decimal_text(number: Decimal) -> str:
    """Exactly this number, never with an exponent."""
    return format(number, "f")
