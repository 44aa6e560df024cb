"""Read the reports of an account's halts: what was in flight, skipped and cancelled, and what the broker confirmed."""

from dataclasses import dataclass

from openbell_server.application.access.find_account import find_account
from openbell_server.application.access.ports.account_records import AccountStore
from openbell_server.application.controls.ports.halts import HaltReportStore
from openbell_server.application.paging import Page, bounded, page_of, start_of
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.controls.halts import HaltReport
from openbell_server.domain.identifiers import AccountId


@dataclass(frozen=True, slots=True)
class ReadHaltReports:
    accounts: AccountStore
    reports: HaltReportStore
    cursor_key: bytes

    async def __call__(
        self, caller: Principal, account_id: AccountId, cursor: str | None, limit: int | None
    ) -> Page[HaltReport]:
        """Every halt, the newest first."""
        await find_account(self.accounts, caller, Operation.READ_CONTROLS, account_id)
        of = f"halt reports {caller.organization_id} {account_id}"
        before, rows = start_of(self.cursor_key, of, cursor), bounded(limit)
        found = await self.reports.list_reports(caller.organization_id, account_id, before or None, rows + 1)
        return page_of(self.cursor_key, of, cursor, rows, found)
