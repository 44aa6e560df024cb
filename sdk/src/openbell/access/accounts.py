"""Accounts and their broker credentials."""

from datetime import datetime
from typing import Literal, TypedDict

from openbell.models import Record

Environment = Literal["live", "paper"]


class AccountOptions(TypedDict, total=False):
    """Options of a new account; `profile` is only for the broker paper."""

    profile: Literal["A", "W", "B", "C"] | None
    external_account_id: str | None
    base_currency: str
    timezone: str


class AccountChanges(TypedDict, total=False):
    """Fields to change; with if_version only if the account has that version."""

    name: str
    external_account_id: str
    timezone: str
    disabled: bool
    disabled_reason: str
    if_version: int


class Account(Record, frozen=True, kw_only=True):
    """A trading account, and the state of its broker session."""

    id: str
    organization_id: str
    name: str
    broker: str
    environment: str
    base_currency: str
    timezone: str
    disabled: bool
    credential_status: str
    session_status: str
    created_at: datetime
    updated_at: datetime
    version: int
    profile: str | None = None
    external_account_id: str | None = None
    disabled_reason: str | None = None
    closed_at: datetime | None = None
    halt_code: str | None = None
    halt_detail: str | None = None
    halted_at: datetime | None = None


class Credential(Record, frozen=True, kw_only=True):
    """A broker credential, without its secrets."""

    id: str
    account_id: str
    broker: str
    kind: str
    # The last characters of its key id.
    hint: str
    status: str
    created_at: datetime
    updated_at: datetime
    version: int
    verified_at: datetime | None = None
    expires_at: datetime | None = None
