"""Read the statistics of an account's intents."""

from dataclasses import dataclass

from openbell_server.application.access.find_account import find_account
from openbell_server.application.access.ports.account_records import AccountStore
from openbell_server.application.intents.ports import StatisticsStore
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.orders.intent_statistics import IntentStatistics, TimeWindow


@dataclass(frozen=True, slots=True)
class ReadStatistics:
    accounts: AccountStore
    statistics: StatisticsStore

    async def __call__(self, caller: Principal, account_id: AccountId, window: TimeWindow) -> IntentStatistics:
        account = await find_account(self.accounts, caller, Operation.READ_INTENTS, account_id)
        return await self.statistics.count_intents(account.organization_id, account.id, window)
