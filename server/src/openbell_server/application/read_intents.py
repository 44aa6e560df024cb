"""Read intents: one, its history, or an account's actions page by page."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Final

from openbell_server.application.paging import bounded, cursors_of, start_of
from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.application.ports.stores import (
    AccountStore,
    ActionFilter,
    Execution,
    IntentStore,
    RecordedAction,
)
from openbell_server.domain.accounts import TradingAccount
from openbell_server.domain.authorization import Operation, admit_to_account
from openbell_server.domain.cursors import seal
from openbell_server.domain.errors import InvalidParameter, Problem
from openbell_server.domain.identifiers import AccountId, IntentId, Symbol
from openbell_server.domain.intents import ActionType
from openbell_server.domain.principals import Principal

# Where no index leads to the wanted actions alone, a page looks for them among so many.
NUMBERS_MAX: Final = 10_000
EVERY_ACTION: Final = ActionFilter()


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
    brokers: Mapping[str, BrokerDefinition]
    cursor_key: bytes

    async def latest(
        self, caller: Principal, account_id: AccountId, intent_id: IntentId
    ) -> tuple[RecordedAction, Execution]:
        """The latest action of an intent and how its order stands."""
        await find_readable_account(self.accounts, caller, account_id)
        recorded = await self.intents.find_action(caller.organization_id, account_id, intent_id)
        execution = await self.intents.find_execution(caller.organization_id, account_id, intent_id)
        if recorded is None or execution is None:
            raise Problem("not_found", "there is no such intent")
        return recorded, execution

    async def page(
        self,
        caller: Principal,
        account_id: AccountId,
        cursor: str | None,
        limit: int | None,
        wanted: ActionFilter = EVERY_ACTION,
    ) -> Page:
        """Actions of an account, all or those that pass a filter; a page of some may be short before the last one."""
        account = await find_readable_account(self.accounts, caller, account_id)
        scope = f"intents {account.organization_id} {account.id}"
        rows = bounded(limit)
        if wanted == EVERY_ACTION:
            after = start_of(self.cursor_key, scope, cursor)
            found = await self.intents.list_actions(account.organization_id, account.id, after, rows + 1)
            return self._page(scope, cursor, found, rows, [recorded.action.number for recorded in found])
        wanted = self._canonical(account, wanted)
        scope += " " + json.dumps(asdict(wanted), default=str)
        return await self._page_of_some(account, scope, start_of(self.cursor_key, scope, cursor), rows, wanted)

    def _canonical(self, account: TradingAccount, wanted: ActionFilter) -> ActionFilter:
        if wanted.symbol is None:
            return wanted
        return replace(wanted, symbol=canonical_symbol(self.brokers, account, wanted.symbol))

    async def _page_of_some(
        self, account: TradingAccount, scope: str, after: int, rows: int, wanted: ActionFilter
    ) -> Page:
        where = (account.organization_id, account.id)
        there = await self.intents.numbers_between(*where, wanted.created_after, wanted.created_before)
        start = max(after + 1, there.start)
        stop = max(start, there.stop if _is_led_to(wanted) else min(there.stop, start + NUMBERS_MAX))
        found = await self.intents.list_some_actions(*where, wanted, range(start, stop), rows + 1)
        is_full = len(found) > rows
        # All numbers before this one were looked at, and none is looked at again.
        reached = found[rows - 1].action.number if is_full else stop - 1
        last = seal(self.cursor_key, scope, reached)
        return Page(found[:rows], last if is_full or stop < there.stop else None, last)

    async def history(
        self, caller: Principal, account_id: AccountId, intent_id: IntentId, cursor: str | None, limit: int | None
    ) -> Page:
        """Actions of an intent."""
        await find_readable_account(self.accounts, caller, account_id)
        scope = f"actions {caller.organization_id} {account_id} {intent_id}"
        after, rows = start_of(self.cursor_key, scope, cursor), bounded(limit)
        found = await self.intents.list_actions_of_intent(
            caller.organization_id, account_id, intent_id, after, rows + 1
        )
        if not found and after == 0:
            raise Problem("not_found", "there is no such intent")
        return self._page(scope, cursor, found, rows, [recorded.action.seq for recorded in found])

    def _page(self, scope: str, cursor: str | None, found: list[RecordedAction], rows: int, numbers: list[int]) -> Page:
        return Page(found[:rows], *cursors_of(self.cursor_key, scope, cursor, numbers, rows))


async def find_readable_account(accounts: AccountStore, caller: Principal, account_id: AccountId) -> TradingAccount:
    """The account, if the caller may read its intents."""
    account = await accounts.find_account(caller.organization_id, account_id)
    if account is None:
        raise Problem("not_found", "there is no such account")
    admit_to_account(caller, Operation.READ_INTENTS, account)
    return account


def canonical_symbol(brokers: Mapping[str, BrokerDefinition], account: TradingAccount, asked: str) -> Symbol:
    """A symbol that a list is asked for, in the one spelling that the account's broker has for it."""
    symbol = brokers[account.broker].canonical_symbol(asked)
    if symbol is None:
        raise InvalidParameter("symbol", "must be 1 to 32 of A-Z, 0-9 and . - / : _")
    return symbol


def _is_led_to(wanted: ActionFilter) -> bool:
    """Whether an index leads to the wanted actions alone: those of one symbol or reference, replaces or cancels."""
    asked = [name for name, value in asdict(wanted).items() if value is not None]
    return asked in (["symbol"], ["client_reference_id"]) or (
        asked == ["action_type"] and wanted.action_type is not ActionType.CREATE
    )
