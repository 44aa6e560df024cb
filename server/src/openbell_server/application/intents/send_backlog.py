"""Limits how many accepted commands wait for an executor.

Accepting and executing share the machine and the accounts' locks. Without this limit a platform that is offered more
than it can execute would go on accepting, executors would slow down, and every order would be sent later than the one
before. The organizations share the limit equally: while it is reached, those with less than their share are accepted.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from openbell_server.domain.identifiers import AccountId, OrganizationId

LOOK_SECONDS: Final = 0.25
# After fewer questions since the last look, the backlog is not looked at again. A command asks up to twice: for its
# account before anything is looked up, and for its organization.
LOOK_AFTER: Final = 512
# Enough to keep every executor busy until the next look.
BACKLOG_MAX: Final = 2000
# A result that is older is not used: the looks after it have no result.
VALID_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class WaitingCommands:
    """Commands of an account that were accepted lately and that no executor has taken up."""

    organization_id: OrganizationId
    account_id: AccountId
    commands: int


@dataclass(slots=True)
class SendBacklog:
    count: Callable[[], Awaitable[Sequence[WaitingCommands]]]
    # Errors after which the backlog is not known; then no command is refused for it.
    unavailable: tuple[type[Exception], ...]
    monotonic: Callable[[], float]
    # Organizations, and their accounts with waiting commands.
    _refused: frozenset[UUID] = frozenset()
    _asked: int = 0
    _looked_at: float = float("-inf")
    _looking: asyncio.Task[None] | None = None

    def refuses(self, asking: OrganizationId | AccountId) -> bool:
        """Whether the next command must be refused, by the last look."""
        self._asked += 1
        age = self.monotonic() - self._looked_at
        if age >= LOOK_SECONDS and self._looking is None and (self._refused or self._asked >= LOOK_AFTER):
            self._asked = 0
            self._looking = asyncio.ensure_future(self._look())
        return asking in self._refused and age < VALID_SECONDS

    async def _look(self) -> None:
        try:
            self._refused = refused_at(await self.count())
        except self.unavailable:
            self._refused = frozenset()
        finally:
            self._looked_at = self.monotonic()
            self._looking = None


def refused_at(waiting: Sequence[WaitingCommands]) -> frozenset[UUID]:
    """The organizations that have their share of a full backlog or more, and their accounts."""
    of_organizations: Counter[OrganizationId] = Counter()
    for each in waiting:
        of_organizations[each.organization_id] += each.commands
    if of_organizations.total() < BACKLOG_MAX:
        return frozenset()
    share = BACKLOG_MAX // len(of_organizations)
    full = {organization for organization, commands in of_organizations.items() if commands >= share}
    return frozenset(full) | {each.account_id for each in waiting if each.organization_id in full}
