"""The accounts' logs in the database, and hints about new events."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.events.account_events import AccountEvent
from openbell_server.domain.identifiers import AccountId, OrganizationId


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Orders and positions after the event with the number head, in the format of events; read in one transaction."""

    head: int
    orders: Sequence[Mapping[str, Any]]
    external_orders: Sequence[Mapping[str, Any]]
    positions: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Followed:
    organization_disabled: bool
    account_ids: Sequence[AccountId]


class EventStore(Protocol):
    async def bounds(self, organization_id: OrganizationId, account_id: AccountId) -> tuple[int, int]:
        """The number of the newest deleted event, and of the newest event."""

    async def heads(self, organization_id: OrganizationId, account_ids: Sequence[AccountId]) -> dict[AccountId, int]:
        """The numbers of the newest events by account."""

    async def read_after(
        self, organization_id: OrganizationId, account_id: AccountId, after: int, limit: int
    ) -> list[AccountEvent]: ...

    async def first_since(
        self, organization_id: OrganizationId, account_id: AccountId, moment: datetime, head: int
    ) -> int:
        """The number of the first event at or after a moment, up to `head`; head + 1 if there is none."""

    async def snapshot(self, organization_id: OrganizationId, account_id: AccountId) -> Snapshot:
        """Open orders, external orders and positions."""


class Wakes(Protocol):
    """Hints that an account has new events; hints may be lost."""

    def listen(self, notify: Callable[[AccountId], None]) -> None:
        """Call notify for every hint from now on."""


class FollowedAccounts(Protocol):
    async def list_followed(
        self,
        organization_id: OrganizationId,
        environment: Environment | None,
        account_ids: Collection[AccountId] | None,
        limit: int,
    ) -> Followed | None:
        """Accounts of the environment and the ids (None: of all); returns None if there is no such organization."""
