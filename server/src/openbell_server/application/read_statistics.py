"""Read the statistics of an account's intents."""

from dataclasses import dataclass

from openbell_server.application.ports.stores import AccountStore, StatisticsStore
from openbell_server.application.read_intents import find_readable_account
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.intent_statistics import IntentStatistics, TimeWindow
from openbell_server.domain.principals import Principal


@dataclass(frozen=True, slots=True)
class ReadStatistics:
    """Counts, from roll-ups."""

    accounts: AccountStore
    statistics: StatisticsStore

    async def __call__(self, caller: Principal, account_id: AccountId, window: TimeWindow) -> IntentStatistics:
        """What was asked of the account in a window, and what came of it."""
        account = await find_readable_account(self.accounts, caller, account_id)
        return await self.statistics.count_intents(account.organization_id, account.id, window)
