"""Orders, executions, positions and past events as the platform lists them, and the requests for them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Literal, TypedDict
from urllib.parse import quote

from openbell.connection import Connection
from openbell.errors import EventMissed
from openbell.event_records import BrokerOrder, Event, ExternalOrder
from openbell.models import Record
from openbell.orders import Side
from openbell.requests import PAGE_LIMIT, Request, text_of

OrderStatus = Literal["WORKING", "CLOSED", "ALL"]


class OrderOptions(TypedDict, total=False):
    """Which orders are listed; what is left out lets all pass."""

    account_id: str | None
    status: OrderStatus | None
    symbol: str | None
    order_side: Side | None


class ExecutionOptions(TypedDict, total=False):
    """Which executions are listed; since is inside and until is not, both about when they were recorded."""

    account_id: str | None
    intent_id: str | None
    symbol: str | None
    since: datetime | None
    until: datetime | None


class HistoryOptions(TypedDict, total=False):
    """Which past events are listed, from where on: the oldest that is kept, unless a number or a token says it."""

    account_id: str | None
    after_seq: int | None
    resume_token: str | None
    types: Sequence[str]
    symbols: Sequence[str]


class Order(BrokerOrder, frozen=True, kw_only=True):
    """The order of an intent as it stands."""

    created_at: datetime
    updated_at: datetime


class OrderPage(Record, frozen=True, kw_only=True):
    """One page of orders."""

    data: tuple[Order, ...]
    next_cursor: str | None = None
    last_cursor: str | None = None


class ExternalOrderPage(Record, frozen=True, kw_only=True):
    """One page of orders that nobody asked for here."""

    data: tuple[ExternalOrder, ...]
    next_cursor: str | None = None
    last_cursor: str | None = None


class RecordedExecution(Record, frozen=True, kw_only=True):
    """An execution as it stands: of kind NORMAL, CORRECTION, or BUST with the quantity 0."""

    execution_id: str
    intent_id: str
    symbol: str
    order_side: str
    kind: str
    quantity: Decimal
    price: Decimal
    executed_at: datetime
    recorded_at: datetime
    # Where the broker said something else later: what it told first.
    told_quantity: Decimal | None = None
    told_price: Decimal | None = None
    changed_at: datetime | None = None


class ExecutionPage(Record, frozen=True, kw_only=True):
    """One page of executions."""

    data: tuple[RecordedExecution, ...]
    next_cursor: str | None = None


class Position(Record, frozen=True, kw_only=True):
    """What an account holds of a symbol; less than nothing where it is short."""

    symbol: str
    quantity: Decimal
    updated_at: datetime


class Positions(Record, frozen=True, kw_only=True):
    """What an account holds, all of it after the event account_seq."""

    data: tuple[Position, ...]
    account_seq: int
    # BROKER: its word was taken over at as_of, and executions moved it since; EXECUTIONS: it never was.
    source: str
    as_of: datetime | None = None
    is_complete: bool = True


class Gap(Record, frozen=True, kw_only=True):
    """Events that are no longer kept."""

    first_seq: int
    last_seq: int
    # Goes on behind them.
    resume_token: str
    reason: str


class EventPage(Record, frozen=True, kw_only=True):
    """One page of the log."""

    events: tuple[Event, ...]
    oldest_seq: int
    newest_seq: int
    next_token: str | None = None
    last_token: str
    gap: Gap | None = None

    def require_whole(self) -> None:
        """Raise EventMissed if some of what was asked for is no longer kept."""
        if self.gap is not None:
            missed = self.gap
            raise EventMissed(
                position=missed.first_seq - 1,
                prev_seq=missed.last_seq,
                resume_token=missed.resume_token,
                reason=missed.reason,
            )


def orders(connection: Connection, options: OrderOptions) -> Request:
    """The first page of orders."""
    return _list(connection, "orders", dict(options))


def order(connection: Connection, intent_id: str, account_id: str | None) -> Request:
    """The order of an intent."""
    return Request("GET", f"{_account(connection, account_id)}/orders/{quote(intent_id, safe='')}")


def external_orders(connection: Connection, account_id: str | None) -> Request:
    """The first page of orders that nobody asked for here."""
    return _list(connection, "external-orders", {"account_id": account_id})


def executions(connection: Connection, options: ExecutionOptions) -> Request:
    """The first page of executions."""
    return _list(connection, "executions", dict(options))


def positions(connection: Connection, account_id: str | None) -> Request:
    """What the account holds."""
    return Request("GET", f"{_account(connection, account_id)}/positions")


def event_history(connection: Connection, options: HistoryOptions) -> Request:
    """The first page of past events."""
    asked = {"types": ",".join(options.get("types") or ()), "symbols": ",".join(options.get("symbols") or ())}
    return _list(connection, "events", {**options, **asked})


def following_events(request: Request, next_token: str | None) -> Request | None:
    """The request for the page after this one, or None when this was the last."""
    if next_token is None:
        return None
    kept = {name: value for name, value in request.parameters.items() if name != "after_seq"}
    return replace(request, parameters={**kept, "resume_token": next_token})


def _list(connection: Connection, what: str, options: dict[str, object]) -> Request:
    path = f"{_account(connection, options.pop('account_id', None))}/{what}"
    asked = {name: text_of(name, value) for name, value in options.items() if value not in (None, "")}
    return Request("GET", path, parameters={"limit": str(PAGE_LIMIT), **asked})


def _account(connection: Connection, account_id: object) -> str:
    return f"/v1/accounts/{quote(connection.account(None if account_id is None else str(account_id)), safe='')}"
