"""Options of the calls about intents, and the requests that submit commands."""

import re
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict

import msgspec

from openbell.connection import Connection
from openbell.intents.orders import ActionType, ListOrder, OrderSpec, RouteStrategy, Side
from openbell.requests import PAGE_LIMIT, Request, change, page, path_of, text_of


class SubmitOptions(TypedDict, total=False):
    """Options of every command."""

    account_id: str | None
    idempotency_key: str | None
    client_reference_id: str | None


class ReplaceOptions(SubmitOptions, total=False):
    """Options of a REPLACE; a command is not sent to the broker after its deadline."""

    deadline: datetime | None


class CreateOptions(ReplaceOptions, total=False):
    """Options of a CREATE; allow_duplicate skips the duplicate-order check."""

    route_strategy: RouteStrategy | None
    allow_duplicate: bool


class ListOptions(TypedDict, total=False):
    """Filters of a list of actions."""

    account_id: str | None
    symbol: str | None
    action_type: ActionType | None
    client_reference_id: str | None
    since: datetime | None
    until: datetime | None
    order: ListOrder | None


def create_intent(
    connection: Connection, *, symbol: str, side: Side, spec: OrderSpec, options: CreateOptions
) -> Request:
    payload: dict[str, Any] = {"symbol": symbol, "order_side": side, "spec": spec.to_wire()}
    if route_strategy := options.get("route_strategy"):
        payload["route_strategy"] = route_strategy
    return _submit(connection, {"type": "CREATE", "payload": payload}, options)


def replace_intent(connection: Connection, intent_id: str, spec: OrderSpec, options: ReplaceOptions) -> Request:
    payload = {"ref_intent_id": intent_id, "spec": spec.to_wire()}
    return _submit(connection, {"type": "REPLACE", "payload": payload}, options)


def cancel_intent(connection: Connection, intent_id: str, options: SubmitOptions) -> Request:
    return _submit(connection, {"type": "CANCEL", "payload": {"ref_intent_id": intent_id}}, options)


def evaluation(connection: Connection, submit: Request, account_id: str | None) -> Request:
    """The dry run of a command."""
    assert submit.body is not None, "a command has a body"
    body = {**msgspec.json.decode(submit.body), "account_id": connection.account(account_id)}
    return change("POST", "/v1/controls/evaluate", body)


def account_page(
    connection: Connection,
    what: str,
    options: Mapping[str, Any],
    next_cursor: str | None = None,
    limit: int = PAGE_LIMIT,
) -> Request:
    """One page of a list of an account, such as its orders."""
    filters = {name: value for name, value in options.items() if name != "account_id"}
    return page(connection.path(options.get("account_id"), what), next_cursor, limit, **filters)


def organization_page(connection: Connection, what: str, options: Mapping[str, Any]) -> Request:
    """One page of a list of the organization, by default of the client's account."""
    account_id = options.get("account_id") or connection.account_id
    filters = {name: value for name, value in options.items() if name not in ("account_id", "all_accounts")}
    return page(path_of(what), account_id=None if options.get("all_accounts") else account_id, **filters)


def _submit(connection: Connection, command: dict[str, Any], options: SubmitOptions) -> Request:
    given = options.get("idempotency_key")
    key = uuid.uuid4().hex if given is None else given
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
    request = change("POST", connection.path(options.get("account_id"), "intents"), body)
    request.headers["idempotency-key"] = key
    return request
