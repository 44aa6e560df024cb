"""Pure building of requests and reading of replies: what both clients share."""

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final, TypedDict, TypeVar
from urllib.parse import quote

import msgspec

from openbell.connection import Connection
from openbell.errors import (
    ApiError,
    Conflict,
    FieldProblem,
    Invalid,
    NotAuthenticated,
    NotFound,
    PermissionDenied,
    RateLimited,
    Unavailable,
    UnexpectedReply,
)
from openbell.models import Action
from openbell.orders import ActionType, OrderSpec, RouteStrategy, Side, TimeWindow

PAGE_LIMIT: Final = 100
Answered = TypeVar("Answered")

_ERRORS: Final[dict[int, type[ApiError]]] = {
    400: Invalid,
    401: NotAuthenticated,
    403: PermissionDenied,
    404: NotFound,
    409: Conflict,
    412: Conflict,
    413: Invalid,
    415: Invalid,
    422: Invalid,
    429: RateLimited,
}


class SubmitOptions(TypedDict, total=False):
    """What any command may carry."""

    account_id: str | None
    idempotency_key: str | None
    client_reference_id: str | None


class ReplaceOptions(SubmitOptions, total=False):
    """What a new order, or a change of one, may carry: later than the deadline it is not sent to the broker."""

    deadline: datetime | None


class CreateOptions(ReplaceOptions, total=False):
    """What a new order may carry: one that is equal to another just before may be no mistake."""

    route_strategy: RouteStrategy | None
    allow_duplicate: bool


class ListOptions(TypedDict, total=False):
    """Which actions are listed; what is left out lets all pass."""

    account_id: str | None
    symbol: str | None
    action_type: ActionType | None
    client_reference_id: str | None
    created_after: datetime | None
    created_before: datetime | None


class TimeOptions(TypedDict, total=False):
    """What a change of trading times may carry; what is left out stays as it is, what clear names is removed."""

    account_id: str | None
    trading_start: str | None
    trading_end: str | None
    timezone: str | None
    days: Sequence[str] | None
    stale_order_millis: int | None
    max_resting_millis: int | None
    calendar: str | None
    session: str | None
    on_close: str | None
    clear: Sequence[str]


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request, without the address and the key."""

    method: str
    path: str
    parameters: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    # The longest this request may take, where that is shorter than the client's own limit.
    timeout: float | None = None
    # How long its answer may take by its nature, where that is longer.
    patience: float = 0.0


@dataclass(frozen=True, slots=True)
class Reply:
    """One HTTP reply; header names are lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def is_success(self) -> bool:
        """Whether the platform did what was asked."""
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES

    @property
    def is_server_failure(self) -> bool:
        """Whether the far side failed, so that nobody can say how far it came."""
        return self.status >= HTTPStatus.INTERNAL_SERVER_ERROR


class ProblemBody(msgspec.Struct):
    """The problem+json body, as far as it is there."""

    code: str = ""
    title: str = ""
    detail: str = ""
    request_id: str | None = None
    errors: tuple[FieldProblem, ...] = ()
    receipt: dict[str, Any] | None = None


def new_idempotency_key() -> str:
    """A key no other command has."""
    return uuid.uuid4().hex


def create_intent(
    connection: Connection, *, symbol: str, side: Side, spec: OrderSpec, options: CreateOptions
) -> Request:
    """A CREATE command."""
    payload: dict[str, Any] = {"symbol": symbol, "order_side": side, "spec": spec.to_wire()}
    if route_strategy := options.get("route_strategy"):
        payload["route_strategy"] = route_strategy
    return _submit(connection, {"type": "CREATE", "payload": payload}, options)


def replace_intent(connection: Connection, intent_id: str, spec: OrderSpec, options: ReplaceOptions) -> Request:
    """A REPLACE command."""
    payload = {"ref_intent_id": intent_id, "spec": spec.to_wire()}
    return _submit(connection, {"type": "REPLACE", "payload": payload}, options)


def cancel_intent(connection: Connection, intent_id: str, options: SubmitOptions) -> Request:
    """A CANCEL command."""
    return _submit(connection, {"type": "CANCEL", "payload": {"ref_intent_id": intent_id}}, options)


def latest_action(connection: Connection, intent_id: str, account_id: str | None) -> Request:
    """The latest action of an intent, with its execution."""
    return Request("GET", f"{_intents(connection, account_id)}/{quote(intent_id, safe='')}")


def intents_page(connection: Connection, options: ListOptions, cursor: str | None, limit: int) -> Request:
    """One page of an account's action records."""
    first = page(_intents(connection, options.get("account_id")), cursor, limit)
    filters = {name: text_of(name, value) for name, value in options.items() if name != "account_id" and value}
    return replace(first, parameters={**first.parameters, **filters})


def statistics(connection: Connection, account_id: str | None, window: TimeWindow) -> Request:
    """Counts of an account's intents."""
    return Request("GET", f"{_intents(connection, account_id)}/stats", {"time_window": window})


def actions_page(connection: Connection, intent_id: str, account_id: str | None) -> Request:
    """The first page of an intent's history."""
    return page(f"{_intents(connection, account_id)}/{quote(intent_id, safe='')}/actions", None, PAGE_LIMIT)


def symbol_control(connection: Connection, symbol: str, account_id: str | None) -> Request:
    """The manual control of a symbol."""
    return Request("GET", _control(connection, symbol, account_id))


def symbol_time(connection: Connection, symbol: str, account_id: str | None) -> Request:
    """The trading times of a symbol."""
    return Request("GET", f"{_control(connection, symbol, account_id)}/time")


def set_symbol_control(
    connection: Connection, symbol: str, *, disabled: bool, reason: str | None, account_id: str | None
) -> Request:
    """Switch a symbol off or on."""
    body: dict[str, Any] = {"manually_disabled": disabled}
    if reason is not None:
        body["manual_reason"] = reason
    return change("PUT", _control(connection, symbol, account_id), body)


def patch_symbol_time(connection: Connection, symbol: str, options: TimeOptions) -> Request:
    """Change the trading times of a symbol."""
    body = {name: value for name, value in options.items() if name != "account_id" and value is not None}
    return change("PATCH", f"{_control(connection, symbol, options.get('account_id'))}/time", body)


def brokers() -> Request:
    """Every broker and what it can do."""
    return Request("GET", "/v1/brokers")


def calendars() -> Request:
    """Every market calendar."""
    return Request("GET", "/v1/calendars")


def market_sessions(calendar: str, since: str | None, until: str | None) -> Request:
    """The sessions of a market on some days."""
    days = {name: day for name, day in (("from", since), ("to", until)) if day is not None}
    return Request("GET", f"/v1/calendars/{quote(calendar, safe='')}/sessions", days)


def halt_report(connection: Connection, account_id: str | None) -> Request:
    """What the halts of an account came to."""
    return Request("GET", f"/v1/accounts/{quote(connection.account(account_id), safe='')}/halt-report")


def fault_plan(connection: Connection, account_id: str | None) -> Request:
    """How an account's paper broker misbehaves."""
    return Request("GET", _faults(connection, account_id))


def set_fault_plan(
    connection: Connection, faults: Mapping[str, float], *, seed: int, account_id: str | None
) -> Request:
    """Have an account's paper broker misbehave."""
    return change("PUT", _faults(connection, account_id), {"seed": seed, "faults": dict(faults)})


def remove_fault_plan(connection: Connection, account_id: str | None) -> Request:
    """Have an account's paper broker behave."""
    return Request("DELETE", _faults(connection, account_id))


def following_page(request: Request, next_cursor: str | None) -> Request | None:
    """The request for the page after this one, or None when this was the last."""
    if next_cursor is None:
        return None
    if next_cursor == request.parameters.get("next_cursor"):
        raise UnexpectedReply("A page named itself as the next one.")
    return replace(request, parameters={**request.parameters, "next_cursor": next_cursor})


def read_action(reply: Reply) -> Action:
    """The action record of a reply."""
    action = read(reply, Action)
    if reply.headers.get("idempotency-replayed", "").lower() == "true":
        return msgspec.structs.replace(action, replayed=True)
    return action


def read(reply: Reply, kind: type[Answered]) -> Answered:
    """The body of a successful reply."""
    try:
        return msgspec.json.decode(reply.body, type=kind)
    except msgspec.MsgspecError as error:
        raise UnexpectedReply(f"The {reply.status} reply cannot be read: {error}{_request_id_note(reply)}.") from error


def read_error(reply: Reply) -> ApiError | UnexpectedReply:
    """The error a reply stands for, whoever sent it."""
    if reply.status < HTTPStatus.BAD_REQUEST:
        return UnexpectedReply(f"The server answered {reply.status} instead of the platform's reply.")
    try:
        problem = msgspec.json.decode(reply.body, type=ProblemBody)
    except msgspec.MsgspecError:
        problem = ProblemBody()
    kind = _ERRORS.get(reply.status, Unavailable if reply.is_server_failure else ApiError)
    return kind(
        code=problem.code or f"http_{reply.status}",
        status=reply.status,
        detail=problem.detail or problem.title or f"The server answered {reply.status} without saying why.",
        errors=problem.errors,
        request_id=problem.request_id or reply.headers.get("x-request-id"),
        receipt=problem.receipt,
    )


def text_of(name: str, value: object) -> str:
    """A value as a query has it; a time must have a zone."""
    if not isinstance(value, datetime):
        return str(value)
    if value.tzinfo is None:
        raise ValueError(f"{name} must have a time zone, such as datetime.now(timezone.utc).")
    return value.isoformat()


def _submit(connection: Connection, command: dict[str, Any], options: SubmitOptions) -> Request:
    given = options.get("idempotency_key")
    key = new_idempotency_key() if given is None else given
    if not re.fullmatch(r"[!-~]{1,255}", key):
        raise ValueError("idempotency_key must be 1 to 255 visible ASCII characters without spaces.")
    body: dict[str, Any] = {"command": command}
    if reference := options.get("client_reference_id"):
        body["client_reference_id"] = reference
    deadline = options.get("deadline")
    if deadline is not None:
        body["deadline"] = text_of("deadline", deadline)
    if options.get("allow_duplicate"):
        body["allow_duplicate"] = True
    return Request(
        "POST",
        _intents(connection, options.get("account_id")),
        headers={"idempotency-key": key, "content-type": "application/json"},
        body=msgspec.json.encode(body),
    )


def page(path: str, cursor: str | None, limit: int) -> Request:
    """One page of a list."""
    parameters = {"limit": str(limit)}
    if cursor is not None:
        parameters["next_cursor"] = cursor
    return Request("GET", path, parameters=parameters)


def if_match(request: Request, version: int | None) -> Request:
    """The request, refused unless what it changes has this version."""
    return request if version is None else replace(request, headers={**request.headers, "if-match": f'"{version}"'})


def change(method: str, path: str, body: dict[str, Any]) -> Request:
    """A request with a body."""
    return Request(method, path, headers={"content-type": "application/json"}, body=msgspec.json.encode(body))


def _control(connection: Connection, symbol: str, account_id: str | None) -> str:
    account = quote(connection.account(account_id), safe="")
    return f"/v1/controls/accounts/{account}/symbols/{quote(symbol, safe='')}"


def _faults(connection: Connection, account_id: str | None) -> str:
    return f"/v1/accounts/{quote(connection.account(account_id), safe='')}/paper/faults"


def _intents(connection: Connection, account_id: str | None) -> str:
    return f"/v1/accounts/{quote(connection.account(account_id), safe='')}/intents"


def _request_id_note(reply: Reply) -> str:
    request_id = reply.headers.get("x-request-id")
    return f" (request {request_id})" if request_id else ""
