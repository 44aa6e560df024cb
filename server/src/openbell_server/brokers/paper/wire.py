"""What the paper broker and its session say to each other: JSON bodies, decimals as strings, times with their zone."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Final
from uuid import UUID

import msgspec

from openbell_server.brokers.http_client import UnreadableAnswer
from openbell_server.brokers.paper.keys import KEY_EXPIRED, KEY_REFUSED
from openbell_server.domain.broker_orders import (
    BrokerExecution,
    ExecutionChange,
    OrderDescription,
    OrderReport,
    ReportStatus,
)
from openbell_server.domain.identifiers import SYMBOL_PATTERN, Symbol
from openbell_server.domain.orders import DECIMAL_PATTERN, OrderSide, OrderType, Terms, TimeInForce

DecimalText = Annotated[str, msgspec.Meta(pattern=DECIMAL_PATTERN, max_length=38)]
AwareTime = Annotated[datetime, msgspec.Meta(tz=True)]
SignedText = Annotated[str, msgspec.Meta(pattern=DECIMAL_PATTERN.replace("^", "^-?", 1), max_length=39)]
# An id that the broker made, and its words; and how far it counts what may change again.
IdText = Annotated[str, msgspec.Meta(pattern="^[!-~]+$", max_length=64)]
Words = Annotated[str, msgspec.Meta(max_length=4_096)]
SymbolText = Annotated[str, msgspec.Meta(pattern=SYMBOL_PATTERN, max_length=32)]
Revision = Annotated[int, msgspec.Meta(ge=1, lt=1 << 31)]
Number = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
ClientOrderId = Annotated[str, msgspec.Meta(pattern="^[0-9A-Za-z_-]{1,64}$", max_length=64)]

DUPLICATE_ID: Final = "duplicate_client_order_id"
UNKNOWN_ORDER: Final = "unknown_order"
TOO_MANY_REQUESTS: Final = "too_many_requests"
# Every definite no, with its status; a 4xx without one of these codes says nothing about the command.
REFUSALS: Final[dict[str, int]] = {
    "malformed": 400,
    KEY_REFUSED: 401,
    KEY_EXPIRED: 401,
    UNKNOWN_ORDER: 404,
    DUPLICATE_ID: 409,
    TOO_MANY_REQUESTS: 429,
    "order_closed": 409,
    "expired": 422,
    "insufficient_buying_power": 422,
    "invalid_order": 422,
    "refused": 422,
}


class OrderBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new order; without an id where the broker has no place for one."""

    client_order_id: ClientOrderId | None = None
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

    client_order_id: ClientOrderId | None = None
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

    symbol: SymbolText
    quantity: SignedText
    price: str


class AccountBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an account stands; the numbers may be below zero."""

    cash: str
    buying_power: str
    fees_paid: str
    positions: tuple[PositionBody, ...]


class QuotedBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The price of a symbol, and how much trades at it; without a size, any quantity."""

    symbol: SymbolText
    price: DecimalText
    size: DecimalText | None = None


class AcceptedBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer to a command that was done."""

    broker_order_id: IdText


class RefusalBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer to a command that was not done."""

    code: Words
    text: Words


class SessionBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer to a sign-in: what the key is for."""

    external_account_id: IdText | None
    expires_at: AwareTime | None


class LastKeyBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The key that an account came with last, without its secret."""

    key_id: str | None
    seen_at: AwareTime | None


class ExecutionBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fill."""

    execution_id: IdText
    quantity: DecimalText
    price: DecimalText
    executed_at: AwareTime


class ChangeBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What became of a fill afterwards; quantity 0: it was taken back."""

    execution_id: IdText
    revision: Revision
    quantity: DecimalText
    price: DecimalText


class ReportBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an order stands: what is asked by now, and executions."""

    client_order_id: ClientOrderId | None
    broker_order_id: IdText
    symbol: SymbolText
    side: OrderSide
    type: OrderType
    quantity: DecimalText
    limit_price: DecimalText | None
    stop_price: DecimalText | None
    time_in_force: TimeInForce
    # 1 as it began, one more at each replace.
    terms_version: Revision
    accepted_at: AwareTime
    status: ReportStatus
    triggered: bool
    filled_quantity: DecimalText
    executions: tuple[ExecutionBody, ...] = ()
    changes: tuple[ChangeBody, ...] = ()

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
                    executed_at=in_utc(execution.executed_at),
                )
                for execution in self.executions
            ),
            changes=tuple(
                ExecutionChange(
                    execution_id=change.execution_id,
                    revision=change.revision,
                    quantity=Decimal(change.quantity),
                    price=Decimal(change.price),
                )
                for change in self.changes
            ),
            triggered=self.triggered,
            terms=Terms(
                quantity=Decimal(self.quantity),
                limit_price=None if self.limit_price is None else Decimal(self.limit_price),
                stop_price=None if self.stop_price is None else Decimal(self.stop_price),
                time_in_force=self.time_in_force,
            ),
            terms_version=self.terms_version,
            description=OrderDescription(
                symbol=Symbol(self.symbol),
                order_side=self.side,
                order_type=self.type,
                accepted_at=in_utc(self.accepted_at),
            ),
        )


class LedgerOrderBody(ReportBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An order as the ledger holds it, with all that became of it."""

    number: Number
    account_id: UUID


class FaultsBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Misbehaviour that an account asks for."""

    seed: int
    faults: dict[str, int | float]


class AccountFaultsBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Misbehaviour that an account asked for, and when it did."""

    seed: int
    faults: dict[str, int | float]
    set_at: AwareTime | None


class OrderPage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A page of an account's orders; next goes into `after`, null on the last page."""

    orders: tuple[LedgerOrderBody, ...]
    next: Number | None


class FeedLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One line of the feed: the first says where it starts, an empty one says that it lives, the rest are updates."""

    connected: Number | None = None
    number: Number | None = None
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


def in_utc(moment: datetime) -> datetime:
    """The same moment; some have none in UTC, and nothing could keep them."""
    try:
        return moment.astimezone(UTC)
    except OverflowError as trouble:
        raise UnreadableAnswer(f"{moment} is beyond all calendars") from trouble
