"""What operators and sign-in services ask: queues, the organization behind a login, and a user's own end."""

from datetime import datetime
from urllib.parse import quote

from openbell.models import Record
from openbell.requests import Request


class Outbox(Record, frozen=True, kw_only=True):
    """How one queue stands, in a word and in numbers."""

    name: str
    verdict: str
    explanation: str
    pending: int
    processing: int
    failed: int
    unacknowledged: int
    completed: int
    lag_seconds: float
    oldest_pending_at: datetime | None = None
    oldest_claim_at: datetime | None = None


class Outboxes(Record, frozen=True, kw_only=True):
    """How all queues stand; the verdict is the worst of theirs."""

    verdict: str
    read_at: datetime
    queues: tuple[Outbox, ...]


class OutboxEntry(Record, frozen=True, kw_only=True):
    """Rows of one status and event type."""

    status: str
    event_type: str
    count: int
    oldest_created_at: datetime
    max_attempts: int
    oldest_claimed_at: datetime | None = None


class OutboxHealth(Record, frozen=True, kw_only=True):
    """How the queue of account changes stands."""

    entries: tuple[OutboxEntry, ...]
    pending: int
    processing: int
    failed: int
    completed: int
    oldest_claim_at: datetime | None = None
    oldest_failed_at: datetime | None = None
    oldest_pending_at: datetime | None = None


class Organization(Record, frozen=True, kw_only=True):
    """An organization, and how its identity provider calls it."""

    id: str
    external_id: str
    name: str
    provider: str
    disabled: bool
    created_at: datetime


class Health(Record, frozen=True, kw_only=True):
    """That the API serves."""

    status: str


def outboxes() -> Request:
    """How the queues stand."""
    return Request("GET", "/v1/operations/outboxes")


def outbox_health() -> Request:
    """How the queue of account changes stands."""
    return Request("GET", "/v1/accounts/outbox/health")


def health() -> Request:
    """Whether the API serves."""
    return Request("GET", "/healthz")


def organization(provider: str, provider_id: str) -> Request:
    """The organization that an identity provider calls so."""
    return Request("GET", f"/v1/organizations/by-provider/{quote(provider, safe='')}/{quote(provider_id, safe='')}")


def delete_me() -> Request:
    """Remove the user who asks."""
    return Request("DELETE", "/v1/users/me")
