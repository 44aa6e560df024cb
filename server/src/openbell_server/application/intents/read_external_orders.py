"""List orders at the broker that were not submitted through Openbell."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from openbell_server.application.access.find_account import find_account
from openbell_server.application.access.ports.account_records import AccountStore
from openbell_server.application.paging import Page, bounded, page_of, start_of
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.identifiers import AccountId, OrganizationId
from openbell_server.domain.orders.external_orders import ExternalOrder

# Orders of an account with their numbers, in the order they were found, beginning after a number.
ListExternalOrders = Callable[[OrganizationId, AccountId, int, int], Awaitable[list[tuple[int, ExternalOrder]]]]


@dataclass(frozen=True, slots=True)
class ReadExternalOrders:
    accounts: AccountStore
    list_after: ListExternalOrders
    cursor_key: bytes

    async def __call__(
        self, caller: Principal, account_id: AccountId, cursor: str | None, limit: int | None
    ) -> Page[ExternalOrder]:
        await find_account(self.accounts, caller, Operation.READ_INTENTS, account_id)
        scope = f"external-orders {caller.organization_id} {account_id}"
        after, rows = start_of(self.cursor_key, scope, cursor), bounded(limit)
        found = await self.list_after(caller.organization_id, account_id, after, rows + 1)
        return page_of(self.cursor_key, scope, cursor, rows, found)
