"""Accounts as they were read last, for whoever has them compared before anything is written.

Every change of what is known here begins a new epoch, and the accept step writes nothing that was judged in another.
So a command may be judged by what is remembered; a refusal may not, and the account is read again for it.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from openbell_server.application.ports.stores import AccountStore
from openbell_server.domain.accounts import TradingAccount
from openbell_server.domain.identifiers import AccountId, OrganizationId

ACCOUNTS_MAX: Final = 16_384


@dataclass(slots=True)
class RecentAccounts:
    """The accounts that were asked about last."""

    accounts: AccountStore
    # The database's clock.
    now: Callable[[], Awaitable[datetime]]
    _kept: OrderedDict[tuple[OrganizationId, AccountId], TradingAccount] = field(default_factory=OrderedDict)

    async def remember(self, organization_id: OrganizationId, account_id: AccountId) -> TradingAccount | None:
        """The account as it was last read; read now if it never was."""
        kept = self._kept.get((organization_id, account_id))
        if kept is None:
            return await self.find_account(organization_id, account_id)
        self._kept.move_to_end((organization_id, account_id))
        return replace(kept, now=await self.now())

    async def find_account(self, organization_id: OrganizationId, account_id: AccountId) -> TradingAccount | None:
        """The account as it is, if it is the organization's."""
        account = await self.accounts.find_account(organization_id, account_id)
        if account is not None:
            self._kept[organization_id, account_id] = account
            self._kept.move_to_end((organization_id, account_id))
            if len(self._kept) > ACCOUNTS_MAX:
                self._kept.popitem(last=False)
        return account
