"""Accept desk commands, and read how far they are."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from openbell_server.application.access.find_account import find_account
from openbell_server.application.access.ports.account_records import AccountStore
from openbell_server.application.controls.symbols import symbol_at
from openbell_server.application.desk.ports import DeskCommandStore, DeskOrder, NewDeskCommand
from openbell_server.application.paging import Page, bounded, page_of, start_of
from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.application.ports.hints import Hints
from openbell_server.application.ports.ids import Ids
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.orders.desk_commands import DeskCommand, DeskCommandType, DeskScope, OrderOutcome


@dataclass(frozen=True, slots=True)
class ManageDeskCommands:
    accounts: AccountStore
    store: DeskCommandStore
    brokers: Mapping[str, BrokerDefinition]
    ids: Ids
    hints: Hints
    cursor_key: bytes

    async def submit(
        self,
        caller: Principal,
        account_id: AccountId,
        read: Callable[[], Awaitable[DeskScope]],
        idempotency_key: str | None,
    ) -> tuple[DeskCommand, bool]:
        """Record the command; True if it was recorded before under the same key. Nothing disabled and no control stops
        it, because what it cancels must be cancellable at any time; the closing order is checked like any other.

        The scope that is read has the symbol as the caller spelled it.
        """
        account = await find_account(self.accounts, caller, Operation.SUBMIT_DESK_COMMAND, account_id)
        scope = await read()
        if scope.symbol is not None:
            scope = replace(scope, symbol=symbol_at(self.brokers, account, scope.symbol))
        (new_id,) = await self.ids.new_ids(1)
        command = NewDeskCommand(
            id=new_id,
            account_id=account_id,
            principal=caller,
            scope=_own_scope(caller, scope),
            idempotency_key=idempotency_key,
        )
        accepted, is_replay = await self.store.accept(command)
        self.hints.work_was_recorded(account_id)
        return accepted, is_replay

    async def find(
        self, caller: Principal, account_id: AccountId, desk_command_id: UUID
    ) -> tuple[DeskCommand, dict[OrderOutcome, int]]:
        command = await self._find(caller, account_id, desk_command_id)
        return command, await self.store.outcomes(caller.organization_id, account_id, command)

    async def page(
        self, caller: Principal, account_id: AccountId, cursor: str | None, limit: int | None
    ) -> Page[DeskCommand]:
        """The account's commands, the newest first."""
        await find_account(self.accounts, caller, Operation.READ_INTENTS, account_id)
        of = f"desk commands {caller.organization_id} {account_id}"
        before, rows = start_of(self.cursor_key, of, cursor), bounded(limit)
        found = await self.store.list_commands(caller.organization_id, account_id, before or None, rows + 1)
        return page_of(self.cursor_key, of, cursor, rows, found)

    async def orders(
        self, caller: Principal, account_id: AccountId, desk_command_id: UUID, cursor: str | None, limit: int | None
    ) -> Page[DeskOrder]:
        """The orders of a command, the oldest first."""
        command = await self._find(caller, account_id, desk_command_id)
        of = f"desk command orders {caller.organization_id} {account_id} {desk_command_id}"
        after, rows = start_of(self.cursor_key, of, cursor), bounded(limit)
        found = await self.store.list_orders(caller.organization_id, account_id, command, after, rows + 1)
        return page_of(self.cursor_key, of, cursor, rows, found)

    async def _find(self, caller: Principal, account_id: AccountId, desk_command_id: UUID) -> DeskCommand:
        await find_account(self.accounts, caller, Operation.READ_INTENTS, account_id)
        found = await self.store.find(caller.organization_id, account_id, desk_command_id)
        if found is None:
            raise Problem("not_found", "there is no such desk command")
        return found


def _own_scope(caller: Principal, scope: DeskScope) -> DeskScope:
    """For a key with own_orders_only, only its own orders; raises Problem if the command needs others."""
    if not caller.own_orders_only:
        return scope
    if scope.command_type is DeskCommandType.CLOSE_POSITION:
        detail = "the key has own_orders_only, and a position may come from orders of other callers"
        raise Problem("permission_denied", detail)
    if scope.api_key_id is not None and str(scope.api_key_id) != caller.id:
        raise Problem("permission_denied", "the key has own_orders_only, and api_key_id is another key")
    return replace(scope, api_key_id=UUID(caller.id))
