"""Read the balances of an account."""

from dataclasses import dataclass

from openbell_server.application.access.find_account import find_account
from openbell_server.application.access.ports.account_records import AccountStore
from openbell_server.application.money.ports import BalanceStore
from openbell_server.domain.access.accounts import TradingAccount
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.money.balances import StoredBalances


@dataclass(frozen=True, slots=True)
class ReadBalances:
    accounts: AccountStore
    store: BalanceStore

    async def __call__(self, caller: Principal, account_id: AccountId) -> tuple[TradingAccount, StoredBalances | None]:
        account = await find_account(self.accounts, caller, Operation.READ_INTENTS, account_id)
        return account, await self.store.read_balances(account.organization_id, account.id)
