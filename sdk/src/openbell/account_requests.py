"""Accounts and their broker credentials as the platform tells them, and the requests about them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, TypedDict
from urllib.parse import quote

from openbell.connection import Connection
from openbell.models import Record
from openbell.requests import PAGE_LIMIT, Request, change, if_match, page, text_of

_PATH = "/v1/accounts"
Environment = Literal["live", "paper"]


class AccountOptions(TypedDict, total=False):
    """What a new account may carry."""

    external_account_id: str | None
    base_currency: str
    timezone: str


class AccountChanges(TypedDict, total=False):
    """What may be changed; with if_version only on that version."""

    name: str
    external_account_id: str
    timezone: str
    disabled: bool
    disabled_reason: str
    if_version: int


class Account(Record, frozen=True, kw_only=True):
    """A trading account, and how its broker's session stands."""

    id: str
    organization_id: str
    name: str
    broker: str
    environment: str
    base_currency: str
    timezone: str
    disabled: bool
    credential_status: str
    session_state: str
    created_at: datetime
    updated_at: datetime
    version: int
    external_account_id: str | None = None
    disabled_reason: str | None = None
    closed_at: datetime | None = None
    halt_code: str | None = None
    halt_detail: str | None = None
    halted_at: datetime | None = None


class AccountPage(Record, frozen=True, kw_only=True):
    """One page of accounts."""

    data: tuple[Account, ...]
    next_cursor: str | None = None
    last_cursor: str | None = None


class Credential(Record, frozen=True, kw_only=True):
    """What the platform tells of a broker credential: never the secret."""

    id: str
    account_id: str
    broker: str
    kind: str
    # The end of what it is known by.
    hint: str
    status: str
    created_at: datetime
    updated_at: datetime
    version: int
    verified_at: datetime | None = None
    expires_at: datetime | None = None


def create_account(name: str, broker: str, environment: Environment, options: AccountOptions) -> Request:
    """Open an account."""
    more = {key: value for key, value in options.items() if value is not None}
    return change("POST", _PATH, {"name": name, "broker": broker, "environment": environment, **more})


def accounts() -> Request:
    """The first page of the organization's accounts."""
    return page(_PATH, None, PAGE_LIMIT)


def account(connection: Connection, account_id: str | None) -> Request:
    """One account."""
    return Request("GET", _path(connection, account_id))


def change_account(connection: Connection, account_id: str | None, changes: AccountChanges) -> Request:
    """Change an account."""
    body = {name: value for name, value in changes.items() if name != "if_version"}
    return if_match(change("PATCH", _path(connection, account_id), body), changes.get("if_version"))


def close_account(connection: Connection, account_id: str | None, if_version: int | None) -> Request:
    """Close an account for good."""
    return if_match(Request("DELETE", _path(connection, account_id)), if_version)


def put_credential(
    connection: Connection,
    account_id: str | None,
    fields: Mapping[str, str],
    expires_at: datetime | None,
    if_version: int | None,
) -> Request:
    """Give an account its broker's credential."""
    body: dict[str, Any] = {"fields": dict(fields)}
    if expires_at is not None:
        body["expires_at"] = text_of("expires_at", expires_at)
    return if_match(change("PUT", f"{_path(connection, account_id)}/credentials", body), if_version)


def credential(connection: Connection, account_id: str | None) -> Request:
    """What is known of an account's credential."""
    return Request("GET", f"{_path(connection, account_id)}/credentials")


def delete_credential(connection: Connection, account_id: str | None, if_version: int | None) -> Request:
    """Forget an account's credential."""
    return if_match(Request("DELETE", f"{_path(connection, account_id)}/credentials"), if_version)


def verify_credential(connection: Connection, account_id: str | None) -> Request:
    """Ask the broker whether the credential is right."""
    return Request("POST", f"{_path(connection, account_id)}/credentials/verify")


def _path(connection: Connection, account_id: str | None) -> str:
    return f"{_PATH}/{quote(connection.account(account_id), safe='')}"
