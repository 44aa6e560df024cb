"""Read orders that the broker has and nobody asked for here, page by page."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from openbell_server.application.paging import bounded, cursors_of, start_of
from openbell_server.application.ports.stores import AccountStore
from openbell_server.application.read_intents import find_readable_account
from openbell_server.domain.external_orders import ExternalOrder
from openbell_server.domain.identifiers import AccountId, OrganizationId
from openbell_server.domain.principals import Principal

# Orders of an account in the order they were found, with their numbers, from the one after a number.
ListExternalOrders = Callable[[OrganizationId, AccountId, int, int], Awaitable[list[tuple[int, ExternalOrder]]]]


@dataclass(frozen=True, slots=True)
class ExternalOrderPage:
    """Orders in the order they were found; the cursors are as of every list."""

    orders: list[ExternalOrder]
    next_cursor: str | None
    last_cursor: str | None


@dataclass(frozen=True, slots=True)
class ReadExternalOrders:
    """The external orders of an account."""

    accounts: AccountStore
    list_after: ListExternalOrders
    cursor_key: bytes

    async def __call__(
        self, caller: Principal, account_id: AccountId, cursor: str | None, limit: int | None
    ) -> ExternalOrderPage:
        """A page of them, as they stand now."""
        await find_readable_account(self.accounts, caller, account_id)
        scope = f"external-orders {caller.organization_id} {account_id}"
        after, rows = start_of(self.cursor_key, scope, cursor), bounded(limit)
        found = await self.list_after(caller.organization_id, account_id, after, rows + 1)
        cursors = cursors_of(self.cursor_key, scope, cursor, [number for number, _ in found], rows)
        return ExternalOrderPage([order for _, order in found[:rows]], *cursors)
