"""Cache of accounts for the accept path.

Every change of an account starts a new epoch, and the accept step rejects a command that was evaluated in another
one. So a cached account may accept a command; before refusing one, read the account again.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from openbell_server.application.access.ports.account_records import AccountStore
from openbell_server.domain.access.accounts import TradingAccount
from openbell_server.domain.identifiers import AccountId, OrganizationId

ACCOUNTS_MAX: Final = 16_384


@dataclass(slots=True)
class RecentAccounts:
    """Keeps the ACCOUNTS_MAX accounts that were used last."""

    accounts: AccountStore
    # The database's clock.
    now: Callable[[], Awaitable[datetime]]
    _kept: OrderedDict[tuple[OrganizationId, AccountId], TradingAccount] = field(default_factory=OrderedDict)

    async def remember(self, organization_id: OrganizationId, account_id: AccountId) -> TradingAccount | None:
        """The cached account, read from the database only the first time."""
        kept = self._kept.get((organization_id, account_id))
        if kept is None:
            return await self.find_account(organization_id, account_id)
        self._kept.move_to_end((organization_id, account_id))
        return replace(kept, now=await self.now())

    async def find_account(self, organization_id: OrganizationId, account_id: AccountId) -> TradingAccount | None:
        """Read the account from the database and cache it."""
        account = await self.accounts.find_account(organization_id, account_id)
        if account is not None:
            self._kept[organization_id, account_id] = account
            self._kept.move_to_end((organization_id, account_id))
            if len(self._kept) > ACCOUNTS_MAX:
                self._kept.popitem(last=False)
        return account
