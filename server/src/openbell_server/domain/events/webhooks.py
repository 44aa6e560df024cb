"""Webhooks: targets of an organization's events, their signing secrets, and the delivery position per account."""

import base64
import hashlib
import hmac
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.errors import InvalidCommand
from openbell_server.domain.events.account_events import EventKind
from openbell_server.domain.identifiers import AccountId, OrganizationId
from openbell_server.domain.names import check_reason

ACCOUNTS_MAX: Final = 1000
# Characters; shorter keys could be guessed.
KEY_LENGTH_MIN: Final = 32
SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - a prefix, not a secret
# How long a replaced secret still signs.
SECRET_OVERLAP: Final = timedelta(hours=24)


class WebhookStatus(StrEnum):
    """Whether events are sent."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    # The target answered 410 Gone; setting ACTIVE retries it.
    GONE = "GONE"


@dataclass(frozen=True, slots=True)
class WebhookSecret:
    """The signing key of deliveries; masked in text."""

    value: bytes = field(repr=False)

    @property
    def text(self) -> str:
        """As shown once to its owner."""
        return SECRET_PREFIX + base64.b64encode(self.value).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    id: UUID
    organization_id: OrganizationId
    url: str
    description: str | None
    kinds: frozenset[EventKind]
    # None: all accounts, also those created later.
    account_ids: frozenset[AccountId] | None
    # Only accounts of this environment; None: of both.
    environment: Environment | None
    status: WebhookStatus
    secret_version: int
    previous_secret_until: datetime | None
    version: int
    created_at: datetime
    updated_at: datetime
    # Who created it: a type and an id.
    principal: tuple[str, str]

    def secret_versions(self, now: datetime) -> tuple[int, ...]:
        """The versions that sign now, newest first."""
        if self.previous_secret_until is not None and now < self.previous_secret_until:
            return self.secret_version, self.secret_version - 1
        return (self.secret_version,)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewWebhook:
    """A new webhook; its URL is checked separately, by the operator's settings."""

    url: str
    description: str | None
    kinds: frozenset[EventKind]
    account_ids: frozenset[AccountId] | None
    environment: Environment | None

    def __post_init__(self) -> None:
        check_reason("description", self.description)
        check_kinds(self.kinds)
        check_accounts(self.account_ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookChange:
    """Changes to a webhook; None keeps a value."""

    url: str | None = None
    description: str | None = None
    kinds: frozenset[EventKind] | None = None
    account_ids: frozenset[AccountId] | None = None
    # Replaces the list of accounts by all accounts.
    every_account: bool = False
    status: WebhookStatus | None = None

    def __post_init__(self) -> None:
        check_reason("description", self.description)
        if self.kinds is not None:
            check_kinds(self.kinds)
        check_accounts(self.account_ids)

    def applied_to(self, webhook: Webhook) -> Webhook:
        """The webhook after the change, except for its version and times."""
        named = webhook.account_ids if self.account_ids is None else self.account_ids
        return replace(
            webhook,
            url=self.url or webhook.url,
            description=self.description or webhook.description,
            kinds=self.kinds or webhook.kinds,
            account_ids=None if self.every_account else named,
            status=self.status or webhook.status,
        )


@dataclass(frozen=True, slots=True)
class DeliveryQueueCounts:
    """How many delivery queues a webhook has, and how many are behind, failing or parked."""

    accounts: int
    behind: int
    failing: int
    parked: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryQueue:
    """The delivery position of one account's event log at one webhook."""

    account_id: AccountId
    # The number of the last event delivered, or skipped because its kind is not sent; and of the newest event.
    position: int
    newest: int
    # Consecutive failed attempts, and since when.
    failures: int
    failing_since: datetime | None
    next_attempt_at: datetime
    # Since when deliveries are paused until somebody resumes them.
    parked_at: datetime | None
    last_status: int | None
    last_error: str | None
    delivered: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryAttempt:
    """One message that was sent: the target's status, and the error if the message was not accepted."""

    account_id: AccountId
    # The number of the event, or of the last one that a gap covers.
    account_seq: int
    message_id: str
    attempted_at: datetime
    duration_millis: int
    status: int | None
    error: str | None
    message: str | None
    # None if it was delivered, or nothing is sent until somebody resumes it.
    next_attempt_at: datetime | None


def secret_of(key: bytes, organization_id: OrganizationId, webhook_id: UUID, version: int) -> WebhookSecret:
    """One version of a webhook's secret: derived from the operator's key and never stored."""
    derived_from = f"webhook|{organization_id}|{webhook_id}|{version}"
    return WebhookSecret(hmac.new(key, derived_from.encode(), hashlib.sha256).digest())


def check_kinds(kinds: Collection[EventKind]) -> None:
    if not kinds:
        raise InvalidCommand("types", "must name at least one type of event")


def check_accounts(account_ids: Collection[AccountId] | None) -> None:
    if account_ids is not None and not 1 <= len(account_ids) <= ACCOUNTS_MAX:
        raise InvalidCommand("account_ids", f"must name 1 to {ACCOUNTS_MAX} accounts, or be absent for all")
