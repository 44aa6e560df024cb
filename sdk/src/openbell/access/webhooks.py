"""Webhooks."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, TypedDict

from openbell.models import Record


class WebhookOptions(TypedDict, total=False):
    """Options of a new webhook; without account_ids it covers all accounts, also those opened later."""

    description: str | None
    account_ids: Sequence[str] | None


class WebhookChanges(TypedDict, total=False):
    """Fields to change; account_ids=None covers all accounts. With if_version only if it has that version."""

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
    """A webhook; the secret only in the reply that creates it, lanes only in `show`."""

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
        return f"Webhook(id={self.id!r}, url={self.url!r}, status={self.status!r}, version={self.version})"


class WebhookLane(Record, frozen=True, kw_only=True):
    """The delivery progress of one account: position is the number of the last delivered event."""

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


class WebhookAttempt(Record, frozen=True, kw_only=True):
    """A delivery that was tried: the target's answer, or the error if there was none, and when it is tried again."""

    account_id: str
    account_seq: int
    message_id: str
    attempted_at: datetime
    delivered: bool
    duration_millis: int
    status: int | None = None
    error: str | None = None
    message: str | None = None
    next_attempt_at: datetime | None = None


class WebhookTest(Record, frozen=True, kw_only=True):
    """The target's answer to a test message, or the error if there was none."""

    message_id: str
    delivered: bool
    duration_millis: int
    status: int | None = None
    error: str | None = None
    message: str | None = None


class LanesSet(Record, frozen=True, kw_only=True):
    """The number of lanes that were changed."""

    lanes: int
