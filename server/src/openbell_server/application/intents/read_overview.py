"""Read what is going on in every account of an organization."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from openbell_server.application.access.find_account import require_organization
from openbell_server.application.access.ports.account_records import AccountRecords
from openbell_server.application.paging import Page, bounded, page_of, start_of
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.controls.rules import SwitchState
from openbell_server.domain.identifiers import AccountId, OrganizationId


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountOverview:
    """Counts of an account; a count that reached its bound may be higher."""

    account_id: AccountId
    name: str
    environment: Environment
    disabled: bool
    # Why the platform halted the account; None if it did not.
    halt_code: str | None
    # The stricter one of the account's switch and the organization's.
    switch: SwitchState
    open_orders: int
    unknown_orders: int
    executions_last_minute: int
    # Since when its oldest command waits to be sent.
    oldest_queued_at: datetime | None


class ListOverviews(Protocol):
    async def __call__(
        self,
        organization_id: OrganizationId,
        environment: Environment | None,
        account_ids: Collection[AccountId] | None,
        after: int,
        limit: int,
    ) -> list[tuple[int, AccountOverview]]:
        """Accounts that are not closed with their numbers, in the order of these, beginning after one."""


@dataclass(frozen=True, slots=True)
class ReadOverview:
    records: AccountRecords
    list_after: ListOverviews
    cursor_key: bytes

    async def __call__(self, caller: Principal, cursor: str | None, limit: int | None) -> Page[AccountOverview]:
        scope = f"overview {caller.organization_id} {caller.environment}"
        after, rows = start_of(self.cursor_key, scope, cursor), bounded(limit)
        await require_organization(self.records, caller)
        visible = caller.environment, caller.account_ids
        found = await self.list_after(caller.organization_id, *visible, after, rows + 1)
        return page_of(self.cursor_key, scope, cursor, rows, found)
