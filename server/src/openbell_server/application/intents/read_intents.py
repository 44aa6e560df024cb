"""Read an intent, its history, or the actions of an account."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Final

from openbell_server.application.access.find_account import find_account
from openbell_server.application.access.ports.account_records import AccountStore
from openbell_server.application.intents.ports import ActionFilter, Execution, IntentStore, RecordedAction
from openbell_server.application.paging import Page, bounded, page_of, scan, start_of
from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.domain.access.accounts import TradingAccount
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.errors import InvalidParameter, Problem
from openbell_server.domain.events.cursors import seal
from openbell_server.domain.identifiers import AccountId, IntentId, Symbol
from openbell_server.domain.orders.intents import ActionType

# Where no index selects the wanted actions, a page scans this many.
NUMBERS_MAX: Final = 10_000
WRONG_SYMBOL: Final = "must be 1 to 32 of A-Z, 0-9 and . - / : _"
EVERY_ACTION: Final = ActionFilter()


@dataclass(frozen=True, slots=True)
class ReadIntents:
    accounts: AccountStore
    intents: IntentStore
    brokers: Mapping[str, BrokerDefinition]
    cursor_key: bytes

    async def latest(
        self, caller: Principal, account_id: AccountId, intent_id: IntentId
    ) -> tuple[RecordedAction, Execution]:
        await find_account(self.accounts, caller, Operation.READ_INTENTS, account_id)
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
    ) -> Page[RecordedAction]:
        """Actions of an account that match a filter; a filtered page may be short although more follow."""
        account = await find_account(self.accounts, caller, Operation.READ_INTENTS, account_id)
        scope = f"intents {account.organization_id} {account.id}"
        rows = bounded(limit)
        if wanted == EVERY_ACTION:
            after = start_of(self.cursor_key, scope, cursor)
            found = await self.intents.list_actions(account.organization_id, account.id, after, rows + 1)
            return page_of(self.cursor_key, scope, cursor, rows, [(each.action.number, each) for each in found])
        wanted = self._canonical(account, wanted)
        scope += " " + json.dumps(asdict(wanted), default=str)
        return await self._page_of_some(account, scope, start_of(self.cursor_key, scope, cursor), rows, wanted)

    def _canonical(self, account: TradingAccount, wanted: ActionFilter) -> ActionFilter:
        if wanted.symbol is None:
            return wanted
        return replace(wanted, symbol=canonical_symbol(self.brokers, account, wanted.symbol))

    async def _page_of_some(
        self, account: TradingAccount, scope: str, after: int, rows: int, wanted: ActionFilter
    ) -> Page[RecordedAction]:
        where = (account.organization_id, account.id)
        there = await self.intents.numbers_between(*where, wanted.since, wanted.until)
        scanned = scan(there, after, there.stop if _is_led_to(wanted) else NUMBERS_MAX, wanted.order)
        found = await self.intents.list_some_actions(*where, wanted, scanned.numbers, rows + 1)
        is_full = len(found) > rows
        last = seal(self.cursor_key, scope, found[rows - 1].action.number if is_full else scanned.reached)
        return Page(found[:rows], last if is_full or not scanned.is_all else None, last)

    async def history(
        self, caller: Principal, account_id: AccountId, intent_id: IntentId, cursor: str | None, limit: int | None
    ) -> Page[RecordedAction]:
        await find_account(self.accounts, caller, Operation.READ_INTENTS, account_id)
        scope = f"actions {caller.organization_id} {account_id} {intent_id}"
        after, rows = start_of(self.cursor_key, scope, cursor), bounded(limit)
        found = await self.intents.list_actions_of_intent(
            caller.organization_id, account_id, intent_id, after, rows + 1
        )
        if not found and after == 0:
            raise Problem("not_found", "there is no such intent")
        return page_of(self.cursor_key, scope, cursor, rows, [(each.action.seq, each) for each in found])


def canonical_symbol(brokers: Mapping[str, BrokerDefinition], account: TradingAccount, asked: str) -> Symbol:
    """The symbol as the account's broker spells it; raises InvalidParameter if it is not one."""
    symbol = brokers[account.broker].canonical_symbol(asked)
    if symbol is None:
        raise InvalidParameter("symbol", WRONG_SYMBOL)
    return symbol


def _is_led_to(wanted: ActionFilter) -> bool:
    """Whether an index selects the wanted actions: those of one symbol or reference, replaces or cancels."""
    asked = [name for name, value in asdict(wanted).items() if value is not None and name != "order"]
    return asked in (["symbol"], ["client_reference_id"]) or (
        asked == ["action_type"] and wanted.action_type is not ActionType.CREATE
    )
