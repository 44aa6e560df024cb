"""Run one worker at a time for each account with work, and look up actions with an unknown outcome."""

import asyncio
from collections import Counter
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Final

from openbell_server.application.execution.broker_budget import BrokerBudget, Room, Use
from openbell_server.application.execution.execute_action import ExecuteAction
from openbell_server.application.execution.flag_unknown import FLAG_SECONDS, STUCK_SECONDS, FlagUnknown
from openbell_server.application.execution.follow_broker import FollowBroker
from openbell_server.application.execution.ports import ExecutionStore
from openbell_server.application.execution.record_outcomes import Door
from openbell_server.application.execution.recover_account import RecoverAccount
from openbell_server.application.execution.settle_unknown import SettleUnknown
from openbell_server.application.execution.slot_leases import SlotLeases
from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.application.ports.broker import BrokerSession, NotSignedIn
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.orders.intents import ActionType

# Work without a hint is found after this time.
SWEEP_SECONDS: Final = 0.5
# Per broker.
ACCOUNTS_AT_ONCE_MAX: Final = 8
DOORS_AT_ONCE_MAX: Final = 4
LOOKING_AT_ONCE_MAX: Final = 4
ACCOUNTS_KNOWN_MAX: Final = 100_000
# How often the budget is checked while accounts wait for it.
WAKE_SECONDS: Final = 0.05


@dataclass(slots=True)
class Bulkhead:
    """The limits that the accounts of one broker share, so that a slow broker does not delay the others."""

    budget: BrokerBudget
    # Commands go through this session; the budget counted their calls when the door opened.
    session: BrokerSession
    places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(ACCOUNTS_AT_ONCE_MAX))
    # Separate from places, so that slow look-ups do not block commands.
    looking: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(LOOKING_AT_ONCE_MAX))
    # Accounts that wait for the budget, the longest first: for any call, and for a call other than a cancel.
    waiting_any: dict[AccountId, None] = field(default_factory=dict)
    waiting_commands: dict[AccountId, None] = field(default_factory=dict)
    wakes: asyncio.TimerHandle | None = None

    def next_waiting(self) -> list[AccountId]:
        """Remove and return the accounts that have room now."""
        room, woken = self.budget.room(), []
        for waiting, places in ((self.waiting_any, room.calls), (self.waiting_commands, room.commands)):
            for account_id in [*waiting][: max(0, places)]:
                del waiting[account_id]
                woken.append(account_id)
        return woken


@dataclass(slots=True)
class AccountDispatcher:
    """Dispatches the queued actions of accounts: opens doors in commit order and runs broker calls concurrently."""

    store: ExecutionStore
    execute: ExecuteAction
    settle: SettleUnknown
    recover: RecoverAccount
    brokers: Mapping[str, FollowBroker]
    slots: SlotLeases
    # A missing one is created from the broker's capabilities.
    bulkheads: dict[str, Bulkhead] = field(default_factory=dict)
    failures: list[BaseException] = field(default_factory=list)
    _known: dict[AccountId, BrokerAccount] = field(default_factory=dict)
    _working: set[AccountId] = field(default_factory=set)
    _settling: set[AccountId] = field(default_factory=set)
    _flagging: set[AccountId] = field(default_factory=set)
    _recovering: set[AccountId] = field(default_factory=set)
    # Accounts to process again, and by when their work was recorded, if known.
    _again: dict[AccountId, datetime | None] = field(default_factory=dict)
    # Everything recorded before this time was processed.
    _seen_to: dict[AccountId, datetime] = field(default_factory=dict)
    # Accounts that reached their limit of calls in flight.
    _at_in_flight_limit: set[AccountId] = field(default_factory=set)
    _in_flight: Counter[AccountId] = field(default_factory=Counter)
    _commands: Counter[AccountId] = field(default_factory=Counter)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _closing: bool = False

    def __post_init__(self) -> None:
        for name, broker in self.brokers.items():
            budget = BrokerBudget(broker.definition.capabilities, self.execute.monotonic)
            self.bulkheads.setdefault(name, Bulkhead(budget, broker.session))

    def notify(self, account_id: AccountId, recorded_at: datetime | None = None) -> None:
        """An account may have work, recorded by recorded_at; work that was processed since is skipped."""
        if self._closing:
            return
        if account_id in self._working:
            known = self._again.get(account_id, recorded_at)
            self._again[account_id] = max(known, recorded_at) if known and recorded_at else None
            return
        if recorded_at is not None and account_id in self._seen_to and recorded_at < self._seen_to[account_id]:
            return
        self._working.add(account_id)
        self._start(self._work(account_id))

    def forget(self, account_id: AccountId) -> None:
        """Drop the cached account, because it changed."""
        self._known.pop(account_id, None)

    async def sweep(self) -> None:
        """Find work without a hint, actions with an unknown outcome, and accounts on hold since a restore."""
        held = self.slots.held()
        for account_id in await self.store.accounts_waiting_across_organizations(held, SWEEP_SECONDS):
            self.notify(account_id)
        for account_id in await self.store.accounts_in_doubt_across_organizations(held, STUCK_SECONDS):
            if account_id not in self._settling and not self._closing:
                self._settling.add(account_id)
                self._start(self._settle(account_id))
        for account_id in await self.store.accounts_to_flag_across_organizations(held, STUCK_SECONDS, FLAG_SECONDS):
            if account_id not in self._flagging and not self._closing:
                self._flagging.add(account_id)
                self._start(self._flag(account_id))
        soonest = min(broker.definition.capabilities.settle_seconds for broker in self.brokers.values())
        for account_id in await self.store.accounts_held_across_organizations(held, soonest):
            if account_id not in self._recovering and not self._closing:
                self._recovering.add(account_id)
                self._start(self._recover(account_id))

    async def drain(self) -> None:
        """Open no more doors and wait for every running call."""
        self._closing = True
        for bulkhead in self.bulkheads.values():
            if bulkhead.wakes is not None:
                bulkhead.wakes.cancel()
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _work(self, account_id: AccountId) -> None:
        try:
            account, broker = await self._look_up(account_id)
            bulkhead = self.bulkheads[account.broker]
            room = self._room(account, broker, bulkhead)
            if room.calls > 0 and broker.ready(account) and not self._closing:
                bulkhead.budget.keep(room)
                try:
                    doors = await self._open_doors(account, broker, bulkhead, room)
                finally:
                    bulkhead.budget.let_go(room)
                for door in doors:
                    self._begin(bulkhead, door)
            self._wake(account.broker)
        finally:
            self._working.discard(account_id)
            if account_id in self._again:
                self.notify(account_id, self._again.pop(account_id))

    async def _open_doors(
        self, account: BrokerAccount, broker: FollowBroker, bulkhead: Bulkhead, room: Room
    ) -> list[Door]:
        looked, commands = partial(self._saw, account.account_id), max(0, min(room.calls, room.commands))
        doors = await self.execute.open_doors_in_tick(account, commands, looked)
        if doors is not None:
            if doors and len(doors) == commands:
                # More actions may be queued than were asked for.
                self._again.setdefault(account.account_id, None)
            return doors
        async with bulkhead.places:
            doors = await self.execute.open_doors(
                account,
                room.calls,
                commands=room.commands,
                cancels_unseen=broker.definition.capabilities.cancels_by_client_id,
                looked=looked,
            )
        if any(door.action.action_type is ActionType.CANCEL for door in doors):
            # Cancels go alone; what else is queued goes next.
            self._again.setdefault(account.account_id, None)
        return doors

    def _saw(self, account_id: AccountId, moment: datetime) -> None:
        if len(self._seen_to) >= ACCOUNTS_KNOWN_MAX:
            self._seen_to.clear()
        self._seen_to[account_id] = moment

    def _room(self, account: BrokerAccount, broker: FollowBroker, bulkhead: Bulkhead) -> Room:
        """How many doors may open: only for calls that can start at once, because an open door expires.

        One of the account's places in flight is reserved for a cancel.
        """
        room, in_flight_max = bulkhead.budget.room(), broker.definition.capabilities.in_flight_max
        if room.calls <= 0:
            bulkhead.waiting_any[account.account_id] = None
        elif room.commands <= 0:
            bulkhead.waiting_commands[account.account_id] = None
        free = in_flight_max - self._in_flight[account.account_id]
        commands = max(1, in_flight_max - 1) - self._commands[account.account_id]
        if free <= 0 or commands <= 0:
            self._at_in_flight_limit.add(account.account_id)
        return room.at_most(min(free, DOORS_AT_ONCE_MAX), commands)

    def _wake(self, broker: str) -> None:
        """Wake accounts that wait for the budget, and check again soon while any are left."""
        bulkhead = self.bulkheads[broker]
        for account_id in bulkhead.next_waiting():
            self.notify(account_id)
        if (bulkhead.waiting_any or bulkhead.waiting_commands) and bulkhead.wakes is None and not self._closing:
            bulkhead.wakes = asyncio.get_running_loop().call_later(WAKE_SECONDS, self._wake_late, broker)

    def _wake_late(self, broker: str) -> None:
        self.bulkheads[broker].wakes = None
        self._wake(broker)

    async def _settle(self, account_id: AccountId) -> None:
        try:
            account, broker = await self._look_up(account_id)
            if broker.ready(account):
                async with self.bulkheads[account.broker].looking:
                    await self.settle(account, broker.session, broker.definition.capabilities)
        finally:
            self._settling.discard(account_id)

    async def _flag(self, account_id: AccountId) -> None:
        try:
            account, broker = await self._look_up(account_id)
            async with self.bulkheads[account.broker].places:
                await FlagUnknown(self.store, self.execute.hints)(account, broker.definition.capabilities)
        finally:
            self._flagging.discard(account_id)

    async def _recover(self, account_id: AccountId) -> None:
        try:
            account, broker = await self._look_up(account_id)
            if broker.ready(account):
                async with self.bulkheads[account.broker].looking:
                    freed = await self.recover(account, broker.session, broker.definition.capabilities)
                if freed:
                    self.notify(account_id)
        finally:
            self._recovering.discard(account_id)

    def _begin(self, bulkhead: Bulkhead, door: Door) -> None:
        use = Use.CANCEL if door.action.action_type is ActionType.CANCEL else Use.COMMAND
        bulkhead.budget.begin(use)
        self._in_flight[door.account.account_id] += 1
        self._commands[door.account.account_id] += use is Use.COMMAND
        self._start(self._dispatch(bulkhead, door, use))

    async def _dispatch(self, bulkhead: Bulkhead, door: Door, use: Use) -> None:
        account_id, broker = door.account.account_id, self.brokers[door.account.broker]
        mark, may_wait = broker.echoes.mark(), True

        def nothing_waits() -> None:
            nonlocal may_wait
            may_wait = False

        try:
            outcome = await self.execute.dispatch(
                bulkhead.session, door, partial(bulkhead.budget.notify, use), nothing_waits
            )
            broker.expect_echo(mark, door, outcome)
        finally:
            bulkhead.budget.end(use)
            self._in_flight[account_id] -= 1
            self._commands[account_id] -= use is Use.COMMAND
            if not self._in_flight[account_id]:
                del self._in_flight[account_id]
                del self._commands[account_id]
            if may_wait or account_id in self._at_in_flight_limit:
                self._at_in_flight_limit.discard(account_id)
                self.notify(account_id)
            self._wake(door.account.broker)

    async def _look_up(self, account_id: AccountId) -> tuple[BrokerAccount, FollowBroker]:
        account = self._known.get(account_id)
        if account is None:
            account = await self.store.find_account_across_organizations(account_id)
            assert account is not None, f"work for an account that does not exist: {account_id}"
            if len(self._known) >= ACCOUNTS_KNOWN_MAX:
                self._known.clear()
            self._known[account_id] = account
        return account, self.brokers[account.broker]

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, NotSignedIn):
            # The process logs the error, and a later sweep retries the account.
            self.failures.append(error)
