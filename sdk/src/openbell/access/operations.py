"""Queues and organizations, for operators and sign-in services."""

from datetime import datetime

from openbell.models import Record


class OwnOrganization(Record, frozen=True, kw_only=True):
    """The caller's organization."""

    id: str
    name: str
    disabled: bool
    entitlements: tuple[str, ...]


class Me(Record, frozen=True, kw_only=True):
    """The owner of the credential, and the operations that it may use."""

    principal_type: str
    principal_id: str
    operations: tuple[str, ...]
    permissions: tuple[str, ...]
    own_orders_only: bool
    # Of a key that is limited to these accounts.
    account_ids: tuple[str, ...] | None = None
    organization: OwnOrganization | None = None
    role: str | None = None
    environment: str | None = None


class Outbox(Record, frozen=True, kw_only=True):
    """The state of one queue: a verdict and counts."""

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
    """The state of all queues; the verdict is the worst of theirs."""

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
    """The state of the queue of account changes."""

    entries: tuple[OutboxEntry, ...]
    pending: int
    processing: int
    failed: int
    completed: int
    oldest_claim_at: datetime | None = None
    oldest_failed_at: datetime | None = None
    oldest_pending_at: datetime | None = None


class Organization(Record, frozen=True, kw_only=True):
    """An organization; external_id is its id at the identity provider."""

    id: str
    external_id: str
    name: str
    provider: str
    disabled: bool
    created_at: datetime


class Health(Record, frozen=True, kw_only=True):
    """The API answers."""

    status: str
