"""Read what a halt came to: what passed before, what was skipped and cancelled, and the broker's word on the rest."""

from dataclasses import dataclass

from openbell_server.application.ports.halts import HaltReportStore
from openbell_server.application.ports.stores import AccountStore
from openbell_server.domain.authorization import Operation, admit_to_account
from openbell_server.domain.errors import Problem
from openbell_server.domain.halts import HaltReport
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.principals import Principal


@dataclass(frozen=True, slots=True)
class ReadHaltReport:
    """The halt report of an account, for whoever may read its controls."""

    accounts: AccountStore
    reports: HaltReportStore

    async def __call__(self, caller: Principal, account_id: AccountId) -> HaltReport:
        """As it stands now."""
        account = await self.accounts.find_account(caller.organization_id, account_id)
        if account is None:
            raise Problem("not_found", "there is no such account")
        admit_to_account(caller, Operation.READ_CONTROLS, account)
        return await self.reports.halt_report(caller.organization_id, account_id)
