"""Reads and checks query parameters; each may be sent once."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final, TypeVar
from uuid import UUID

from litestar import Request

from openbell_server.application.intents.ports import ActionFilter, ListedStatus, OrderFilter
from openbell_server.application.intents.read_orders import ExecutionFilter
from openbell_server.domain.errors import InvalidParameter
from openbell_server.domain.identifiers import IntentId
from openbell_server.domain.names import REASON_LENGTH_MAX
from openbell_server.domain.orders.intent_statistics import TimeWindow
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_terms import OrderSide

REFERENCE_LENGTH_MAX: Final = 128
_RFC3339: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)
# Each number has one spelling: no sign, no leading zero.
_WHOLE: Final = re.compile(r"0|[1-9][0-9]{0,17}")
Choice = TypeVar("Choice", bound=str)
AnyRequest = Request[Any, Any, Any]


def page_of(request: AnyRequest) -> tuple[str | None, int | None]:
    """Cursor and limit. A limit that is not a number becomes 0, which the bounds check refuses."""
    cursor, limit = sole(request, "next_cursor"), sole(request, "limit")
    return cursor, None if limit is None else whole_number(limit) or 0


def whole_number(text: str) -> int | None:
    """A number of up to 18 digits without sign or leading zeros, else None."""
    return int(text) if _WHOLE.fullmatch(text) else None


def filter_of(request: AnyRequest) -> ActionFilter:
    reference = sole(request, "client_reference_id")
    if reference is not None and not (0 < len(reference) <= REFERENCE_LENGTH_MAX and reference.isprintable()):
        raise InvalidParameter("client_reference_id", f"must be 1 to {REFERENCE_LENGTH_MAX} printable characters, once")
    return ActionFilter(
        symbol=sole(request, "symbol"),
        action_type=choice_of(request, "action_type", ActionType),
        client_reference_id=reference,
        since=_moment(request, "since"),
        until=_moment(request, "until"),
    )


def order_filter_of(request: AnyRequest) -> OrderFilter:
    return OrderFilter(
        status=choice_of(request, "status", ListedStatus) or ListedStatus.ALL,
        symbol=sole(request, "symbol"),
        order_side=choice_of(request, "order_side", OrderSide),
    )


def execution_filter_of(request: AnyRequest) -> ExecutionFilter:
    intent_id = uuid_of(request, "intent_id")
    return ExecutionFilter(
        intent_id=None if intent_id is None else IntentId(intent_id),
        symbol=sole(request, "symbol"),
        since=_moment(request, "since"),
        until=_moment(request, "until"),
    )


def reason_of(request: AnyRequest) -> str | None:
    reason = sole(request, "reason")
    if reason is not None and not (0 < len(reason) <= REASON_LENGTH_MAX and reason.isprintable()):
        raise InvalidParameter("reason", f"must be 1 to {REASON_LENGTH_MAX} printable characters, once")
    return reason


def symbols_of(request: AnyRequest) -> list[str] | None:
    text = sole(request, "symbols")
    return None if text is None else text.split(",")


def window_of(request: AnyRequest) -> TimeWindow:
    return choice_of(request, "time_window", TimeWindow) or TimeWindow.LAST_DAY


def require_refused(request: AnyRequest) -> None:
    """Refuse a list of receipts without refused=true: receipts of accepted commands are listed by intent."""
    if sole(request, "refused") != "true":
        raise InvalidParameter("refused", "must be true; receipts of accepted commands are listed with their intent")


def flag_of(request: AnyRequest, name: str) -> bool | None:
    text = sole(request, name)
    if text not in {None, "true", "false"}:
        raise InvalidParameter(name, "must be true or false")
    return None if text is None else text == "true"


def uuid_of(request: AnyRequest, name: str) -> UUID | None:
    text = sole(request, name)
    if text is None:
        return None
    try:
        found = UUID(text)
    except ValueError:
        found = None
    if str(found) != text.lower():
        raise InvalidParameter(name, "must be one UUID, such as 01981d3c-7a00-7000-8000-000000000002")
    return found


def choice_of(request: AnyRequest, name: str, choices: Iterable[Choice]) -> Choice | None:
    text = sole(request, name)
    if text is None:
        return None
    known = {str(each): each for each in choices}
    if text not in known:
        raise InvalidParameter(name, f"must be one of {', '.join(known)}")
    return known[text]


def _moment(request: AnyRequest, name: str) -> datetime | None:
    text = sole(request, name)
    if text is None:
        return None
    try:
        if _RFC3339.fullmatch(text):
            return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    message = "must be one RFC 3339 time, such as 2026-01-31T09:30:00Z; the + of an offset is written %2B"
    raise InvalidParameter(name, message)


def sole(request: AnyRequest, name: str) -> str | None:
    """One query parameter. If it was sent twice the result is empty, which no parameter accepts."""
    values = request.query_params.getall(name, [])
    if len(values) > 1:
        return ""
    return str(values[0]) if values else None
