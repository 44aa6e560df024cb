"""Save the books of accounts now and then, so that there are never many trades to add when they are read."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from openbell_server.application.money.ports import BooksBehind, BookStore
from openbell_server.application.money.read_books import ReadBooks
from openbell_server.domain.identifiers import AccountId, OrganizationId

# How often accounts are looked for, and which are due.
BOOKS_SECONDS: Final = 5.0
EVENTS_BEHIND: Final = 500
SECONDS_BEHIND: Final = 60.0
ACCOUNTS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class SaveBooks:
    store: BookStore
    behind: BooksBehind
    events_behind: int = EVENTS_BEHIND
    seconds_behind: float = SECONDS_BEHIND

    async def __call__(self, slots: Collection[int]) -> bool:
        """Save the books of accounts that are due; True if some of it is left for the next call."""
        accounts = await self.behind.accounts_behind_across_organizations(
            slots, self.events_behind, self.seconds_behind, ACCOUNTS_MAX
        )
        is_more = len(accounts) == ACCOUNTS_MAX
        for organization_id, account_id in accounts:
            is_more |= await self._save(organization_id, account_id)
        return is_more

    async def _save(self, organization_id: OrganizationId, account_id: AccountId) -> bool:
        current = await ReadBooks(self.store).first(organization_id, account_id)
        await self.store.save_books(organization_id, account_id, current.read, current.books, current.news)
        return current.read.is_more
