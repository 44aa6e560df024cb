"""Follow one broker: apply its reports, and reconcile our orders with it at every connect and regularly after."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from openbell_server.application.execution.execution_ticks import ExecutionTicks
from openbell_server.application.execution.feed_watchdog import FeedWatchdog
from openbell_server.application.execution.ports import ExecutionStore
from openbell_server.application.execution.reconcile_account import ReconcileAccount
from openbell_server.application.execution.reconciliation_schedule import (
    POLL_SECONDS,
    SOON_SECONDS,
    Plan,
    ReconciliationSchedule,
)
from openbell_server.application.execution.record_outcomes import Door
from openbell_server.application.execution.slot_leases import SlotLeases
from openbell_server.application.execution.track_orders import TrackOrders
from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.application.ports.broker import BrokerDefinition, BrokerSession, FeedItem, NotSignedIn
from openbell_server.domain.identifiers import AccountId, client_order_id
from openbell_server.domain.orders.broker_reports import Accepted, OrderReport, Outcome, Refused
from openbell_server.domain.orders.intents import ActionType

ACCOUNTS_AT_ONCE_MAX: Final = 8
REPORTS_AT_ONCE_MAX: Final = 256
REPORTS_WAITING_MAX: Final = 10_000
QUIET_SECONDS: Final = 0.25
# How often due reconciliations are started, and how often accounts to reconcile are searched.
ROUND_SECONDS: Final = 0.5
PASSES_AT_ONCE_MAX: Final = 8
FIND_ACCOUNTS_SECONDS: Final = 20.0

Answer = TypeVar("Answer")


class SignIns(Protocol):
    async def begin(self, broker: str, slots: Collection[int]) -> None:
        """Start to sign in the accounts of newly held slots, or after the broker was unreachable."""

    def is_pending(self, account_id: AccountId) -> bool:
        """Whether the account must be signed in and is not yet; broker calls for it would fail."""

    @property
    def changes(self) -> int:
        """Changes whenever a sign-in may let the broker report an account that it did not report before."""


@dataclass(slots=True)
class FollowBroker:
    """One broker's feed. Nothing is sent for an account that was not reconciled since this executor holds its slot."""

    definition: BrokerDefinition
    session: BrokerSession
    store: ExecutionStore
    track: TrackOrders
    slots: SlotLeases
    sessions: SignIns
    clock: Callable[[], float]
    # Applies reports of many accounts together; without it, each account on its own.
    ticks: ExecutionTicks | None = None
    failures: list[Exception] = field(default_factory=list)
    # Accounts whose feed fell silent; the process logs and clears them.
    fallen_silent: list[AccountId] = field(default_factory=list)
    reconcile: ReconcileAccount = field(init=False)
    echoes: FeedWatchdog = field(init=False)
    plan: ReconciliationSchedule = field(default_factory=ReconciliationSchedule)
    _compared: set[int] = field(default_factory=set)
    # Accounts that must be reconciled before they send: an order was not reported, or their own feed was down. The
    # number is new each time, so that a reconciliation that began before the last fall does not count.
    _behind: dict[AccountId, int] = field(default_factory=dict)
    _falls: int = 0
    _changes: int = 0
    _connects: int = 0
    _passing: set[AccountId] = field(default_factory=set)
    _tracking: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(ACCOUNTS_AT_ONCE_MAX))
    _find_at: float = 0.0
    _is_full: bool = False
    _restart: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.reconcile = ReconcileAccount(self.store, self.track)
        self.echoes = FeedWatchdog(self.definition.capabilities.echo_seconds, self.clock)

    def take_failures(self) -> list[Exception]:
        """Return and clear the errors; the process logs them."""
        failures, self.failures = self.failures, []
        return failures

    @property
    def compared(self) -> frozenset[int]:
        """Slots that were reconciled since we hold them and the feed is connected."""
        return frozenset(self._compared) if self.session.is_connected else frozenset()

    def ready(self, account: BrokerAccount) -> bool:
        """Whether commands for this account may be sent now; an account with a silent feed stops no other."""
        account_id = account.account_id
        is_known = account_id not in self._behind and not self.sessions.is_pending(account_id)
        is_ours = account.slot in self._compared and account.slot in self.slots.held()
        return is_known and is_ours and self.session.is_connected and account_id not in self.session.unheard

    def expect_echo(self, mark: int, door: Door, outcome: Outcome) -> None:
        """After an accepted command, expect the feed to report the order within echo_seconds, or since the mark."""
        if isinstance(outcome, Accepted):
            ids = {client_order_id(door.action.order_action_id), client_order_id(door.action.action_id)}
            names = ids | {outcome.broker_order_id, *door.action.order.broker_order_ids}
            self.echoes.expect(mark, door.account.account_id, names)
            self.plan.keep(door.account, self.clock())
        elif isinstance(outcome, Refused) and door.action.action_type is not ActionType.CREATE:
            # The order differs from our record, so a report was missed.
            self.plan.want(door.account, self.clock() + SOON_SECONDS)

    def compare_soon(self, account: BrokerAccount) -> None:
        """Reconcile the account now, instead of within a minute."""
        self.plan.soon(account, self.clock())

    async def run(self) -> None:
        """Read the feed until cancelled; when the queue is full, reading stops until there is room."""
        queue: asyncio.Queue[FeedItem] = asyncio.Queue(REPORTS_WAITING_MAX)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._apply(queue))
                tasks.create_task(self._pass_again(tasks))
                while True:
                    reading, restarting = tasks.create_task(self._read(queue)), tasks.create_task(self._restart.wait())
                    await asyncio.wait({reading, restarting}, return_when=asyncio.FIRST_COMPLETED)
                    for task in (reading, restarting):
                        task.cancel()
                    await asyncio.wait({reading, restarting})
                    self._restart.clear()
                    self._begin_anew()
        finally:
            # The feed is not read now, so nothing may be sent before the next reader has reconciled.
            self._begin_anew()

    async def _read(self, queue: asyncio.Queue[FeedItem]) -> None:
        feed = self.session.reports()
        try:
            async for item in feed:
                if item is None:
                    self._begin_anew()
                elif item[1] is None:
                    self._begin_account_anew(item[0])
                else:
                    self.echoes.notify(item[0], item[1])
                self._is_full = queue.full()
                await queue.put(item)
                self._is_full = False
        finally:
            if isinstance(feed, AsyncGenerator):
                await feed.aclose()
        raise ConnectionError("the feed has ended")

    def _begin_anew(self) -> None:
        self._connects += 1
        self._compared.clear()
        self._behind.clear()
        self.echoes.begin()

    def _begin_account_anew(self, account_id: AccountId) -> None:
        """The account's own feed was down: nothing is sent for it before it is reconciled; other accounts go on."""
        self._fall_behind(account_id)
        self.echoes.begin(account_id)

    def _fall_behind(self, account_id: AccountId) -> None:
        self._falls += 1
        self._behind[account_id] = self._falls

    def _catch_up(self, account_id: AccountId, since: int | None) -> bool:
        """Allow sends again; False if the account fell behind again since then."""
        if self._behind.get(account_id) != since:
            return False
        self._behind.pop(account_id, None)
        return True

    async def _apply(self, queue: asyncio.Queue[FeedItem]) -> None:
        """Reconcile first, then apply reports in order; a report that is old by then changes nothing."""
        while True:
            items = await _next_items(queue)
            held = self.slots.held()
            self._compared &= held
            if self.session.is_connected and held - self._compared:
                await self._compare(held - self._compared)
            by_account: dict[AccountId, list[OrderReport | None]] = {}
            for account_id, report in (item for item in items if item is not None):
                by_account.setdefault(account_id, []).append(report)
            applied = [self._apply_account(*each) for each in by_account.items()]
            # Mostly one account, for which a task would cost more than it saves.
            await (applied[0] if len(applied) == 1 else asyncio.gather(*applied))

    async def _apply_account(self, account_id: AccountId, items: Sequence[OrderReport | None]) -> None:
        """Apply reports; fills that were not reported are queried by a reconciliation, so the reports need not wait."""
        since, reports = self._behind.get(account_id), [report for report in items if report is not None]
        try:
            account = self.plan.planned(account_id)
            if account is None:
                account = await self.store.find_account_across_organizations(account_id)
            if account is None or account.slot not in self.slots.held():
                # These reports are not applied: if the slot is still ours, it must be reconciled again.
                self._compared -= {account.slot} if account else set()
                self._catch_up(account_id, since)
                return
            now, unmatched = self.clock(), list[OrderReport]()
            left, incomplete = (reports, []) if self.ticks is None else await self.ticks.apply(reports)
            if left:
                async with self._tracking:
                    incomplete += await self.track(account, left, unmatched)
            self.plan.keep(account, now)
            if any(report.filled_quantity for report in reports):
                self.track.moved[account_id] = account
            if None in items:
                await self._listened_again(account, since)
            if incomplete or unmatched:
                self.plan.want(account, now + SOON_SECONDS, incomplete + unmatched)
        except Exception as error:  # noqa: BLE001 - an error of one account must not stop the others
            self.failures.append(error)
            # Every slot is reconciled again, this account included.
            self._compared.clear()
            self._catch_up(account_id, since)

    async def _listened_again(self, account: BrokerAccount, since: int | None) -> None:
        """The account's own feed is connected again: reconcile at once if it has open orders."""
        now, slots = self.clock(), {account.slot}
        with_orders = await self.store.accounts_with_open_orders_across_organizations(self.definition.name, slots)
        self.plan.renew(account, now)
        if account.account_id in {each.account_id for each in with_orders}:
            self.plan.want(account, now)
        else:
            self._catch_up(account.account_id, since)

    async def _compare(self, slots: frozenset[int]) -> None:
        """Reconcile every account with open orders, to learn what happened while the feed was not read."""
        connects = self._connects
        await self.sessions.begin(self.definition.name, slots)
        with_orders = await self.store.accounts_with_open_orders_across_organizations(self.definition.name, slots)
        touched = await self.store.accounts_touched_across_organizations(self.definition.name, slots)
        now = self.clock()
        for account in touched:
            self.plan.renew(account, now)
        plans = [self.plan.renew(account, now) for account in with_orders]
        answered = await _at_once([self._pass(plan, connects, deep=False) for plan in plans])
        # If the feed reconnected meanwhile, reports may be missing that these queries did not cover.
        if connects == self._connects:
            for plan in (plan for plan, has_answer in zip(plans, answered, strict=True) if not has_answer):
                self._fall_behind(plan.account.account_id)
            self._compared |= slots

    async def _pass(self, plan: Plan, connects: int, *, deep: bool) -> bool:
        """Reconcile one account; returns whether the broker answered. If not, it is queried again later."""
        account, now = plan.account, self.clock()
        since, reports = self._behind.get(account.account_id), self.plan.take(plan, now)
        if self.sessions.is_pending(account.account_id):
            self.plan.failed(plan, reports, now)
            return False
        try:
            is_last = deep and self.plan.is_last(plan, now)
            result = await self.reconcile(
                account, self.session, self.definition.capabilities, reports, deep=deep, is_last=is_last
            )
        except Exception as error:  # noqa: BLE001 - an error of one account must not stop the others
            if not isinstance(error, NotSignedIn):
                self.failures.append(error)
            self.plan.failed(plan, reports, self.clock())
            return False
        self.plan.ended(plan, result, self.clock(), deep=deep)
        if result.differs:
            self.plan.want(account, self.clock() + self.definition.capabilities.settle_seconds)
        if connects == self._connects and self._catch_up(account.account_id, since) and not result.is_open:
            # Without open orders the feed has nothing to report.
            self.echoes.mute.discard(account.account_id)
        return True

    async def _pass_again(self, tasks: asyncio.TaskGroup) -> None:
        """Start due reconciliations, concurrently with the reading of reports."""
        while True:
            await asyncio.sleep(ROUND_SECONDS)
            self._listen()
            if not self.session.is_connected or not self._compared:
                continue
            now = self.clock()
            if now >= self._find_at:
                self._find_at = now + FIND_ACCOUNTS_SECONDS
                await self._find_accounts()
            if self._changes != self.sessions.changes:
                self._changes = self.sessions.changes
                self.plan.hurry(self._behind, now)
            self.plan.hurry({*self.echoes.mute, *self.session.unheard}, now, POLL_SECONDS)
            for plan in self.plan.due(now, PASSES_AT_ONCE_MAX - len(self._passing), self._passing):
                self._passing.add(plan.account.account_id)
                tasks.create_task(self._planned(plan))

    async def _planned(self, plan: Plan) -> None:
        try:
            await self._pass(plan, self._connects, deep=plan.deep_at <= self.clock())
        finally:
            self._passing.discard(plan.account.account_id)

    async def _find_accounts(self) -> None:
        """Schedule accounts with open orders, and those whose positions a rule needs and no broker reported yet."""
        held = self.slots.held()
        self._compared &= held
        for account_id in self.plan.forget(held):
            self._behind.pop(account_id, None)
            self.echoes.mute.discard(account_id)
        try:
            with_orders = await self.store.accounts_with_open_orders_across_organizations(self.definition.name, held)
            untold = await self.store.accounts_without_positions_across_organizations(self.definition.name, held)
        except Exception as error:  # noqa: BLE001 - the next round queries again
            self.failures.append(error)
            return
        for account in [*with_orders, *untold]:
            self.plan.keep(account, self.clock())

    def _listen(self) -> None:
        """Reconcile accounts whose feed is silent and restart the feed, even if heartbeats arrive."""
        # While we do not read the feed, silence proves nothing.
        if self._is_full or not self.session.is_connected:
            return
        fallen = self.echoes.overdue()
        self.fallen_silent += fallen
        self.plan.hurry(fallen, self.clock())
        if not self.definition.capabilities.feeds_by_account:
            if self.echoes.may_restart():
                self._restart.set()
        # A disconnected feed is being restarted already.
        elif (silent := self.echoes.mute.difference(self.session.unheard)) and self.echoes.may_restart():
            self.session.listen_again(silent)


async def _next_items(queue: asyncio.Queue[FeedItem]) -> list[FeedItem]:
    """The items received so far, none after QUIET_SECONDS, so that newly held slots are reconciled in time."""
    items: list[FeedItem] = []
    if queue.empty():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(QUIET_SECONDS):
                items.append(await queue.get())
    while not queue.empty() and len(items) < REPORTS_AT_ONCE_MAX:
        items.append(queue.get_nowait())
    return items


async def _at_once(calls: Sequence[Coroutine[None, None, Answer]]) -> list[Answer]:
    places = asyncio.Semaphore(ACCOUNTS_AT_ONCE_MAX)

    async def one(call: Coroutine[None, None, Answer]) -> Answer:
        async with places:
            return await call

    return await asyncio.gather(*(one(call) for call in calls))
