"""Webhooks: where an organization has events sent, the secrets that sign them, and how far each account has come."""

import base64
import hashlib
import hmac
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from openbell_server.domain.account_events import EventKind
from openbell_server.domain.accounts import Environment
from openbell_server.domain.errors import InvalidCommand
from openbell_server.domain.identifiers import AccountId, OrganizationId
from openbell_server.domain.names import check_reason

WEBHOOKS_MAX: Final = 20
ACCOUNTS_MAX: Final = 1000
# Shorter keys could be guessed.
KEY_LENGTH_MIN: Final = 32
SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - only says what follows
# For so long a secret that was replaced signs along.
SECRET_OVERLAP: Final = timedelta(hours=24)
# A lane that failed for so long is parked.
PARKED_AFTER: Final = timedelta(hours=24)


class WebhookStatus(StrEnum):
    """Whether anything is sent."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    # Its target said that nobody is there any more; to make it ACTIVE again is to try again.
    GONE = "GONE"


@dataclass(frozen=True, slots=True)
class WebhookSecret:
    """What deliveries are signed with; it does not show itself."""

    value: bytes = field(repr=False)

    @property
    def text(self) -> str:
        """As its owner is told it, once."""
        return SECRET_PREFIX + base64.b64encode(self.value).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """A webhook as it is stored."""

    id: UUID
    organization_id: OrganizationId
    url: str
    description: str | None
    kinds: frozenset[EventKind]
    # None: all, those created later too.
    account_ids: frozenset[AccountId] | None
    # Only accounts of this one; None: of both.
    environment: Environment | None
    status: WebhookStatus
    secret_version: int
    previous_secret_until: datetime | None
    version: int
    created_at: datetime
    updated_at: datetime
    # Who made it: a type and an id.
    principal: tuple[str, str]

    def secret_versions(self, now: datetime) -> tuple[int, ...]:
        """Of those that sign now, the newest first."""
        if self.previous_secret_until is not None and now < self.previous_secret_until:
            return self.secret_version, self.secret_version - 1
        return (self.secret_version,)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewWebhook:
    """A webhook that somebody asks for."""

    url: str
    description: str | None
    kinds: frozenset[EventKind]
    account_ids: frozenset[AccountId] | None
    environment: Environment | None

    def __post_init__(self) -> None:
        """Refuse what no webhook may have; its address is checked apart, by what the operator allows."""
        check_reason("description", self.description)
        check_kinds(self.kinds)
        check_accounts(self.account_ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookChange:
    """What shall become of a webhook; None leaves it as it is."""

    url: str | None = None
    description: str | None = None
    kinds: frozenset[EventKind] | None = None
    account_ids: frozenset[AccountId] | None = None
    # Accounts are no longer named: it is about all.
    every_account: bool = False
    status: WebhookStatus | None = None

    def __post_init__(self) -> None:
        """Refuse what no webhook may have."""
        check_reason("description", self.description)
        if self.kinds is not None:
            check_kinds(self.kinds)
        check_accounts(self.account_ids)

    def applied_to(self, webhook: Webhook) -> Webhook:
        """The webhook after the change, but for its version and times."""
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
class LaneCounts:
    """How a webhook's lanes stand: how many there are, and how many are behind, failing or parked."""

    accounts: int
    behind: int
    failing: int
    parked: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """How far the log of one account has been sent to one webhook."""

    account_id: AccountId
    # The number of the last event that was delivered, or passed because its kind is not sent; and of the newest event.
    position: int
    newest: int
    # Tries in a row that failed, and since when.
    failures: int
    failing_since: datetime | None
    next_attempt_at: datetime
    # Since when nothing is tried until somebody asks for it.
    parked_at: datetime | None
    last_status: int | None
    last_error: str | None
    delivered: int


def secret_of(key: bytes, organization_id: OrganizationId, webhook_id: UUID, version: int) -> WebhookSecret:
    """One version of a webhook's secret: nobody stores it, whoever has the operator's key can tell it again."""
    told = f"webhook|{organization_id}|{webhook_id}|{version}"
    return WebhookSecret(hmac.new(key, told.encode(), hashlib.sha256).digest())


def check_kinds(kinds: Collection[EventKind]) -> None:
    """Refuse a webhook that would send nothing."""
    if not kinds:
        raise InvalidCommand("types", "must name at least one type of event")


def check_accounts(account_ids: Collection[AccountId] | None) -> None:
    """Refuse a list of none, or of too many."""
    if account_ids is not None and not 1 <= len(account_ids) <= ACCOUNTS_MAX:
        raise InvalidCommand("account_ids", f"must name 1 to {ACCOUNTS_MAX} accounts, or be absent for all")
