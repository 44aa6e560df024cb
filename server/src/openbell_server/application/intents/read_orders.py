"""Read orders, executions and changes of positions."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from openbell_server.application.access.find_account import find_account, require_organization
from openbell_server.application.access.ports.account_records import AccountRecords, AccountStore
from openbell_server.application.intents.ports import (
    ExecutionFilter,
    ListedExecution,
    ListedOrder,
    OrderFilter,
    OrderLists,
    OrderSearch,
    PositionChange,
)
from openbell_server.application.intents.read_intents import NUMBERS_MAX, WRONG_SYMBOL
from openbell_server.application.paging import ListOrder, Page, bounded, page_of, start_of
from openbell_server.application.ports.broker import BrokerDefinition, spellings
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.errors import InvalidParameter
from openbell_server.domain.events.cursors import seal
from openbell_server.domain.identifiers import AccountId, IntentId, Symbol

# No index selects the executions of a symbol, so a page scans this many.
EXECUTIONS_MAX: Final = 1000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FAR_FUTURE: Final = datetime(9999, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_LAST_ID: Final = 2**128 - 1
_LAST_NUMBER: Final = 2**63 - 1
# A cursor of executions holds a time in microseconds and how many executions of that time were shown.
_SAME_MOMENT_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class ExecutionPage:
    """Executions in the order they were recorded; a page of one symbol may be short although more follow."""

    executions: list[ListedExecution]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class ReadOrders:
    accounts: AccountStore
    records: AccountRecords
    lists: OrderLists
    brokers: Mapping[str, BrokerDefinition]
    cursor_key: bytes

    async def page(
        self, caller: Principal, cursor: str | None, limit: int | None, wanted: OrderFilter
    ) -> Page[ListedOrder]:
        """Orders that match a filter; a page may be short although more follow."""
        rows, scope = bounded(limit), self._scope("orders", caller, wanted)
        beyond = start_of(self.cursor_key, scope, cursor)
        if cursor is None and wanted.intent_id is not None:
            next_to = wanted.intent_id.int + (1 if wanted.order is ListOrder.NEWEST_FIRST else -1)
            beyond = min(max(next_to, 0), _LAST_ID)
        elif cursor is None and wanted.order is ListOrder.NEWEST_FIRST:
            beyond = _LAST_ID
        search = OrderSearch(
            wanted=wanted,
            beyond=IntentId(UUID(int=beyond)),
            symbols=await self._admit(caller, wanted),
            environment=caller.environment,
            account_ids=caller.account_ids,
            looked_at_max=NUMBERS_MAX if wanted.intent_id is None else 1,
        )
        found = await self.lists.list_orders(caller.organization_id, search, rows + 1)
        if wanted.intent_id is not None:
            return Page([order for order in found if order.intent_id == wanted.intent_id], None, None)
        if len(found) > rows:
            reached: IntentId | None = found[rows - 1].intent_id
        else:
            # The next page continues after the last intent that was looked at.
            reached = await self.lists.last_looked_at(caller.organization_id, search)
        following = None if reached is None else seal(self.cursor_key, scope, reached.int)
        last = seal(self.cursor_key, scope, found[-1].intent_id.int) if found else cursor
        return Page(found[:rows], following, following or last)

    async def executions(
        self, caller: Principal, cursor: str | None, limit: int | None, wanted: ExecutionFilter
    ) -> ExecutionPage:
        symbols, is_newest_first = await self._admit(caller, wanted), wanted.order is ListOrder.NEWEST_FIRST
        rows, scope = bounded(limit), self._scope("executions", caller, wanted)
        micros, skipped = divmod(start_of(self.cursor_key, scope, cursor), _SAME_MOMENT_MAX)
        since, until = wanted.since or _EPOCH, (wanted.until or _FAR_FUTURE) - _MICROSECOND
        if cursor is not None and is_newest_first:
            until = _EPOCH + micros * _MICROSECOND
        elif cursor is not None:
            since = _EPOCH + micros * _MICROSECOND
        # An account that the caller may use is of its environment.
        environment = caller.environment if wanted.account_id is None else None
        looked_at_max = rows + 1 if symbols is None and environment is None else EXECUTIONS_MAX
        looked_at = await self.lists.list_executions(
            caller.organization_id, wanted, since, until, skipped, looked_at_max
        )
        shown = [
            each
            for each in looked_at
            if (symbols is None or each.symbol in symbols)
            and environment in (None, each.environment)
            and (caller.account_ids is None or each.account_id in caller.account_ids)
            and wanted.account_id in (None, each.account_id)
        ][:rows]
        is_full = len(shown) == rows
        last = shown[-1] if is_full else looked_at[-1] if looked_at else None
        is_last = last is looked_at[-1] if looked_at else True
        if last is None or (is_last and len(looked_at) < looked_at_max):
            return ExecutionPage(shown, None)
        before = skipped if last.recorded_at == (until if is_newest_first else since) else 0
        at_once = looked_at[: looked_at.index(last) + 1]
        same = before + sum(each.recorded_at == last.recorded_at for each in at_once)
        number = (last.recorded_at - _EPOCH) // _MICROSECOND * _SAME_MOMENT_MAX + same
        return ExecutionPage(shown, seal(self.cursor_key, scope, number))

    async def position_changes(
        self,
        caller: Principal,
        account_id: AccountId,
        cursor: str | None,
        limit: int | None,
        symbol: str | None,
        order: ListOrder,
    ) -> Page[PositionChange]:
        account = await find_account(self.accounts, caller, Operation.READ_INTENTS, account_id)
        canonical = None if symbol is None else self.brokers[account.broker].canonical_symbol(symbol)
        if symbol is not None and canonical is None:
            raise InvalidParameter("symbol", WRONG_SYMBOL)
        rows, scope = bounded(limit), f"position changes {account.id} {canonical} {order}"
        beyond = start_of(self.cursor_key, scope, cursor)
        if cursor is None and order is ListOrder.NEWEST_FIRST:
            beyond = _LAST_NUMBER
        found = await self.lists.list_position_changes(
            account.organization_id, account.id, canonical, beyond, order, rows + 1
        )
        return page_of(self.cursor_key, scope, cursor, rows, [(each.number, each) for each in found])

    async def _admit(self, caller: Principal, wanted: OrderFilter | ExecutionFilter) -> frozenset[Symbol] | None:
        """Check that the caller may use the account; the spellings of the symbol, None without one."""
        if wanted.account_id is not None:
            await find_account(self.accounts, caller, Operation.READ_INTENTS, wanted.account_id)
        else:
            await require_organization(self.records, caller)
        if wanted.symbol is None:
            return None
        spelled = spellings(self.brokers.values(), wanted.symbol)
        if not spelled:
            raise InvalidParameter("symbol", WRONG_SYMBOL)
        return spelled

    def _scope(self, name: str, caller: Principal, wanted: OrderFilter | ExecutionFilter) -> str:
        return f"{name} {caller.organization_id} {caller.environment} {json.dumps(asdict(wanted), default=str)}"
