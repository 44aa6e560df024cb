"""The query parameters of the intent routes: each once, each of its shape."""

import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, TypeVar
from uuid import UUID

from litestar import Request
from litestar.datastructures import State

from openbell_server.application.ports.order_lists import ListedStatus, OrderFilter
from openbell_server.application.ports.stores import ActionFilter
from openbell_server.application.read_orders import ExecutionFilter
from openbell_server.domain.errors import InvalidParameter
from openbell_server.domain.identifiers import IntentId
from openbell_server.domain.intent_statistics import TimeWindow
from openbell_server.domain.intents import ActionType
from openbell_server.domain.names import REASON_LENGTH_MAX
from openbell_server.domain.orders import OrderSide

REFERENCE_LENGTH_MAX: Final = 128
_RFC3339: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)
# One spelling of each: no sign, no zero before it.
_WHOLE: Final = re.compile(r"0|[1-9][0-9]{0,17}")
Choice = TypeVar("Choice", bound=StrEnum)
AnyRequest = Request[Any, Any, State]


def page_of(request: AnyRequest) -> tuple[str | None, int | None]:
    """Cursor and limit as asked; what is no number is out of bounds."""
    cursor, limit = sole(request, "next_cursor"), sole(request, "limit")
    return cursor, None if limit is None else whole_number(limit) or 0


def whole_number(text: str) -> int | None:
    """A number of up to 18 digits in its one spelling; None if it is none."""
    return int(text) if _WHOLE.fullmatch(text) else None


def filter_of(request: AnyRequest) -> ActionFilter:
    """Which actions are asked for."""
    reference = sole(request, "client_reference_id")
    if reference is not None and not (0 < len(reference) <= REFERENCE_LENGTH_MAX and reference.isprintable()):
        raise InvalidParameter("client_reference_id", f"must be 1 to {REFERENCE_LENGTH_MAX} printable characters, once")
    return ActionFilter(
        symbol=sole(request, "symbol"),
        action_type=_choice(request, "action_type", ActionType),
        client_reference_id=reference,
        created_after=_moment(request, "created_after"),
        created_before=_moment(request, "created_before"),
    )


def order_filter_of(request: AnyRequest) -> OrderFilter:
    """Which orders are asked for."""
    return OrderFilter(
        status=_choice(request, "status", ListedStatus) or ListedStatus.ALL,
        symbol=sole(request, "symbol"),
        order_side=_choice(request, "order_side", OrderSide),
    )


def execution_filter_of(request: AnyRequest) -> ExecutionFilter:
    """Which executions are asked for."""
    intent_id = sole(request, "intent_id")
    try:
        asked = None if intent_id is None else IntentId(UUID(intent_id))
    except ValueError:
        asked = None
    if intent_id is not None and str(asked) != intent_id.lower():
        raise InvalidParameter("intent_id", "must be the UUID of an intent, once")
    return ExecutionFilter(
        intent_id=asked,
        symbol=sole(request, "symbol"),
        since=_moment(request, "since"),
        until=_moment(request, "until"),
    )


def reason_of(request: AnyRequest) -> str | None:
    """Why something is removed, if it is said."""
    reason = sole(request, "reason")
    if reason is not None and not (0 < len(reason) <= REASON_LENGTH_MAX and reason.isprintable()):
        raise InvalidParameter("reason", f"must be 1 to {REASON_LENGTH_MAX} printable characters, once")
    return reason


def symbols_of(request: AnyRequest) -> list[str] | None:
    """Symbols with commas between, if any are named."""
    text = sole(request, "symbols")
    return None if text is None else text.split(",")


def window_of(request: AnyRequest) -> TimeWindow:
    """The window of statistics."""
    return _choice(request, "time_window", TimeWindow) or TimeWindow.LAST_DAY


def require_refused(request: AnyRequest) -> None:
    """Refuse a list of receipts without refused=true: accepted ones are listed by their intents."""
    if sole(request, "refused") != "true":
        raise InvalidParameter("refused", "must be true; receipts of what was accepted are listed with its intent")


def flag_of(request: AnyRequest, name: str) -> bool | None:
    """A parameter that is true or false, if it is there."""
    text = sole(request, name)
    if text not in {None, "true", "false"}:
        raise InvalidParameter(name, "must be true or false")
    return None if text is None else text == "true"


def _choice(request: AnyRequest, name: str, kind: type[Choice]) -> Choice | None:
    text = sole(request, name)
    if text is None:
        return None
    try:
        return kind(text)
    except ValueError:
        raise InvalidParameter(name, f"must be one of {', '.join(kind)}") from None


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
    """A query parameter; one that was sent twice counts as empty, and empty is never valid."""
    values = request.query_params.getall(name, [])
    if len(values) > 1:
        return ""
    return str(values[0]) if values else None
