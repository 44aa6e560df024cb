"""Follow one broker: compare our orders with it at every connect and again and again, and apply its reports."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from openbell_server.application.hold_slots import HoldSlots
from openbell_server.application.plan_passes import POLL_SECONDS, SOON_SECONDS, Plan, PlanPasses
from openbell_server.application.ports.broker import BrokerDefinition, BrokerSession, FeedItem, NotSignedIn
from openbell_server.application.ports.execution import BrokerAccount, ExecutionStore
from openbell_server.application.reconcile_account import ReconcileAccount
from openbell_server.application.record_answers import Door
from openbell_server.application.track_orders import TrackOrders
from openbell_server.application.watch_echoes import WatchEchoes
from openbell_server.domain.broker_orders import Accepted, OrderReport, Outcome, Refused
from openbell_server.domain.identifiers import AccountId, client_order_id
from openbell_server.domain.intents import ActionType

ACCOUNTS_AT_ONCE_MAX: Final = 8
REPORTS_AT_ONCE_MAX: Final = 256
REPORTS_WAITING_MAX: Final = 10_000
QUIET_SECONDS: Final = 0.25
# How often is looked for accounts whose comparison is due, and for those that should be compared at all.
ROUND_SECONDS: Final = 0.5
PASSES_AT_ONCE_MAX: Final = 8
FIND_ACCOUNTS_SECONDS: Final = 20.0

Answer = TypeVar("Answer")


class SignIns(Protocol):
    """Who is signed in at the broker."""

    async def begin(self, broker: str, slots: Collection[int]) -> None:
        """Begin to sign in the accounts of slots that were taken, or whose broker was out of reach."""

    def is_pending(self, account_id: AccountId) -> bool:
        """Whether the account must be signed in and is not yet, so that asking is no use."""

    @property
    def changes(self) -> int:
        """Another number whenever a broker may tell about an account what it did not tell before."""


@dataclass(slots=True)
class FollowBroker:
    """One broker's feed. No door opens for an account whose orders were not compared since we took it."""

    definition: BrokerDefinition
    session: BrokerSession
    store: ExecutionStore
    track: TrackOrders
    slots: HoldSlots
    sessions: SignIns
    clock: Callable[[], float]
    failures: list[Exception] = field(default_factory=list)
    # Accounts that the feed has fallen silent about since somebody looked.
    fallen_silent: list[AccountId] = field(default_factory=list)
    reconcile: ReconcileAccount = field(init=False)
    echoes: WatchEchoes = field(init=False)
    plan: PlanPasses = field(default_factory=PlanPasses)
    _compared: set[int] = field(default_factory=set)
    # Accounts with an order that the broker has not told us about, or whose own feed was away: each with a number of
    # its own, so that a comparison begun before it fell behind once more does not count.
    _behind: dict[AccountId, int] = field(default_factory=dict)
    _falls: int = 0
    _changes: int = 0
    _connects: int = 0
    _passing: set[AccountId] = field(default_factory=set)
    _find_at: float = 0.0
    _is_full: bool = False
    _restart: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        """Nothing is expected of the feed yet."""
        self.reconcile = ReconcileAccount(self.store, self.track)
        self.echoes = WatchEchoes(self.definition.capabilities.echo_seconds, self.clock)

    def take_failures(self) -> list[Exception]:
        """What went wrong since this was last asked; the process logs it."""
        failures, self.failures = self.failures, []
        return failures

    @property
    def compared(self) -> frozenset[int]:
        """The slots that were compared with the broker since they are ours and its feed stands."""
        return frozenset(self._compared) if self.session.is_connected else frozenset()

    def ready(self, account: BrokerAccount) -> bool:
        """Whether commands for this account may be sent now; one that the broker keeps silent about stops no other."""
        account_id = account.account_id
        is_known = account_id not in self._behind and not self.sessions.is_pending(account_id)
        is_ours = account.slot in self._compared and account.slot in self.slots.held()
        return is_known and is_ours and self.session.is_connected and account_id not in self.session.unheard

    def expect_echo(self, mark: int, door: Door, outcome: Outcome) -> None:
        """The feed must tell of an order whose command was taken, soon or since the mark."""
        if isinstance(outcome, Accepted):
            ids = {client_order_id(door.action.order_action_id), client_order_id(door.action.action_id)}
            names = ids | {outcome.broker_order_id, *door.action.order.broker_order_ids}
            self.echoes.expect(mark, door.account.account_id, names)
            self.plan.keep(door.account, self.clock())
        elif isinstance(outcome, Refused) and door.action.action_type is not ActionType.CREATE:
            # The order is not what we take it for: something of it was not heard.
            self.plan.want(door.account, self.clock() + SOON_SECONDS)

    def compare_soon(self, account: BrokerAccount) -> None:
        """Have the account compared with the broker, soon and not within a minute."""
        self.plan.soon(account, self.clock())

    async def run(self) -> None:
        """Read the feed until cancelled; a full queue makes the broker wait, not us grow."""
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
            # Nobody reads: no door opens before somebody does, and has compared.
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
                    self.echoes.hear(item[0], item[1])
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
        """Its own feed was away: no door opens for it before it is compared; no other account notices."""
        self._fall_behind(account_id)
        self.echoes.begin(account_id)

    def _fall_behind(self, account_id: AccountId) -> None:
        self._falls += 1
        self._behind[account_id] = self._falls

    def _catch_up(self, account_id: AccountId, since: int | None) -> bool:
        """Let its doors open again, unless it fell behind anew since then; whether that is so."""
        if self._behind.get(account_id) != since:
            return False
        self._behind.pop(account_id, None)
        return True

    async def _apply(self, queue: asyncio.Queue[FeedItem]) -> None:
        """Compare first, then apply: what came meanwhile waits in its order; what is old by then changes nothing."""
        while True:
            items = await _next_items(queue)
            held = self.slots.held()
            self._compared &= held
            if self.session.is_connected and held - self._compared:
                await self._compare(held - self._compared)
            by_account: dict[AccountId, list[OrderReport | None]] = {}
            for account_id, report in (item for item in items if item is not None):
                by_account.setdefault(account_id, []).append(report)
            await _at_once([self._apply_account(account, reports) for account, reports in by_account.items()])

    async def _apply_account(self, account_id: AccountId, told: Sequence[OrderReport | None]) -> None:
        """Apply reports; fills of which nobody heard are missed and asked for, so these need not wait."""
        since, reports = self._behind.get(account_id), [report for report in told if report is not None]
        try:
            account = self.plan.planned(account_id)
            if account is None:
                account = await self.store.find_account_across_organizations(account_id)
            if account is None or account.slot not in self.slots.held():
                # What is not applied must be asked for, should the slot still be ours.
                self._compared -= {account.slot} if account else set()
                self._catch_up(account_id, since)
                return
            now, unmatched = self.clock(), list[OrderReport]()
            incomplete = await self.track(account, reports, unmatched) if reports else []
            self.plan.keep(account, now)
            if None in told:
                await self._listened_again(account, since)
            if incomplete or unmatched:
                self.plan.want(account, now + SOON_SECONDS, incomplete + unmatched)
        except Exception as error:  # noqa: BLE001 - one account's trouble is not its neighbours'
            self.failures.append(error)
            # Every slot is compared anew, and this account with its own.
            self._compared.clear()
            self._catch_up(account_id, since)

    async def _listened_again(self, account: BrokerAccount, since: int | None) -> None:
        """Its own feed stands again: ask at once for what happened meanwhile, if anything of it is open."""
        now, slots = self.clock(), {account.slot}
        with_orders = await self.store.accounts_with_open_orders_across_organizations(self.definition.name, slots)
        self.plan.renew(account, now)
        if account.account_id in {each.account_id for each in with_orders}:
            self.plan.want(account, now)
        else:
            self._catch_up(account.account_id, since)

    async def _compare(self, slots: frozenset[int]) -> None:
        """Compare every account that the broker may have orders of: what happened while nobody listened is learned."""
        connects = self._connects
        await self.sessions.begin(self.definition.name, slots)
        with_orders = await self.store.accounts_with_open_orders_across_organizations(self.definition.name, slots)
        touched = await self.store.accounts_touched_across_organizations(self.definition.name, slots)
        now = self.clock()
        for account in touched:
            self.plan.renew(account, now)
        plans = [self.plan.renew(account, now) for account in with_orders]
        told = await _at_once([self._pass(plan, connects, deep=False) for plan in plans])
        # A feed that was cut meanwhile may have told what we did not ask for.
        if connects == self._connects:
            for plan in (plan for plan, is_told in zip(plans, told, strict=True) if not is_told):
                self._fall_behind(plan.account.account_id)
            self._compared |= slots

    async def _pass(self, plan: Plan, connects: int, *, deep: bool) -> bool:
        """Compare one account; whether the broker told. What it could not tell now is asked again."""
        account, now = plan.account, self.clock()
        since, heard = self._behind.get(account.account_id), self.plan.take(plan, now)
        if self.sessions.is_pending(account.account_id):
            self.plan.failed(plan, heard, now)
            return False
        try:
            is_last = deep and self.plan.is_last(plan, now)
            result = await self.reconcile(
                account, self.session, self.definition.capabilities, heard, deep=deep, is_last=is_last
            )
        except Exception as error:  # noqa: BLE001 - one account's trouble is not its neighbours'
            if not isinstance(error, NotSignedIn):
                self.failures.append(error)
            self.plan.failed(plan, heard, self.clock())
            return False
        self.plan.ended(plan, result, self.clock(), deep=deep)
        if result.differs:
            self.plan.want(account, self.clock() + self.definition.capabilities.settle_seconds)
        if connects == self._connects and self._catch_up(account.account_id, since) and not result.is_open:
            # Nothing is left that the feed could be silent about.
            self.echoes.mute.discard(account.account_id)
        return True

    async def _pass_again(self, tasks: asyncio.TaskGroup) -> None:
        """Beside the reports, for as long as they are read: begin the comparisons whose time has come."""
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
        """Plan for every account that something is open of, or whose positions a rule asks about and nobody told."""
        held = self.slots.held()
        self._compared &= held
        for account_id in self.plan.forget(held):
            self._behind.pop(account_id, None)
            self.echoes.mute.discard(account_id)
        try:
            with_orders = await self.store.accounts_with_open_orders_across_organizations(self.definition.name, held)
            untold = await self.store.accounts_untold_across_organizations(self.definition.name, held)
        except Exception as error:  # noqa: BLE001 - the next round asks again
            self.failures.append(error)
            return
        for account in [*with_orders, *untold]:
            self.plan.keep(account, self.clock())

    def _listen(self) -> None:
        """Ask about accounts that the feed is silent about, and begin it anew; a heartbeat is no sign of its life."""
        # Who does not listen cannot call the other one mute.
        if self._is_full or not self.session.is_connected:
            return
        fallen = self.echoes.overdue()
        self.fallen_silent += fallen
        self.plan.hurry(fallen, self.clock())
        if not self.definition.capabilities.feeds_by_account:
            if self.echoes.may_restart():
                self._restart.set()
        # A feed that is away is being begun anew already.
        elif (silent := self.echoes.mute.difference(self.session.unheard)) and self.echoes.may_restart():
            self.session.listen_again(silent)


async def _next_items(queue: asyncio.Queue[FeedItem]) -> list[FeedItem]:
    """What has come; nothing after a moment of quiet, so that newly taken slots are compared in time."""
    items: list[FeedItem] = []
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
