"""Read the orders, executions and positions of an account."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from openbell_server.application.access.find_account import find_account
from openbell_server.application.access.ports.account_records import AccountStore
from openbell_server.application.intents.ports import (
    IntentStore,
    ListedExecution,
    ListedOrder,
    ListedPositions,
    ListedStatus,
    OrderFilter,
    OrderLists,
)
from openbell_server.application.intents.read_intents import NUMBERS_MAX, canonical_symbol
from openbell_server.application.paging import Page, bounded, page_of, start_of
from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.domain.access.accounts import TradingAccount
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.errors import Problem
from openbell_server.domain.events.cursors import seal
from openbell_server.domain.identifiers import AccountId, IntentId

# No index selects the executions of a symbol, so a page scans this many.
EXECUTIONS_MAX: Final = 1000
# A reply beyond this limit reports that it is incomplete.
POSITIONS_MAX: Final = 10_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# A cursor of executions holds a time in microseconds and how many executions of that time were shown.
_SAME_MOMENT_MAX: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionFilter:
    """Which executions are listed, by recording time: since is included, until excluded."""

    intent_id: IntentId | None = None
    symbol: str | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class ExecutionPage:
    """Executions in the order they were recorded; a page of one symbol may be short although more follow."""

    executions: list[ListedExecution]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class ReadOrders:
    accounts: AccountStore
    intents: IntentStore
    lists: OrderLists
    brokers: Mapping[str, BrokerDefinition]
    cursor_key: bytes

    async def page(
        self, caller: Principal, account_id: AccountId, cursor: str | None, limit: int | None, wanted: OrderFilter
    ) -> Page[ListedOrder]:
        """Orders that match a filter; a page may be short although more follow."""
        account = await find_account(self.accounts, caller, Operation.READ_INTENTS, account_id)
        if wanted.symbol is not None:
            wanted = replace(wanted, symbol=canonical_symbol(self.brokers, account, wanted.symbol))
        where, rows = (account.organization_id, account.id), bounded(limit)
        scope = self._scope("orders", account, wanted)
        after = start_of(self.cursor_key, scope, cursor)
        if wanted.status is ListedStatus.WORKING:
            found = await self.lists.list_working_orders(*where, wanted, after, rows + 1)
            return page_of(self.cursor_key, scope, cursor, rows, [(order.number, order) for order in found])
        there = await self.intents.numbers_between(*where, None, None)
        stop = min(there.stop, after + 1 + NUMBERS_MAX)
        found = await self.lists.list_orders(*where, wanted, range(after + 1, stop), rows + 1)
        is_full = len(found) > rows
        # The next page continues after the last number that was scanned.
        last = seal(self.cursor_key, scope, found[rows - 1].number if is_full else max(after, stop - 1))
        return Page(found[:rows], last if is_full or stop < there.stop else None, last)

    async def one(self, caller: Principal, account_id: AccountId, intent_id: IntentId) -> ListedOrder:
        account = await find_account(self.accounts, caller, Operation.READ_INTENTS, account_id)
        order = await self.lists.show_order(account.organization_id, account.id, intent_id)
        if order is None:
            raise Problem("not_found", "there is no such intent")
        return order

    async def executions(
        self, caller: Principal, account_id: AccountId, cursor: str | None, limit: int | None, wanted: ExecutionFilter
    ) -> ExecutionPage:
        account = await find_account(self.accounts, caller, Operation.READ_INTENTS, account_id)
        if wanted.symbol is not None:
            wanted = replace(wanted, symbol=canonical_symbol(self.brokers, account, wanted.symbol))
        rows, scope = bounded(limit), self._scope("executions", account, wanted)
        micros, skipped = divmod(start_of(self.cursor_key, scope, cursor), _SAME_MOMENT_MAX)
        since = _EPOCH + timedelta(microseconds=micros) if cursor is not None else wanted.since or _EPOCH
        looked_at = await self.lists.list_executions(
            account.organization_id,
            account.id,
            wanted.intent_id,
            since,
            skipped,
            wanted.until,
            rows + 1 if wanted.symbol is None else EXECUTIONS_MAX,
        )
        shown = [each for each in looked_at if wanted.symbol in (None, each.symbol)][:rows]
        is_full = len(shown) == rows
        last = shown[-1] if is_full else looked_at[-1] if looked_at else None
        is_last = last is looked_at[-1] if looked_at else True
        if is_last and (wanted.symbol is None or len(looked_at) < EXECUTIONS_MAX):
            return ExecutionPage(shown, None)
        assert last is not None
        before = skipped if last.recorded_at == since else 0
        at_once = looked_at[: looked_at.index(last) + 1]
        same = before + sum(each.recorded_at == last.recorded_at for each in at_once)
        number = (last.recorded_at - _EPOCH) // timedelta(microseconds=1) * _SAME_MOMENT_MAX + same
        return ExecutionPage(shown, seal(self.cursor_key, scope, number))

    async def positions(self, caller: Principal, account_id: AccountId) -> ListedPositions:
        """At most POSITIONS_MAX + 1 positions; the last one shows that there are more."""
        account = await find_account(self.accounts, caller, Operation.READ_INTENTS, account_id)
        return await self.lists.list_positions(account.organization_id, account.id, POSITIONS_MAX + 1)

    def _scope(self, name: str, account: TradingAccount, wanted: OrderFilter | ExecutionFilter) -> str:
        return f"{name} {account.organization_id} {account.id} {json.dumps(asdict(wanted), default=str)}"
