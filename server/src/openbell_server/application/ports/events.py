"""What followers of the accounts' logs need."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from openbell_server.domain.account_events import AccountEvent
from openbell_server.domain.accounts import Environment
from openbell_server.domain.identifiers import AccountId, OrganizationId


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What stands after the event with the number head, in the words of the event stream; all of one moment."""

    head: int
    orders: Sequence[Mapping[str, Any]]
    external_orders: Sequence[Mapping[str, Any]]
    positions: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Followed:
    """An organization, as one who follows all of its accounts needs it."""

    organization_disabled: bool
    account_ids: Sequence[AccountId]


class EventStore(Protocol):
    """The logs, as a follower needs them."""

    async def bounds(self, organization_id: OrganizationId, account_id: AccountId) -> tuple[int, int]:
        """The number up to which events are no longer kept, and that of the newest one."""

    async def heads(self, organization_id: OrganizationId, account_ids: Sequence[AccountId]) -> dict[AccountId, int]:
        """The numbers of the newest events of accounts."""

    async def read_after(
        self, organization_id: OrganizationId, account_id: AccountId, after: int, limit: int
    ) -> list[AccountEvent]:
        """The next events."""

    async def snapshot(self, organization_id: OrganizationId, account_id: AccountId) -> Snapshot:
        """What stands now: orders that are not closed, those that are not ours, and what is held."""


class Wakes(Protocol):
    """Hints that an account has new events; any of them may be lost."""

    def listen(self, hear: Callable[[AccountId], None]) -> None:
        """Call for every hint from now on."""


class FollowedAccounts(Protocol):
    """Accounts of an organization, as one who follows all of them needs them."""

    async def list_followed(
        self, organization_id: OrganizationId, environment: Environment | None, limit: int
    ) -> Followed | None:
        """Accounts of an environment, or of all; None if there is no such organization."""
