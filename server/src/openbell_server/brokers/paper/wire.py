"""The JSON format between paper broker and session: decimals as strings, times with their zone."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Final
from uuid import UUID

import msgspec

from openbell_exchange.decisions import DUPLICATE_ID, TOO_MANY_REQUESTS, UNKNOWN_ORDER, UNKNOWN_SYMBOL
from openbell_server.brokers.http_client import UnreadableAnswer
from openbell_server.brokers.paper.keys import KEY_EXPIRED, KEY_REFUSED
from openbell_server.domain.identifiers import SYMBOL_PATTERN, Symbol
from openbell_server.domain.orders.broker_reports import (
    BrokerExecution,
    ExecutionChange,
    OrderDescription,
    OrderReport,
    ReportStatus,
)
from openbell_server.domain.orders.order_terms import DECIMAL_PATTERN, OrderSide, OrderType, Terms, TimeInForce

DecimalText = Annotated[str, msgspec.Meta(pattern=DECIMAL_PATTERN, max_length=38)]
AwareTime = Annotated[datetime, msgspec.Meta(tz=True)]
SignedText = Annotated[str, msgspec.Meta(pattern=DECIMAL_PATTERN.replace("^", "^-?", 1), max_length=39)]
# A thousandth of a quantity multiplied by a price, not rounded.
FeeText = Annotated[str, msgspec.Meta(pattern=DECIMAL_PATTERN.replace("{1,18}", "{1,39}"), max_length=58)]
IdText = Annotated[str, msgspec.Meta(pattern="^[!-~]+$", max_length=64)]
Text = Annotated[str, msgspec.Meta(max_length=4_096)]
SymbolText = Annotated[str, msgspec.Meta(pattern=SYMBOL_PATTERN, max_length=32)]
Revision = Annotated[int, msgspec.Meta(ge=1, lt=1 << 31)]
Number = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
ClientOrderId = Annotated[str, msgspec.Meta(pattern="^[0-9A-Za-z_-]{1,64}$", max_length=64)]

OPERATOR_HEADER: Final = "x-operator-secret"
# Every definite refusal with its status. A 4xx without one of these codes proves nothing about the command.
REFUSALS: Final[dict[str, int]] = {
    "malformed": 400,
    KEY_REFUSED: 401,
    KEY_EXPIRED: 401,
    "operator_only": 401,
    UNKNOWN_ORDER: 404,
    DUPLICATE_ID: 409,
    TOO_MANY_REQUESTS: 429,
    "order_closed": 409,
    "expired": 422,
    "insufficient_buying_power": 422,
    "insufficient_position": 422,
    "invalid_order": 422,
    "off_tick": 422,
    "refused": 422,
    "shorting_off": 422,
    UNKNOWN_SYMBOL: 422,
}


class OrderBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new order; client_order_id is absent for profiles without client ids."""

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
    """New terms of an order; quantity is the total including fills, client_order_id is that of this command."""

    client_order_id: ClientOrderId | None = None
    quantity: DecimalText
    limit_price: DecimalText | None = None
    stop_price: DecimalText | None = None
    time_in_force: TimeInForce
    valid_until: AwareTime


class PriceBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A price to fix a symbol at; without size, quantity is unlimited."""

    price: DecimalText
    size: DecimalText | None = None


class CashBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    cash: DecimalText


class AccountRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether an account may sell what it does not hold, and use prices between ticks."""

    shorting: bool = False
    any_tick: bool = False


class PositionBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A position, negative if short, with its current price."""

    symbol: SymbolText
    quantity: SignedText
    price: DecimalText


class AccountBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The numbers may be negative; equity is the cash and all positions at their current prices."""

    cash: SignedText
    equity: SignedText
    buying_power: SignedText
    fees_paid: str
    positions: tuple[PositionBody, ...]


class QuotedBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The price of a symbol; without size, any quantity trades at it."""

    symbol: SymbolText
    price: DecimalText
    size: DecimalText | None = None


class AcceptedBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    broker_order_id: IdText


class RefusalBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    code: Text
    text: Text


class SessionBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the key is valid for."""

    external_account_id: IdText | None
    expires_at: AwareTime | None


class LastKeyBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The key that an account used last, without its secret."""

    key_id: str | None
    seen_at: AwareTime | None


class ExecutionBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    execution_id: IdText
    quantity: DecimalText
    price: DecimalText
    fee: FeeText | None = None
    executed_at: AwareTime


class ChangeBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A later change of a fill, whose fee stays; quantity 0 means that it was busted."""

    execution_id: IdText
    revision: Revision
    quantity: DecimalText
    price: DecimalText


class ReportBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An order's current terms, state and executions."""

    client_order_id: ClientOrderId | None
    broker_order_id: IdText
    symbol: SymbolText
    side: OrderSide
    type: OrderType
    quantity: DecimalText
    limit_price: DecimalText | None
    stop_price: DecimalText | None
    time_in_force: TimeInForce
    # 1 at first, incremented by each replace.
    terms_version: Revision
    accepted_at: AwareTime
    status: ReportStatus
    triggered: bool
    filled_quantity: DecimalText
    executions: tuple[ExecutionBody, ...] = ()
    changes: tuple[ChangeBody, ...] = ()

    def to_report(self) -> OrderReport:
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
                    fee=None if execution.fee is None else Decimal(execution.fee),
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
    """An order with all its executions and changes."""

    number: Number
    account_id: UUID


class FaultsBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    seed: int
    faults: dict[str, int | float]


class AccountFaultsBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """set_at is null if no plan is set."""

    seed: int
    faults: dict[str, int | float]
    set_at: AwareTime | None


class OrderPage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One page; pass next as `after`, null on the last page."""

    orders: tuple[LedgerOrderBody, ...]
    next: Number | None


class FeedLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One line of the feed: the first has connected, an empty one is a heartbeat, the others are updates."""

    connected: Number | None = None
    number: Number | None = None
    account_id: UUID | None = None
    report: ReportBody | None = None


class LedgerSummary(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    requests: int
    refused: int
    orders: int
    executions: int
    updates: int
    repeated_submits: int


def in_utc(moment: datetime) -> datetime:
    """Raises UnreadableAnswer for a time that does not exist in UTC, because it cannot be stored."""
    try:
        return moment.astimezone(UTC)
    except OverflowError as trouble:
        raise UnreadableAnswer(f"{moment} is beyond all calendars") from trouble
