"""Read the report of a halt: what was sent before it, what it skipped and cancelled, and what the broker confirmed."""

from dataclasses import dataclass

from openbell_server.application.access.find_account import find_account
from openbell_server.application.access.ports.account_records import AccountStore
from openbell_server.application.controls.ports.halts import HaltReportStore
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.controls.halts import HaltReport
from openbell_server.domain.identifiers import AccountId


@dataclass(frozen=True, slots=True)
class ReadHaltReport:
    accounts: AccountStore
    reports: HaltReportStore

    async def __call__(self, caller: Principal, account_id: AccountId) -> HaltReport:
        await find_account(self.accounts, caller, Operation.READ_CONTROLS, account_id)
        return await self.reports.halt_report(caller.organization_id, account_id)
