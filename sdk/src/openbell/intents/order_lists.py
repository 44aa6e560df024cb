"""Orders, executions, positions and past events as the API lists them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Literal, TypedDict

from openbell.errors import EventMissed
from openbell.events.records import BrokerOrder, Event
from openbell.intents.orders import Side
from openbell.models import PageOf, Record
from openbell.requests import Request

OrderStatus = Literal["WORKING", "CLOSED", "ALL"]


class OrderOptions(TypedDict, total=False):
    """Filters of a list of orders."""

    account_id: str | None
    status: OrderStatus | None
    symbol: str | None
    order_side: Side | None


class ExecutionOptions(TypedDict, total=False):
    """Filters of a list of executions; since (included) and until (excluded) are times of recording."""

    account_id: str | None
    intent_id: str | None
    symbol: str | None
    since: datetime | None
    until: datetime | None


class HistoryOptions(TypedDict, total=False):
    """Filters of past events; without after_seq and resume_token the list starts at the oldest event in the log."""

    account_id: str | None
    after_seq: int | None
    resume_token: str | None
    types: Sequence[str]
    symbols: Sequence[str]


class Order(BrokerOrder, frozen=True, kw_only=True):
    """The current state of an intent's order."""

    created_at: datetime
    updated_at: datetime


class OrderPage(PageOf[Order], frozen=True, kw_only=True):
    """One page of orders."""


class RecordedExecution(Record, frozen=True, kw_only=True):
    """The current state of an execution: kind NORMAL, CORRECTION, or BUST with quantity 0."""

    execution_id: str
    intent_id: str
    symbol: str
    order_side: str
    kind: str
    quantity: Decimal
    price: Decimal
    executed_at: datetime
    recorded_at: datetime
    # What the broker reported first, if it corrected the execution later.
    reported_quantity: Decimal | None = None
    reported_price: Decimal | None = None
    changed_at: datetime | None = None


class Position(Record, frozen=True, kw_only=True):
    """The quantity that an account holds of a symbol; negative if it is short."""

    symbol: str
    quantity: Decimal
    updated_at: datetime


class Positions(Record, frozen=True, kw_only=True):
    """All positions of an account after the event account_seq."""

    data: tuple[Position, ...]
    account_seq: int
    # BROKER: the broker's positions at as_of plus later executions. EXECUTIONS: the sum of executions only.
    source: str
    as_of: datetime | None = None
    complete: bool = True


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


def history_query(options: HistoryOptions) -> dict[str, object]:
    """The options as query parameters."""
    others = {name: value for name, value in options.items() if name != "resume_token"}
    lists = {"types": ",".join(options.get("types") or ()), "symbols": ",".join(options.get("symbols") or ())}
    return {**others, **lists}


def following_events(request: Request, next_cursor: str | None) -> Request | None:
    """The request for the page after this one, or None if this was the last."""
    if next_cursor is None:
        return None
    unchanged = {name: value for name, value in request.parameters.items() if name != "after_seq"}
    return replace(request, parameters={**unchanged, "next_cursor": next_cursor})
