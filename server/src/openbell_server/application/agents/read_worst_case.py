"""Read what a key can still do at worst."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from openbell_server.application.access.ports.account_records import AccountRecords, AccountStore
from openbell_server.application.access.ports.api_key_records import ApiKeyRecords
from openbell_server.application.agents.ports import SpentStore
from openbell_server.application.controls.ports.rules import RuleBookStore
from openbell_server.domain.access.accounts import TRADING_LIVE, Environment, TradingAccount
from openbell_server.domain.access.api_keys import ACCOUNT_IDS_MAX, ApiKeyRecord
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.agents.worst_case import AccountFacts, WorstCase, day_rules, worst_case
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import AccountId

# Of a key of every account, so many are looked at.
ACCOUNTS_MAX: Final = ACCOUNT_IDS_MAX


@dataclass(frozen=True, slots=True)
class ReadWorstCase:
    keys: ApiKeyRecords
    records: AccountRecords
    accounts: AccountStore
    books: RuleBookStore
    spent: SpentStore
    clock: Callable[[], Awaitable[datetime]]

    async def __call__(self, admin: Principal, api_key_id: UUID) -> WorstCase:
        key = await self.keys.find(admin.organization_id, api_key_id)
        if key is None:
            raise Problem("not_found", "there is no such API key")
        account_ids = await self._accounts_of(admin, key)
        now = await self.clock()
        facts = [await self._facts(admin, key, each, now) for each in account_ids[:ACCOUNTS_MAX]]
        has_more = len(account_ids) > ACCOUNTS_MAX
        return worst_case(key, now, [each for each in facts if each is not None], has_more_accounts=has_more)

    async def _accounts_of(self, admin: Principal, key: ApiKeyRecord) -> Sequence[AccountId]:
        if key.account_ids is not None:
            return key.account_ids
        where = (admin.organization_id, key.environment, None)
        return [record.id for _, record in await self.records.list_after(*where, 0, ACCOUNTS_MAX + 1)]

    async def _facts(
        self, admin: Principal, key: ApiKeyRecord, account_id: AccountId, now: datetime
    ) -> AccountFacts | None:
        """None for an account that is closed, in which nobody ever trades again."""
        account = await self.accounts.find_account(admin.organization_id, account_id)
        if account is None or account.closed:
            return None
        book = await self.books.rule_book(account)
        return AccountFacts(
            account_id=account_id,
            book=book,
            closed_by=_closed_by(account),
            accepted=await self.spent.accepted(admin.organization_id, day_rules(key, book), now),
            losses=await self.spent.losses(admin.organization_id, account_id),
        )


def _closed_by(account: TradingAccount) -> str | None:
    if account.organization_disabled:
        return "the organization, which is disabled"
    if account.environment is Environment.LIVE and TRADING_LIVE not in account.entitlements:
        return f"the entitlement {TRADING_LIVE}, which the organization lacks"
    return "the account, which is disabled" if account.disabled else None
