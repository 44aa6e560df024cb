"""API keys as the platform tells them, and the requests about them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypedDict
from urllib.parse import quote

from openbell.account_requests import Environment
from openbell.connection import Connection
from openbell.errors import NotConfigured
from openbell.models import Record
from openbell.requests import PAGE_LIMIT, Request, change, page, text_of

_PATH = "/v1/api-keys"


class ApiKeyChanges(TypedDict, total=False):
    """What may be changed."""

    name: str
    disabled: bool


class ApiKey(Record, frozen=True, kw_only=True):
    """An API key; what authenticates only where it is new."""

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
    api_key: str | None = None

    def __repr__(self) -> str:
        """Without what authenticates."""
        return f"ApiKey(id={self.id!r}, key_id={self.key_id!r}, name={self.name!r}, disabled={self.disabled})"


class ApiKeyPage(Record, frozen=True, kw_only=True):
    """One page of keys."""

    data: tuple[ApiKey, ...]
    next_cursor: str | None = None
    last_cursor: str | None = None


class ValidKey(Record, frozen=True, kw_only=True):
    """Whose key it is."""

    id: str
    organization_id: str
    environment: str
    disabled: bool
    created_at: datetime


def create_api_key(
    name: str, environment: Environment, permissions: Sequence[str], expires_at: datetime | None
) -> Request:
    """Make a key."""
    body: dict[str, Any] = {"name": name, "environment": environment, "permissions": list(permissions)}
    if expires_at is not None:
        body["expires_at"] = text_of("expires_at", expires_at)
    return change("POST", _PATH, body)


def api_keys() -> Request:
    """The first page of the organization's keys."""
    return page(_PATH, None, PAGE_LIMIT)


def api_key(api_key_id: str) -> Request:
    """One key."""
    return Request("GET", _path(api_key_id))


def change_api_key(api_key_id: str, changes: ApiKeyChanges) -> Request:
    """Rename, disable or enable a key."""
    return change("PATCH", _path(api_key_id), dict(changes))


def revoke_api_key(api_key_id: str) -> Request:
    """End a key for good."""
    return Request("DELETE", _path(api_key_id))


def validate_api_key(connection: Connection, key: str | None) -> Request:
    """Ask whose key this is, or whose the connection's is."""
    if key is None:
        if connection.api_key is None:
            raise NotConfigured("No API key was given.", "Pass api_key, or set OPENBELL_API_KEY.")
        key = connection.api_key.text
    return change("POST", "/api/v1/auth/api-key/validate", {"api_key": key})


def _path(api_key_id: str) -> str:
    return f"{_PATH}/{quote(api_key_id, safe='')}"
