"""Write outcomes, reports and doors of many accounts in one statement.

A tick takes everything that came since the last one, decides it from what is remembered of the executor's own orders,
and writes it. The database compares what was remembered; where that changed, the caller takes the long way: one
transaction under the account's lock. While one tick is written the next gathers, and none waits to become larger.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Container, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Protocol, TypeVar
from uuid import UUID

from openbell_server.application.crash_points import crash_point
from openbell_server.application.execution.draft_transaction import DraftTransaction, NeedsDatabase
from openbell_server.application.execution.ports import (
    RESTORED,
    DoorRequest,
    DoorTerms,
    Opened,
    TickResult,
    TickStore,
    Unit,
)
from openbell_server.application.execution.record_outcomes import Door
from openbell_server.application.ports.account_transaction import BrokerAccount, TrackedAction
from openbell_server.application.ports.hints import Hints
from openbell_server.domain.identifiers import AccountId, ActionId, OrganizationId, Symbol, action_of
from openbell_server.domain.orders.broker_reports import OrderReport, Outcome

UNITS_MAX: Final = 256
ACCOUNTS_MAX: Final = 256
DOORS_MAX: Final = 256
# After a tick that took longer, the next opens fewer doors: a door expires if its command is not sent soon.
SLOW_SECONDS: Final = 0.5
ORDERS_REMEMBERED_MAX: Final = 50_000
TERMS_REMEMBERED_MAX: Final = 100_000
# How long an account takes the long way to its doors after it needed it, before it is tried again.
LONG_WAY_SECONDS: Final = 1.0
# Reasons that end with what the long way does now; they do not concern the account's terms.
OF_ACTIONS: Final = frozenset({"CANCELS", "NOT_PLAIN"})
# Reasons after which the next tick is tried at once.
PASSING: Final = OF_ACTIONS | {"OTHER_EPOCH"}
# How long an answer waits for the first report of its order, which most brokers send at the same time: both are then
# written at once. Nothing else waits.
ANSWER_SECONDS: Final = 0.003


Answer = TypeVar("Answer")


class SignedIn(Protocol):
    def version_for(self, account_id: AccountId, database_epoch: int) -> int | None:
        """The credential version that an account is signed in with; None without one."""


@dataclass(slots=True, eq=False)
class _News:
    """An answer or a report, and the action after it was written; None if it must take the long way."""

    received: Outcome | OrderReport
    written: asyncio.Future[TrackedAction | None]


@dataclass(slots=True, eq=False)
class _Remembered:
    """An order whose door this executor opened; its intent has no other action."""

    door: Door
    action: TrackedAction
    version: int
    executions: frozenset[str] = frozenset()
    news: list[_News] = field(default_factory=list)


# An order, the news of it, and what follows.
_Decided = tuple[_Remembered, list[_News], Unit]


@dataclass(frozen=True, slots=True)
class OpenedDoors:
    doors: list[Door]
    # Everything that was recorded before this time was processed.
    seen_to: datetime | None


@dataclass(slots=True, eq=False)
class _Waiting:
    """An account whose doors shall open; None: it must take the long way."""

    account: BrokerAccount
    doors: int
    opened: asyncio.Future["OpenedDoors | None"]
    # Set when a tick takes the account, and kept here: a restore drops all cached terms in the middle of a tick.
    terms: DoorTerms | None = None


@dataclass(slots=True)
class ExecutionTicks:
    store: TickStore
    sign_ins: SignedIn
    slots: Callable[[], Collection[int]]
    hints: Hints
    monotonic: Callable[[], float]
    new_id: Callable[[], UUID]
    # Store errors after which nothing was written, because another transaction held a lock.
    blocked: tuple[type[Exception], ...]
    # Symbols whose price a rule needs: there a fill is stored as a price, the long way.
    priced: Container[tuple[OrganizationId, str, Symbol]] = frozenset()
    # Since the process started: ticks, units and doors, and by reason what took the long way.
    counts: Counter[str] = field(default_factory=Counter)
    long_way: Counter[str] = field(default_factory=Counter)
    failures: list[Exception] = field(default_factory=list)
    _orders: OrderedDict[ActionId, _Remembered] = field(default_factory=OrderedDict)
    _changed: dict[ActionId, _Remembered] = field(default_factory=dict)
    _terms: dict[AccountId, DoorTerms] = field(default_factory=dict)
    _long_until: dict[AccountId, float] = field(default_factory=dict)
    _waiting: dict[AccountId, _Waiting] = field(default_factory=dict)
    _doors_max: int = DOORS_MAX
    _task: asyncio.Task[None] | None = None
    _soon: asyncio.TimerHandle | None = None

    async def open_doors(self, account: BrokerAccount, doors: int) -> OpenedDoors | None:
        """Open doors of new orders, possibly none; None if the account must take the long way, as with a cancel."""
        account_id = account.account_id
        if account_id in self._waiting:
            return None
        if self._is_long(account_id):
            self.long_way["recently"] += 1
            return None
        waiting = _Waiting(account, doors, asyncio.get_running_loop().create_future())
        self._waiting[account_id] = waiting
        self._wake()
        return await waiting.opened

    async def record(self, door: Door, outcome: Outcome) -> TrackedAction | None:
        """Record the answer to a command; None if it must take the long way."""
        known = self._orders.get(door.action.action_id)
        if known is None or known.door is not door:
            return None
        news = self._add(known, outcome)
        if self._task is None and self._soon is None:
            self._soon = asyncio.get_running_loop().call_later(ANSWER_SECONDS, self._wake)
        return await news

    async def apply(self, reports: Sequence[OrderReport]) -> tuple[list[OrderReport], list[OrderReport]]:
        """Apply reports; returns those that must take the long way, and those that count fills without executions."""
        held = self.slots()
        news = [(report, self._order_of(report, held)) for report in reports]
        received = [(report, None if known is None else self._add(known, report)) for report, known in news]
        self._wake()
        left, incomplete = [], []
        for report, written in received:
            action = None if written is None else await written
            if action is None:
                left.append(report)
            elif report.filled_quantity > action.order.filled_quantity:
                incomplete.append(report)
        return left, incomplete

    def forget(self, action_id: ActionId) -> None:
        """The order is changed the long way: its reports take it too."""
        self._orders.pop(action_id, None)

    def _order_of(self, report: OrderReport, held: Collection[int]) -> _Remembered | None:
        action_id = None if report.client_order_id is None else action_of(report.client_order_id)
        known = None if action_id is None else self._orders.get(action_id)
        if known is None or known.door.account.slot not in held:
            return None
        account = known.door.account
        is_priced = (
            report.executions and (account.organization_id, account.broker, known.action.terms.symbol) in self.priced
        )
        return None if is_priced else known

    def _add(self, known: _Remembered, received: Outcome | OrderReport) -> asyncio.Future[TrackedAction | None]:
        news = _News(received, asyncio.get_running_loop().create_future())
        known.news.append(news)
        self._changed[known.action.action_id] = known
        return news.written

    def _wake(self) -> None:
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        if self._task is None:
            # It starts with the next turn of the event loop, and so takes everything of this turn.
            self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        try:
            while self._changed or self._waiting:
                began = self.monotonic()
                await self._tick()
                is_slow = self.monotonic() - began > SLOW_SECONDS
                self._doors_max = max(1, self._doors_max // 4) if is_slow else min(DOORS_MAX, self._doors_max * 2)
        finally:
            self._task = None

    async def _tick(self) -> None:
        units = self._take_units()
        waiting: list[_Waiting] = []
        try:
            waiting = await self._take_doors()
            await self._write(units, waiting)
        except Exception as error:  # noqa: BLE001 - every waiting caller takes the long way, which raises its own error
            self.failures.append(error)
            self._give_up(units, waiting, type(error).__name__)

    def _take_units(self) -> list[_Decided]:
        units, executions = [], set[tuple[AccountId, str]]()
        for action_id in [*self._changed][:UNITS_MAX]:
            known = self._changed.pop(action_id)
            news, known.news = known.news, []
            try:
                unit = self._unit(known, news)
            except Exception as error:  # noqa: BLE001 - the long way raises what is wrong
                why = str(error) if isinstance(error, NeedsDatabase) else type(error).__name__
                self._take_long_way(known, news, why)
                continue
            named = {(unit.account.account_id, fill.execution_id) for fill in unit.executions}
            if executions & named:
                # The long way decides which of the orders has the execution.
                self._take_long_way(known, news, "one execution of two orders")
                continue
            executions |= named
            units.append((known, news, unit))
        return units

    def _unit(self, known: _Remembered, news: Sequence[_News]) -> Unit:
        door = known.door
        now = door.opened_at + timedelta(seconds=self.monotonic() - door.opened_monotonic)
        draft = DraftTransaction(known.action, known.executions, now)
        for each in news:
            draft.apply(each.received)
        return Unit(
            account=door.account,
            before=known.action,
            after=draft.action,
            version=known.version,
            reason=draft.reason,
            executions=draft.executions,
            change=draft.change,
            events=draft.events,
        )

    async def _take_doors(self) -> list[_Waiting]:
        """The accounts whose doors this tick opens, as many as the loop can send for at once."""
        taken, doors = list[_Waiting](), 0
        for account_id in [*self._waiting][:ACCOUNTS_MAX]:
            if doors >= self._doors_max:
                break
            taken.append(self._waiting.pop(account_id))
            doors += taken[-1].doors
        unknown = [each.account.account_id for each in taken if each.account.account_id not in self._terms]
        if unknown:
            if len(self._terms) + len(unknown) > TERMS_REMEMBERED_MAX:
                self._terms.clear()
            try:
                self._terms |= await self.store.door_terms_across_organizations(unknown)
            except Exception:
                for each in taken:
                    _resolve(each.opened, None)
                raise
        ready = []
        for each in taken:
            each.terms = self._terms.get(each.account.account_id)
            if each.terms is None or each.terms.has_rules:
                self._send_long_way(each, "rules")
            else:
                ready.append(each)
        return ready

    async def _write(self, units: Sequence[_Decided], waiting: Sequence[_Waiting]) -> None:
        if not units and not waiting:
            return
        attempt_id, began = self.new_id(), self.monotonic()
        requests = [self._request(each) for each in waiting]
        try:
            crash_point("executor.before_tick")
            result = await self.store.write_tick_across_organizations(
                self.slots(), [unit for _, _, unit in units], requests, attempt_id
            )
            crash_point("executor.after_tick")
        except self.blocked:
            await self._write_apart(units, waiting)
            return
        self.counts.update(ticks=1, units=len(units), doors=len(result.opened))
        self._after_units(units, result.written)
        self._after_doors(waiting, result, attempt_id, began)

    def _after_units(self, units: Sequence[_Decided], written: Sequence[bool]) -> None:
        changed: dict[AccountId, None] = {}
        for (known, news, unit), is_written in zip(units, written, strict=True):
            if not is_written:
                self._take_long_way(known, news, "changed")
                continue
            known.action = unit.after
            known.version += unit.after.order != unit.before.order
            known.executions |= {fill.execution_id for fill in unit.executions}
            if unit.events:
                changed[unit.account.account_id] = None
            for each in news:
                _resolve(each.written, unit.after)
        if changed:
            self.hints.events_were_written([*changed])

    def _after_doors(self, waiting: Sequence[_Waiting], result: TickResult, attempt_id: UUID, began: float) -> None:
        opened: dict[AccountId, list[Opened]] = {}
        for each in result.opened:
            opened.setdefault(each.account_id, []).append(each)
        for waits in waiting:
            account_id = waits.account.account_id
            doors = [self._remember(waits.account, each, attempt_id, began) for each in opened.get(account_id, [])]
            why = result.long_way.get(account_id)
            if why == RESTORED:
                # All terms are those of the database before.
                self._terms.clear()
            if why is not None and not doors:
                self._send_long_way(waits, why)
                continue
            if why is not None:
                # What is left of the account takes the long way when it is processed again.
                self._keep_long(account_id, why)
            _resolve(waits.opened, OpenedDoors(doors, result.at))

    async def _write_apart(self, units: Sequence[_Decided], waiting: Sequence[_Waiting]) -> None:
        """Another transaction holds a lock: write each account alone, so that the others need not wait for it."""
        account_ids = {unit.account.account_id for _, _, unit in units} | {each.account.account_id for each in waiting}
        if len(account_ids) == 1:
            self._give_up(units, waiting, "blocked")
            return
        for account_id in sorted(account_ids):
            await self._write(
                [each for each in units if each[2].account.account_id == account_id],
                [each for each in waiting if each.account.account_id == account_id],
            )

    def _request(self, waiting: _Waiting) -> DoorRequest:
        assert waiting.terms is not None
        version = self.sign_ins.version_for(waiting.account.account_id, waiting.terms.database_epoch)
        return DoorRequest(waiting.account, waiting.terms, version, waiting.doors)

    def _remember(self, account: BrokerAccount, opened: Opened, attempt_id: UUID, began: float) -> Door:
        assert opened.action.send_started_at is not None
        door = Door(account, opened.action, attempt_id, opened.action.send_started_at, began)
        self._orders[opened.action.action_id] = _Remembered(door, opened.action, opened.version)
        while len(self._orders) > ORDERS_REMEMBERED_MAX:
            self._orders.popitem(last=False)
        return door

    def _is_long(self, account_id: AccountId) -> bool:
        until = self._long_until.get(account_id)
        if until is None:
            return False
        if until > self.monotonic():
            return True
        del self._long_until[account_id]
        return False

    def _keep_long(self, account_id: AccountId, why: str) -> None:
        if why not in OF_ACTIONS:
            self._terms.pop(account_id, None)
        if why in PASSING:
            return
        if len(self._long_until) >= TERMS_REMEMBERED_MAX:
            self._long_until.clear()
        self._long_until[account_id] = self.monotonic() + LONG_WAY_SECONDS

    def _send_long_way(self, waiting: _Waiting, why: str) -> None:
        self.long_way[why] += 1
        self._keep_long(waiting.account.account_id, why)
        _resolve(waiting.opened, None)

    def _take_long_way(self, known: _Remembered, news: Sequence[_News], why: str) -> None:
        self.long_way[why] += 1
        self.forget(known.action.action_id)
        for each in [*news, *known.news]:
            _resolve(each.written, None)
        known.news = []
        self._changed.pop(known.action.action_id, None)

    def _give_up(self, units: Sequence[_Decided], waiting: Sequence[_Waiting], why: str) -> None:
        for known, news, _ in units:
            self._take_long_way(known, news, why)
        for each in waiting:
            self._send_long_way(each, why)


def _resolve(future: asyncio.Future[Answer], answer: Answer) -> None:
    if not future.done():
        future.set_result(answer)
