"""Gives every account with work one worker at a time, and every action in doubt a look at its broker."""

import asyncio
from collections import Counter
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Final

from openbell_server.application.execute_action import Door, ExecuteAction
from openbell_server.application.flag_unknown import FLAG_SECONDS, STUCK_SECONDS, FlagUnknown
from openbell_server.application.follow_broker import FollowBroker
from openbell_server.application.hold_slots import HoldSlots
from openbell_server.application.ports.execution import BrokerAccount, ExecutionStore
from openbell_server.application.recover_account import RecoverAccount
from openbell_server.application.settle_unknown import SettleUnknown
from openbell_server.domain.identifiers import AccountId

# Work that no hint announced is found this late at worst.
SWEEP_SECONDS: Final = 0.5
ACCOUNTS_AT_ONCE_MAX: Final = 8
DOORS_AT_ONCE_MAX: Final = 4
LOOKING_AT_ONCE_MAX: Final = 4
ACCOUNTS_KNOWN_MAX: Final = 100_000


@dataclass(slots=True)
class WorkAccounts:
    """The executor's desk: hints come in, doors open in commit order, calls run beside each other."""

    store: ExecutionStore
    execute: ExecuteAction
    settle: SettleUnknown
    recover: RecoverAccount
    brokers: Mapping[str, FollowBroker]
    slots: HoldSlots
    failures: list[BaseException] = field(default_factory=list)
    _known: dict[AccountId, BrokerAccount] = field(default_factory=dict)
    _working: set[AccountId] = field(default_factory=set)
    _settling: set[AccountId] = field(default_factory=set)
    _flagging: set[AccountId] = field(default_factory=set)
    _recovering: set[AccountId] = field(default_factory=set)
    _again: set[AccountId] = field(default_factory=set)
    _crowded: set[AccountId] = field(default_factory=set)
    _in_flight: Counter[AccountId] = field(default_factory=Counter)
    _calls: Counter[str] = field(default_factory=Counter)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(ACCOUNTS_AT_ONCE_MAX))
    # Apart from the doors: a broker that is slow to answer questions keeps nobody from trading.
    _looking: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(LOOKING_AT_ONCE_MAX))
    _closing: bool = False

    def hear(self, account_id: AccountId) -> None:
        """An account may have work."""
        if self._closing:
            return
        if account_id in self._working:
            self._again.add(account_id)
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
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _work(self, account_id: AccountId) -> None:
        try:
            account, broker = await self._look_up(account_id)
            room = self._room(account, broker)
            if room > 0 and broker.ready(account) and not self._closing:
                self._calls[account.broker] += room
                try:
                    async with self._places:
                        doors = await self.execute.open_doors(account, room)
                finally:
                    self._calls[account.broker] -= room
                for door in doors:
                    self._calls[account.broker] += 1
                    self._in_flight[account_id] += 1
                    self._start(self._dispatch(broker, door))
        finally:
            self._working.discard(account_id)
            if account_id in self._again:
                self._again.discard(account_id)
                self.hear(account_id)

    def _room(self, account: BrokerAccount, broker: FollowBroker) -> int:
        """How many doors may be opened: only for calls that can begin at once, since a door that waits grows stale."""
        limits = broker.definition.capabilities
        at_broker = limits.calls_at_once_max - self._calls[account.broker]
        if at_broker <= 0:
            self._crowded.add(account.account_id)
        return min(limits.in_flight_max - self._in_flight[account.account_id], at_broker, DOORS_AT_ONCE_MAX)

    async def _settle(self, account_id: AccountId) -> None:
        try:
            account, broker = await self._look_up(account_id)
            if broker.ready(account):
                async with self._looking:
                    await self.settle(account, broker.session, broker.definition.capabilities)
        finally:
            self._settling.discard(account_id)

    async def _flag(self, account_id: AccountId) -> None:
        try:
            account, broker = await self._look_up(account_id)
            async with self._places:
                await FlagUnknown(self.store, self.execute.hints)(account, broker.definition.capabilities)
        finally:
            self._flagging.discard(account_id)

    async def _recover(self, account_id: AccountId) -> None:
        try:
            account, broker = await self._look_up(account_id)
            if broker.ready(account):
                async with self._looking:
                    freed = await self.recover(account, broker.session, broker.definition.capabilities)
                if freed:
                    self.hear(account_id)
        finally:
            self._recovering.discard(account_id)

    async def _dispatch(self, broker: FollowBroker, door: Door) -> None:
        account_id = door.account.account_id
        try:
            await self.execute.dispatch(broker.session, door)
        finally:
            self._calls[door.account.broker] -= 1
            self._in_flight[account_id] -= 1
            if not self._in_flight[account_id]:
                del self._in_flight[account_id]
            self.hear(account_id)
            if self._crowded:
                self.hear(self._crowded.pop())

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
        if not task.cancelled() and (error := task.exception()) is not None:
            # The sweep comes back to the account; the process logs why it had to.
            self.failures.append(error)
