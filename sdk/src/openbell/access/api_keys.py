"""API keys."""

from datetime import datetime
from typing import TypedDict

from openbell.models import Record


class ApiKeyChanges(TypedDict, total=False):
    """Fields to change."""

    name: str
    disabled: bool
    own_orders_only: bool


class ApiKey(Record, frozen=True, kw_only=True):
    """An API key; the secret api_key only in the reply that creates it."""

    id: str
    organization_id: str
    key_id: str
    name: str
    environment: str
    permissions: tuple[str, ...]
    disabled: bool
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    # Up to a minute earlier than the last use.
    last_used_at: datetime | None = None
    # Whether it may cancel and replace only orders of intents that it created.
    own_orders_only: bool = False
    api_key: str | None = None

    def __repr__(self) -> str:
        return f"ApiKey(id={self.id!r}, key_id={self.key_id!r}, name={self.name!r}, disabled={self.disabled})"


class ValidKey(Record, frozen=True, kw_only=True):
    """The organization and environment of a valid key."""

    id: str
    organization_id: str
    environment: str
    disabled: bool
    created_at: datetime
