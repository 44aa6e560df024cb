"""Reads and checks query parameters; each may be sent once."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final, TypeVar
from uuid import UUID

from litestar import Request

from openbell_server.application.access.read_audit_log import AuditFilter
from openbell_server.application.intents.ports import (
    ActionFilter,
    ExecutionFilter,
    ListedStatus,
    OrderFilter,
)
from openbell_server.application.paging import ListOrder
from openbell_server.domain.errors import InvalidParameter
from openbell_server.domain.identifiers import AccountId, IntentId
from openbell_server.domain.names import REASON_LENGTH_MAX
from openbell_server.domain.orders.intent_statistics import TimeWindow
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_aggregate import Certainty
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
    return ActionFilter(
        symbol=sole(request, "symbol"),
        action_type=choice_of(request, "action_type", ActionType),
        client_reference_id=_printable(request, "client_reference_id", REFERENCE_LENGTH_MAX),
        since=moment_of(request, "since"),
        until=moment_of(request, "until"),
        order=order_of(request),
    )


def order_filter_of(request: AnyRequest) -> OrderFilter:
    return OrderFilter(
        account_id=account_id_of(request),
        intent_id=intent_id_of(request),
        status=choice_of(request, "status", ListedStatus) or ListedStatus.ALL,
        certainty=choice_of(request, "certainty", Certainty),
        symbol=sole(request, "symbol"),
        order_side=choice_of(request, "order_side", OrderSide),
        order=order_of(request),
    )


def execution_filter_of(request: AnyRequest) -> ExecutionFilter:
    return ExecutionFilter(
        account_id=account_id_of(request),
        intent_id=intent_id_of(request),
        symbol=sole(request, "symbol"),
        since=moment_of(request, "since"),
        until=moment_of(request, "until"),
        order=order_of(request),
    )


def order_of(request: AnyRequest) -> ListOrder:
    return choice_of(request, "order", ListOrder) or ListOrder.OLDEST_FIRST


def account_id_of(request: AnyRequest) -> AccountId | None:
    found = uuid_of(request, "account_id")
    return None if found is None else AccountId(found)


def intent_id_of(request: AnyRequest) -> IntentId | None:
    found = uuid_of(request, "intent_id")
    return None if found is None else IntentId(found)


def audit_filter_of(request: AnyRequest) -> AuditFilter:
    return AuditFilter(
        since=moment_of(request, "since"),
        until=moment_of(request, "until"),
        operation=_printable(request, "operation", REFERENCE_LENGTH_MAX),
        principal_id=_printable(request, "principal_id", REASON_LENGTH_MAX),
        order=order_of(request),
    )


def reason_of(request: AnyRequest) -> str | None:
    return _printable(request, "reason", REASON_LENGTH_MAX)


def symbols_of(request: AnyRequest) -> list[str] | None:
    text = sole(request, "symbols")
    return None if text is None else text.split(",")


def window_of(request: AnyRequest) -> TimeWindow:
    return choice_of(request, "time_window", TimeWindow) or TimeWindow.LAST_DAY


def intent_or_refused(request: AnyRequest) -> IntentId | None:
    """Whose receipts are listed: those of an intent, or with None those of refusals."""
    intent_id, refused = intent_id_of(request), sole(request, "refused")
    if refused not in (None, "true"):
        raise InvalidParameter("refused", "must be true; receipts of accepted commands are listed with their intent")
    return intent_id


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


def _printable(request: AnyRequest, name: str, length_max: int) -> str | None:
    text = sole(request, name)
    if text is not None and not (0 < len(text) <= length_max and text.isprintable()):
        raise InvalidParameter(name, f"must be 1 to {length_max} printable characters, once")
    return text


def moment_of(request: AnyRequest, name: str) -> datetime | None:
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
