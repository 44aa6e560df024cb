"""Webhooks as the platform tells them, and the requests about them, which both clients share."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal, TypedDict
from urllib.parse import quote

from openbell.models import Record
from openbell.requests import PAGE_LIMIT, Request, change, if_match, page

_PATH = "/v1/webhooks"


class WebhookOptions(TypedDict, total=False):
    """What a new webhook may carry; without accounts it is about all, those opened later too."""

    description: str | None
    account_ids: Sequence[str] | None


class WebhookChanges(TypedDict, total=False):
    """What may be changed; account_ids of None are all accounts. With if_version only onto that version."""

    url: str
    description: str
    types: Sequence[str]
    account_ids: Sequence[str] | None
    status: Literal["ACTIVE", "PAUSED"]
    if_version: int


class LaneCounts(Record, frozen=True, kw_only=True):
    """How many accounts a webhook covers, and how many of them are behind, failing or parked."""

    accounts: int
    behind: int
    failing: int
    parked: int


class Webhook(Record, frozen=True, kw_only=True):
    """A webhook; the secret only where it is new, and lanes where it was read."""

    id: str
    organization_id: str
    url: str
    types: tuple[str, ...]
    status: str
    version: int
    created_at: datetime
    updated_at: datetime
    principal_type: str
    principal_id: str
    description: str | None = None
    account_ids: tuple[str, ...] | None = None
    environment: str | None = None
    previous_secret_until: datetime | None = None
    lanes: LaneCounts | None = None
    secret: str | None = None

    def __repr__(self) -> str:
        """Without the secret."""
        return f"Webhook(id={self.id!r}, url={self.url!r}, status={self.status!r}, version={self.version})"


class WebhookList(Record, frozen=True, kw_only=True):
    """Every webhook."""

    data: tuple[Webhook, ...]


class WebhookLane(Record, frozen=True, kw_only=True):
    """How far the log of one account has been sent."""

    account_id: str
    position: int
    newest_seq: int
    delivered: int
    failures: int
    next_attempt_at: datetime
    failing_since: datetime | None = None
    parked_at: datetime | None = None
    last_status: int | None = None
    last_error: str | None = None


class WebhookLanePage(Record, frozen=True, kw_only=True):
    """A page of lanes."""

    data: tuple[WebhookLane, ...]
    next_cursor: str | None = None


class WebhookTest(Record, frozen=True, kw_only=True):
    """What a target said to a test message, and how long that took; without an answer, why there was none."""

    message_id: str
    is_taken: bool
    duration_millis: int
    status: int | None = None
    error: str | None = None
    message: str | None = None


class LanesSet(Record, frozen=True, kw_only=True):
    """How many lanes something was about."""

    lanes: int


def create_webhook(url: str, types: Sequence[str], options: WebhookOptions) -> Request:
    """Make a webhook."""
    more = {name: value for name, value in options.items() if value is not None}
    return change("POST", _PATH, {"url": url, "types": list(types), **more})


def webhooks() -> Request:
    """Every webhook."""
    return Request("GET", _PATH)


def webhook(webhook_id: str) -> Request:
    """One webhook."""
    return Request("GET", _path(webhook_id))


def change_webhook(webhook_id: str, changes: WebhookChanges) -> Request:
    """Change a webhook."""
    body = {name: value for name, value in changes.items() if name != "if_version"}
    return if_match(change("PATCH", _path(webhook_id), body), changes.get("if_version"))


def delete_webhook(webhook_id: str) -> Request:
    """Remove a webhook."""
    return Request("DELETE", _path(webhook_id))


def rotate_webhook_secret(webhook_id: str) -> Request:
    """Replace a webhook's secret."""
    return Request("POST", f"{_path(webhook_id)}/rotate-secret")


def test_webhook(webhook_id: str) -> Request:
    """Send a test message now."""
    return Request("POST", f"{_path(webhook_id)}/test")


def webhook_lanes(webhook_id: str, parked: bool | None) -> Request:
    """The first page of a webhook's lanes."""
    request = page(f"{_path(webhook_id)}/lanes", None, PAGE_LIMIT)
    if parked is None:
        return request
    return replace(request, parameters={**request.parameters, "parked": str(parked).lower()})


def replay_webhook(webhook_id: str, after_seq: int, account_id: str | None) -> Request:
    """Go on after a number."""
    return change("POST", f"{_path(webhook_id)}/replay", {"after_seq": after_seq, **_of(account_id)})


def resume_webhook(webhook_id: str, account_id: str | None) -> Request:
    """Try again at once."""
    return change("POST", f"{_path(webhook_id)}/resume", _of(account_id))


def _of(account_id: str | None) -> dict[str, Any]:
    return {} if account_id is None else {"account_id": account_id}


def _path(webhook_id: str) -> str:
    return f"{_PATH}/{quote(webhook_id, safe='')}"
