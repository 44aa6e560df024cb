"""Read intents: one, its history, or an account's actions page by page."""

from dataclasses import dataclass

from openbell_server.application.paging import bounded, cursors_of, start_of
from openbell_server.application.ports.stores import AccountStore, Execution, IntentStore, RecordedAction
from openbell_server.domain.authorization import Operation, admit_to_account
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import AccountId, IntentId
from openbell_server.domain.principals import Principal


@dataclass(frozen=True, slots=True)
class Page:
    """Actions in commit order; next_cursor is absent on the last page, last_cursor goes on from the last one here."""

    actions: list[RecordedAction]
    next_cursor: str | None
    last_cursor: str | None


@dataclass(frozen=True, slots=True)
class ReadIntents:
    """The read path."""

    accounts: AccountStore
    intents: IntentStore
    cursor_key: bytes

    async def latest(
        self, caller: Principal, account_id: AccountId, intent_id: IntentId
    ) -> tuple[RecordedAction, Execution]:
        """The latest action of an intent and how its order stands."""
        await self._enter(caller, account_id)
        recorded = await self.intents.find_action(caller.organization_id, account_id, intent_id)
        execution = await self.intents.find_execution(caller.organization_id, account_id, intent_id)
        if recorded is None or execution is None:
            raise Problem("not_found", "there is no such intent")
        return recorded, execution

    async def page(self, caller: Principal, account_id: AccountId, cursor: str | None, limit: int | None) -> Page:
        """Actions of an account."""
        await self._enter(caller, account_id)
        scope = f"intents {caller.organization_id} {account_id}"
        after, rows = start_of(self.cursor_key, scope, cursor), bounded(limit)
        found = await self.intents.list_actions(caller.organization_id, account_id, after, rows + 1)
        return self._page(scope, cursor, found, rows, [recorded.action.number for recorded in found])

    async def history(
        self, caller: Principal, account_id: AccountId, intent_id: IntentId, cursor: str | None, limit: int | None
    ) -> Page:
        """Actions of an intent."""
        await self._enter(caller, account_id)
        scope = f"actions {caller.organization_id} {account_id} {intent_id}"
        after, rows = start_of(self.cursor_key, scope, cursor), bounded(limit)
        found = await self.intents.list_actions_of_intent(
            caller.organization_id, account_id, intent_id, after, rows + 1
        )
        if not found and after == 0:
            raise Problem("not_found", "there is no such intent")
        return self._page(scope, cursor, found, rows, [recorded.action.seq for recorded in found])

    async def _enter(self, caller: Principal, account_id: AccountId) -> None:
        account = await self.accounts.find_account(caller.organization_id, account_id)
        if account is None:
            raise Problem("not_found", "there is no such account")
        admit_to_account(caller, Operation.READ_INTENTS, account)

    def _page(self, scope: str, cursor: str | None, found: list[RecordedAction], rows: int, numbers: list[int]) -> Page:
        return Page(found[:rows], *cursors_of(self.cursor_key, scope, cursor, numbers, rows))
