"""Orders, executions, positions and past events as the API lists them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Literal, TypedDict

from openbell.errors import EventMissed
from openbell.events.records import BrokerOrder, Event
from openbell.intents.orders import ListOrder, Side
from openbell.models import PageOf, Record
from openbell.requests import Request

OrderStatus = Literal["WORKING", "CLOSED", "ALL"]


# What the units cost that a trade closes: as all open units on average, or as those that were opened first.
CostMethod = Literal["AVERAGE", "FIFO"]


class ProfitOptions(TypedDict, total=False):
    """Filters of profit; since and until are times of the first and the last day, in the account's zone or another."""

    account_id: str | None
    symbol: str | None
    since: datetime | None
    until: datetime | None
    timezone: str | None
    group_by: Literal["SYMBOL_AND_DAY", "DAY", "SYMBOL"] | None
    cost_method: CostMethod | None
    order: ListOrder | None


class OrderOptions(TypedDict, total=False):
    """Filters of a list of orders; certainty UNKNOWN: it is not known what the broker did with a command."""

    account_id: str | None
    all_accounts: bool
    intent_id: str | None
    status: OrderStatus | None
    certainty: Literal["CONFIRMED", "UNKNOWN"] | None
    symbol: str | None
    order_side: Side | None
    order: ListOrder | None


class ExecutionOptions(TypedDict, total=False):
    """Filters of a list of executions; since (included) and until (excluded) are times of recording."""

    account_id: str | None
    all_accounts: bool
    intent_id: str | None
    symbol: str | None
    since: datetime | None
    until: datetime | None
    order: ListOrder | None


class HistoryOptions(TypedDict, total=False):
    """Filters of past events; without after_seq and resume_token the list starts at the oldest event in the log."""

    account_id: str | None
    after_seq: int | None
    resume_token: str | None
    types: Sequence[str]
    symbols: Sequence[str]
    intent_id: str | None


class Order(BrokerOrder, frozen=True, kw_only=True):
    """The current state of an intent's order."""

    account_id: str
    created_at: datetime
    updated_at: datetime


class OrderPage(PageOf[Order], frozen=True, kw_only=True):
    """One page of orders."""


class AccountOverview(Record, frozen=True, kw_only=True):
    """What is going on in an account; counts go up to 1000."""

    account_id: str
    name: str
    environment: str
    disabled: bool
    # The stricter one of the account's switch and the organization's: ACTIVE, REDUCE_ONLY or HALTED.
    switch: str
    open_orders: int
    unknown_orders: int
    executions_last_minute: int
    # Why the platform halted the account.
    halt_code: str | None = None
    # Since when its oldest command waits to be sent.
    oldest_queued_at: datetime | None = None


class CancelResult(Record, frozen=True, kw_only=True):
    """The recorded CANCEL of an order, or the code and the reason why none was recorded."""

    intent_id: str
    action_id: str | None = None
    code: str | None = None
    detail: str | None = None


class RecordedExecution(Record, frozen=True, kw_only=True):
    """The current state of an execution: kind NORMAL, CORRECTION, or BUST with quantity 0."""

    account_id: str
    execution_id: str
    intent_id: str
    symbol: str
    order_side: str
    kind: str
    quantity: Decimal
    price: Decimal
    executed_at: datetime
    recorded_at: datetime
    # In the quote currency, negative if it is a rebate; None if the broker does not report it.
    fee: Decimal | None = None
    # What the broker reported first, if it corrected the execution later.
    reported_quantity: Decimal | None = None
    reported_price: Decimal | None = None
    changed_at: datetime | None = None


class Position(Record, frozen=True, kw_only=True):
    """What an account holds of a symbol, negative if it is short; None where a price or a cost is not known."""

    symbol: str
    quantity: Decimal
    updated_at: datetime
    currency: str | None = None
    # What the open units cost, and one of them.
    cost: Decimal | None = None
    average_cost: Decimal | None = None
    market_price: Decimal | None = None
    market_price_at: datetime | None = None
    market_value: Decimal | None = None
    unrealized: Decimal | None = None
    # By all trades of the symbol, before fees.
    realized: Decimal | None = None
    fees: Decimal | None = None
    # Whether realized and fees include every trade.
    profit_complete: bool = False


class Profit(Record, frozen=True, kw_only=True):
    """What trades brought, before fees; day or symbol is None where a row is about all of them."""

    day: date | None = None
    symbol: str | None = None
    currency: str | None = None
    realized: Decimal
    fees: Decimal
    bought_value: Decimal
    sold_value: Decimal
    trades: int
    # False: a price or a cost is unknown, or the broker reported no fee.
    profit_complete: bool


class Positions(Record, frozen=True, kw_only=True):
    """All positions of an account after the event account_seq."""

    data: tuple[Position, ...]
    account_seq: int
    # BROKER: the broker's positions at as_of plus later executions. EXECUTIONS: the sum of executions only.
    source: str
    as_of: datetime | None = None
    complete: bool = True
    cost_method: CostMethod = "AVERAGE"

    def __iter__(self) -> Iterator[Position]:
        return iter(self.data)

    def __len__(self) -> int:
        return len(self.data)


class Balances(Record, frozen=True, kw_only=True):
    """What an account has at its broker; None where the broker does not report it, and before the first report."""

    account_id: str
    broker: str
    currency: str | None = None
    cash: Decimal | None = None
    # Cash and the value of all positions.
    equity: Decimal | None = None
    buying_power: Decimal | None = None
    initial_margin: Decimal | None = None
    maintenance_margin: Decimal | None = None
    # The amounts are not older than as_of, and were stored at read_at.
    as_of: datetime | None = None
    read_at: datetime | None = None


class PositionChange(Record, frozen=True, kw_only=True):
    """A change of a position, its cause, and the position after it; intent_id if an execution changed it."""

    symbol: str
    cause: str
    change: Decimal
    quantity: Decimal
    changed_at: datetime
    intent_id: str | None = None
    # Of an external order: quantity multiplied by price of its fills, negative for sells; None if it is not known.
    value: Decimal | None = None
    # Of OPENING and UNEXPLAINED: the broker's, of the whole position after the change; None if it is not known.
    average_price: Decimal | None = None


class Gap(Record, frozen=True, kw_only=True):
    """Events that are no longer in the log; resume_token continues after them."""

    first_seq: int
    last_seq: int
    resume_token: str
    reason: str


class EventPage(PageOf[Event], frozen=True, kw_only=True):
    """One page of the event log."""

    oldest_seq: int
    newest_seq: int
    gap: Gap | None = None

    def require_whole(self) -> None:
        """Raise EventMissed if some requested events are no longer in the log."""
        if self.gap is not None:
            missed = self.gap
            raise EventMissed(
                position=missed.first_seq - 1,
                prev_seq=missed.last_seq,
                resume_token=missed.resume_token,
                reason=missed.reason,
            )


def history_query(options: HistoryOptions) -> dict[str, Any]:
    """The options as query parameters."""
    others = {name: value for name, value in options.items() if name not in ("resume_token", "account_id")}
    lists = {"types": ",".join(options.get("types") or ()), "symbols": ",".join(options.get("symbols") or ())}
    return {**others, **lists}


def following_events(request: Request, next_cursor: str | None) -> Request | None:
    """The request for the page after this one, or None if this was the last."""
    if next_cursor is None:
        return None
    unchanged = {name: value for name, value in request.parameters.items() if name != "after_seq"}
    return replace(request, parameters={**unchanged, "next_cursor": next_cursor})
