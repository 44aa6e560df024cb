"""Deliberate mistakes, made in the running code: each must be caught by the checker, by the name of a bar."""

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final
from unittest import mock
from uuid import UUID

from openbell_server.application.events.relay_outbox import Published
from openbell_server.application.execution import execute_action, flag_unknown, settle_unknown, track_orders
from openbell_server.application.execution.execute_action import _write
from openbell_server.application.execution.ports import ExecutionStore
from openbell_server.application.execution.reconcile_account import ReconcileAccount, ReconciliationResult
from openbell_server.application.execution.record_outcomes import Door
from openbell_server.application.execution.track_orders import TrackOrders
from openbell_server.application.ports.account_transaction import AccountTransaction, BrokerAccount, TrackedAction
from openbell_server.application.ports.broker import BrokerReplacement
from openbell_server.domain.identifiers import ActionId, client_order_id
from openbell_server.domain.orders import action_outcomes, order_aggregate, order_reports
from openbell_server.domain.orders.action_lifecycle import PAST_DOOR, ActionState
from openbell_server.domain.orders.action_outcomes import after_absence
from openbell_server.domain.orders.broker_reports import NotSent, OrderReport, Refused, ReportStatus
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_aggregate import Ended, Order
from openbell_server.domain.orders.order_terms import OrderSide, exact_total
from openbell_server.domain.orders.positions import PositionCause
from simulation.bus import BusPublisher
from simulation.memory_database import MemoryDatabase
from simulation.memory_execution import MemoryAccountTransaction
from simulation.memory_sweeps import MemoryExecutionStore
from simulation.venue import Venue, VenueOrder

RECLAIM_SECONDS: Final = 5
# Where, which name, and what comes in its place.
Change = tuple[object, str, object]


@dataclass(frozen=True, slots=True)
class Sabotage:
    """A mistake, and the kinds of brokers at which it does harm."""

    change: Callable[[], list[Change]]
    classes: str = "AWB"
    # Few runs meet the fault that shows it; where the first of them was, to be there sooner.
    first_seed: int = 0


@contextmanager
def sabotaged(name: str) -> Iterator[None]:
    """The code with one mistake in it, while this lasts; without a name as it is."""
    with ExitStack() as changed:
        for where, what, mistake in SABOTAGES[name].change() if name else ():
            if isinstance(where, dict):
                changed.enter_context(mock.patch.dict(where, {what: mistake}))
            else:
                changed.enter_context(mock.patch.object(where, what, mistake))
        yield


def _without_lock() -> Change:
    def take_lock(self: MemoryDatabase, transaction: Any) -> None:
        self._locks.setdefault(transaction.account.account_id, mock.Mock(waiting=[]))

    return MemoryDatabase, "take_lock", take_lock


def _door_without_check() -> Change:
    async def open_doors(
        self: MemoryAccountTransaction, action_ids: Sequence[ActionId], attempt_id: UUID
    ) -> dict[ActionId, datetime]:
        await self.statement()
        now = self.database.clock()
        for action_id in action_ids:
            self.change(action_id, state=ActionState.DISPATCHING, attempt_id=attempt_id, send_started_at=now)
        return dict.fromkeys(action_ids, now)

    return MemoryAccountTransaction, "open_doors", open_doors


def _ready_again() -> Change:
    ready = MemoryAccountTransaction.ready

    async def mistaken(self: MemoryAccountTransaction, limit: int, **limits: Any) -> list[TrackedAction]:
        abandoned = self.database.clock() - timedelta(seconds=RECLAIM_SECONDS)
        for row in [*self.book.actions.values()]:
            if row.state in PAST_DOOR and row.send_started_at and row.send_started_at < abandoned:
                self.change(row.action_id, state=ActionState.QUEUED)
        return await ready(self, limit, **limits)

    return MemoryAccountTransaction, "ready", mistaken


def _waiting_too() -> Change:
    waiting = MemoryExecutionStore.accounts_waiting_across_organizations

    async def all_accounts(self: MemoryExecutionStore, slots: Collection[int], older: float) -> list[Any]:
        await waiting(self, slots, older)
        return [account_id for account_id, book in self.database.books.items() if book.account.slot in slots]

    return MemoryExecutionStore, "accounts_waiting_across_organizations", all_accounts


def _no_accounts(where: str) -> Change:
    async def none(self: MemoryExecutionStore, slots: Collection[int], seconds: float) -> list[Any]:
        del self, slots, seconds
        return []

    return MemoryExecutionStore, where, none


def _new_id_each_time() -> list[Change]:
    numbers = iter(range(1, 1 << 30))

    def another(_: ActionId) -> str:
        return client_order_id(ActionId(UUID(int=next(numbers))))

    return [(execute_action, "client_order_id", another), (TrackedAction, "order_name", property(_no_name(another)))]


def _no_name(another: Callable[[ActionId], str]) -> Callable[[TrackedAction], object]:
    name = TrackedAction.order_name.fget  # type: ignore[attr-defined]
    return lambda action: replace(name(action), client_order_id=another(action.action_id))


def _resend_on_miss() -> list[Change]:
    look = settle_unknown._Look.at

    async def mistaken(self: settle_unknown._Look, action: TrackedAction) -> Door | None:
        door = await look(self, action)
        found = await self.session.find(self.account.account_id, action.order_name)
        if found is None and door is None and action.action_type is ActionType.CREATE:
            door = Door(self.account, action, action.attempt_id or UUID(int=0), self.asked_at, float("inf"))
            await _write(self.session, replace(door, opened_at=self.asked_at + timedelta(seconds=60)))
            return None
        return door

    return [(settle_unknown._Look, "at", mistaken)]


def _completed_unpublished() -> list[Change]:
    async def publish(self: BusPublisher, rows: Sequence[Any], is_late: Callable[[], bool]) -> Published:
        del self, is_late
        return Published(frozenset(row.outbox_id for row in rows), frozenset())

    return [(BusPublisher, "publish", publish), _no_accounts("accounts_waiting_across_organizations")]


def _every_fill_is_new() -> list[Change]:
    add = MemoryAccountTransaction.add_executions

    async def mistaken(self: MemoryAccountTransaction, intent_id: Any, fills: Sequence[Any]) -> set[str]:
        await add(self, intent_id, fills)
        return {fill.execution_id for fill in fills}

    return [(MemoryAccountTransaction, "add_executions", mistaken)]


def _end_at_once() -> list[Change]:
    def ended(order: Order, event: Ended) -> Order:
        return order_aggregate._close(order, event.reason)

    return [(order_aggregate._EFFECTS, Ended, ended)]  # type: ignore[list-item]


def _settled_as_absent() -> list[Change]:
    def after_look(order: Order, *_: object, **__: object) -> object:
        return after_absence(order)

    return [(settle_unknown, "after_look", after_look)]


def _first_miss() -> list[Change]:
    look = settle_unknown._Look.at

    def after_look(order: Order, report: Any, replacement: Any, *, missed_before: bool) -> object:
        del missed_before
        return action_outcomes.after_look(order, report, replacement, missed_before=True)

    async def at_once(self: settle_unknown._Look, action: TrackedAction) -> Door | None:
        return await look(replace(self, capabilities=replace(self.capabilities, settle_seconds=0)), action)

    return [(settle_unknown, "after_look", after_look), (settle_unknown._Look, "at", at_once)]


def _cancel_overtakes() -> list[Change]:
    ready = MemoryAccountTransaction.ready

    async def mistaken(self: MemoryAccountTransaction, limit: int, **limits: Any) -> list[TrackedAction]:
        found = await ready(self, limit, **limits)
        early = [
            row
            for row in self.book.actions.values()
            if row.action_type is ActionType.CANCEL and row.state is ActionState.QUEUED
        ]
        known = {action.action_id for action in found}
        return (self._tracked([row for row in early if row.action_id not in known]) + found)[:limit]

    return [(MemoryAccountTransaction, "ready", mistaken)]


def _added_quantity() -> list[Change]:
    def added(**values: Any) -> BrokerReplacement:
        terms = values["terms"]
        more = replace(terms, quantity=terms.quantity + 1 + values["filled_quantity"])
        return BrokerReplacement(**values | {"terms": more})

    return [(execute_action, "BrokerReplacement", added)]


def _unlocked_reports() -> list[Change]:
    call = TrackOrders.__call__

    class Unlocked(MemoryAccountTransaction):
        __slots__ = ()

        def lose(self) -> None:
            self.is_lost = True

        async def __aenter__(self) -> Any:
            await self.database.trip()
            self.began_at = self.database.clock()
            self.book = self.database.books[self.account.account_id].draft()
            return self

    class UnlockedStore(MemoryExecutionStore):
        __slots__ = ()

        def account_transaction(self, account: BrokerAccount) -> Any:
            return Unlocked(self.database, account)

    async def mistaken(self: TrackOrders, *about: Any) -> object:
        store: ExecutionStore = UnlockedStore(self.store.database)  # type: ignore[attr-defined]
        return await call(replace(self, store=store), *about)

    return [(TrackOrders, "__call__", mistaken)]


def _nothing_compared() -> list[Change]:
    async def compare(self: ReconcileAccount, *_: object, **__: object) -> ReconciliationResult:
        del self
        await asyncio.sleep(0)
        return ReconciliationResult(is_complete=True, left=(), is_open=False)

    return [(ReconcileAccount, "__call__", compare)]


def _never_flagged() -> list[Change]:
    async def flag(*_: object) -> None:
        await asyncio.sleep(0)

    return [(flag_unknown, "flag", flag), (settle_unknown, "flag", flag)]


def _open_orders_only() -> list[Change]:
    find = Venue.find

    def mistaken(self: Venue, order: VenueOrder | None) -> OrderReport | None:
        report = find(self, order)
        return report if report is not None and report.status is ReportStatus.WORKING else None

    return [(Venue, "find", mistaken)]


def _position_by_report() -> list[Change]:
    count = track_orders._count

    async def mistaken(transaction: AccountTransaction, action: TrackedAction, report: OrderReport) -> object:
        counted, changes, trades = await count(transaction, action, report)
        new = counted.filled_quantity - action.order.filled_quantity
        extra = exact_total(fill.quantity for fill in report.executions) - new
        if extra:
            side = 1 if action.terms.order_side is OrderSide.BUY else -1
            await transaction.add_to_position(
                action.terms.symbol, extra * side, PositionCause.EXECUTION, action.intent_id
            )
        return counted, changes, trades

    return [(track_orders, "_count", mistaken)]


def _without_changes() -> list[Change]:
    return [(track_orders, "counted_anew", lambda executions, _: order_reports.counted_anew(executions, []))]


SABOTAGES: Final = {
    "a door opens without a lock and for actions that were sent before": Sabotage(
        lambda: [_without_lock(), _door_without_check()]
    ),
    "every send uses a new client order id": Sabotage(_new_id_each_time),
    "a timeout counts as a rejection": Sabotage(
        lambda: [(execute_action, "Unknown", lambda why: Refused("TIMEOUT", why))]
    ),
    "an order is sent again after one look-up that does not find it": Sabotage(_resend_on_miss, "B"),
    "outbox rows are completed without being published, and no sweep finds them": Sabotage(_completed_unpublished),
    "a fill that is reported twice counts twice": Sabotage(_every_fill_is_new),
    "an order closes before its last fills are counted": Sabotage(_end_at_once),
    "any look-up settles an UNKNOWN action as never arrived": Sabotage(_settled_as_absent, first_seed=24),
    "one look-up without a result proves that a command never arrived": Sabotage(_first_miss, first_seed=131),
    "a command may be sent an hour after its door": Sabotage(lambda: [(execute_action, "DOOR_SECONDS", 3600.0)], "AW"),
    "a CANCEL is sent before its CREATE is settled": Sabotage(_cancel_overtakes),
    "a command whose executor crashed counts as not sent": Sabotage(
        lambda: [(flag_unknown, "Unknown", NotSent)], first_seed=126
    ),
    "a REPLACE sends a larger quantity than requested": Sabotage(_added_quantity),
    "reports are applied without the lock of the account": Sabotage(_unlocked_reports),
    "an action past its door is queued again and resent": Sabotage(
        lambda: [_ready_again(), _door_without_check(), _waiting_too()], "WB"
    ),
    "UNKNOWN actions are neither looked up nor flagged": Sabotage(
        lambda: [_no_accounts("accounts_in_doubt_across_organizations"), *_never_flagged()]
    ),
    "accounts are not reconciled with the broker": Sabotage(_nothing_compared),
    "UNKNOWN actions are not flagged": Sabotage(_never_flagged, "BC"),
    "a look-up does not find orders that have ended": Sabotage(_open_orders_only),
    "a position counts repeated reports of a fill": Sabotage(_position_by_report),
    "cancelled and corrected fills keep their first values": Sabotage(_without_changes),
}
