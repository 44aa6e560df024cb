"""Gives every account with work one worker at a time, and every action in doubt a look at its broker."""

import asyncio
from collections import Counter
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Final

from openbell_server.application.broker_budget import BrokerBudget, Room, Use
from openbell_server.application.execute_action import ExecuteAction
from openbell_server.application.flag_unknown import FLAG_SECONDS, STUCK_SECONDS, FlagUnknown
from openbell_server.application.follow_broker import FollowBroker
from openbell_server.application.hold_slots import HoldSlots
from openbell_server.application.ports.broker import BrokerSession, NotSignedIn
from openbell_server.application.ports.execution import BrokerAccount, ExecutionStore
from openbell_server.application.record_answers import Door
from openbell_server.application.recover_account import RecoverAccount
from openbell_server.application.settle_unknown import SettleUnknown
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.intents import ActionType

# Work that no hint announced is found this late at worst.
SWEEP_SECONDS: Final = 0.5
# Of each broker.
ACCOUNTS_AT_ONCE_MAX: Final = 8
DOORS_AT_ONCE_MAX: Final = 4
LOOKING_AT_ONCE_MAX: Final = 4
ACCOUNTS_KNOWN_MAX: Final = 100_000
# How often it is seen whether a broker takes more calls, while accounts wait for that.
WAKE_SECONDS: Final = 0.05


@dataclass(slots=True)
class Bulkhead:
    """All that the accounts of one broker share; however slow it is, those of another do not notice."""

    budget: BrokerBudget
    # What commands are written to; their calls were counted at the door.
    session: BrokerSession
    places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(ACCOUNTS_AT_ONCE_MAX))
    # Apart from the doors: a broker that is slow to answer questions keeps nobody from trading.
    looking: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(LOOKING_AT_ONCE_MAX))
    # Who waits for the budget, the longest first: for any call, and for one that is no cancel.
    shut_out: dict[AccountId, None] = field(default_factory=dict)
    crowded: dict[AccountId, None] = field(default_factory=dict)
    wakes: asyncio.TimerHandle | None = None

    def next_waiting(self) -> list[AccountId]:
        """Accounts that may find room by now; they wait no longer."""
        room, woken = self.budget.room(), []
        for waiting, places in ((self.shut_out, room.calls), (self.crowded, room.commands)):
            for account_id in [*waiting][: max(0, places)]:
                del waiting[account_id]
                woken.append(account_id)
        return woken


@dataclass(slots=True)
class WorkAccounts:
    """The executor's desk: hints come in, doors open in commit order, calls run beside each other."""

    store: ExecutionStore
    execute: ExecuteAction
    settle: SettleUnknown
    recover: RecoverAccount
    brokers: Mapping[str, FollowBroker]
    slots: HoldSlots
    # One that is not given is made of what the broker's definition says.
    bulkheads: dict[str, Bulkhead] = field(default_factory=dict)
    failures: list[BaseException] = field(default_factory=list)
    _known: dict[AccountId, BrokerAccount] = field(default_factory=dict)
    _working: set[AccountId] = field(default_factory=set)
    _settling: set[AccountId] = field(default_factory=set)
    _flagging: set[AccountId] = field(default_factory=set)
    _recovering: set[AccountId] = field(default_factory=set)
    # Who is to be looked at again, and by when what is there was recorded, if that was said.
    _again: dict[AccountId, datetime | None] = field(default_factory=dict)
    # All that was recorded before was seen.
    _seen_to: dict[AccountId, datetime] = field(default_factory=dict)
    # Those that had no room for what is theirs in flight.
    _turned_away: set[AccountId] = field(default_factory=set)
    _in_flight: Counter[AccountId] = field(default_factory=Counter)
    _commands: Counter[AccountId] = field(default_factory=Counter)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _closing: bool = False

    def __post_init__(self) -> None:
        """Set up what is missing."""
        for name, broker in self.brokers.items():
            budget = BrokerBudget(broker.definition.capabilities, self.execute.monotonic)
            self.bulkheads.setdefault(name, Bulkhead(budget, broker.session))

    def hear(self, account_id: AccountId, recorded_at: datetime | None = None) -> None:
        """An account may have work, recorded by then; most of it was heard of before, and seen since."""
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
        """Read the account anew: something about it has changed."""
        self._known.pop(account_id, None)

    async def sweep(self) -> None:
        """Find work that no hint announced, actions in doubt, and accounts held since a restore."""
        held = self.slots.held()
        for account_id in await self.store.accounts_waiting_across_organizations(held, SWEEP_SECONDS):
            self.hear(account_id)
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
        """Open no more doors, and let every call past its door come to its end."""
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
                    async with bulkhead.places:
                        doors = await self.execute.open_doors(
                            account,
                            room.calls,
                            commands=room.commands,
                            cancels_unseen=broker.definition.capabilities.cancels_by_client_id,
                            looked=partial(self._saw, account_id),
                        )
                finally:
                    bulkhead.budget.let_go(room)
                for door in doors:
                    self._begin(bulkhead, door)
            self._wake(account.broker)
        finally:
            self._working.discard(account_id)
            if account_id in self._again:
                self.hear(account_id, self._again.pop(account_id))

    def _saw(self, account_id: AccountId, moment: datetime) -> None:
        if len(self._seen_to) >= ACCOUNTS_KNOWN_MAX:
            self._seen_to.clear()
        self._seen_to[account_id] = moment

    def _room(self, account: BrokerAccount, broker: FollowBroker, bulkhead: Bulkhead) -> Room:
        """How many doors may be opened: only for calls that can begin at once, since a door that waits grows stale.

        Of what an account may have in flight, one place is kept for a cancel.
        """
        room, in_flight_max = bulkhead.budget.room(), broker.definition.capabilities.in_flight_max
        if room.calls <= 0:
            bulkhead.shut_out[account.account_id] = None
        elif room.commands <= 0:
            bulkhead.crowded[account.account_id] = None
        free = in_flight_max - self._in_flight[account.account_id]
        commands = max(1, in_flight_max - 1) - self._commands[account.account_id]
        if free <= 0 or commands <= 0:
            self._turned_away.add(account.account_id)
        return room.at_most(min(free, DOORS_AT_ONCE_MAX), commands)

    def _wake(self, broker: str) -> None:
        """Let those go on who wait for the broker to take more calls, and look again soon while there are any."""
        bulkhead = self.bulkheads[broker]
        for account_id in bulkhead.next_waiting():
            self.hear(account_id)
        if (bulkhead.shut_out or bulkhead.crowded) and bulkhead.wakes is None and not self._closing:
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
                    self.hear(account_id)
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
                bulkhead.session, door, partial(bulkhead.budget.hear, use), nothing_waits
            )
            broker.expect_echo(mark, door, outcome)
        finally:
            bulkhead.budget.end(use)
            self._in_flight[account_id] -= 1
            self._commands[account_id] -= use is Use.COMMAND
            if not self._in_flight[account_id]:
                del self._in_flight[account_id]
                del self._commands[account_id]
            if may_wait or account_id in self._turned_away:
                self._turned_away.discard(account_id)
                self.hear(account_id)
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
            # The sweep comes back to the account; the process logs why it had to.
            self.failures.append(error)
