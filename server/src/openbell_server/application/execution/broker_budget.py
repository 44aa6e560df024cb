"""Limits of the calls to one broker: concurrent calls, calls per second, a reserve, and requested pauses."""

import asyncio
import math
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Final

from openbell_server.application.ports.broker import (
    BrokerCapabilities,
    BrokerOrder,
    BrokerReplacement,
    BrokerSession,
    FeedItem,
    SlowDown,
)
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.credentials import Secrets, SignedIn, SignInRefused
from openbell_server.domain.identifiers import AccountId, Symbol
from openbell_server.domain.markets.instruments import BrokerPosition, Instrument, Quote
from openbell_server.domain.money.balances import Balances
from openbell_server.domain.orders.broker_reports import NotSent, OrderName, OrderReport, Outcome

# If a broker repeats a request to slow down without a time, the pauses are 1, 2, 4 … seconds.
PAUSE_SECONDS: Final = 1.0
# A longer pause is cut to this; then one command tests whether the broker accepts more.
PAUSE_SECONDS_MAX: Final = 60.0
TURN_SECONDS: Final = 0.02


class Use(Enum):
    # Creates or changes an order.
    COMMAND = "command"
    CANCEL = "cancel"
    # Look-ups, lists and sign-ins.
    LOOK_UP = "look_up"


@dataclass(frozen=True, slots=True)
class Room:
    """How many calls may start now, and how many of them may be other than cancels."""

    calls: int
    commands: int

    def at_most(self, calls: int, commands: int) -> "Room":
        within = max(0, min(self.calls, calls))
        return Room(within, max(0, min(self.commands, commands, within)))


@dataclass(slots=True)
class BrokerBudget:
    """Counts the calls of one session; never waits."""

    capabilities: BrokerCapabilities
    monotonic: Callable[[], float]
    _under_way: Counter[Use] = field(default_factory=Counter)
    # Places reserved for doors that are about to open.
    _kept: Room = Room(0, 0)
    # Start times and uses of calls that count for the rate.
    _begun: deque[tuple[float, Use]] = field(default_factory=deque)
    _paused_until: float = float("-inf")
    # Requests to slow down since the broker last accepted a command.
    _slow_downs: int = 0

    @property
    def is_paused(self) -> bool:
        """Whether commands are paused at the broker's request."""
        return self.monotonic() < self._paused_until

    def room(self) -> Room:
        """What may start now, without running and reserved calls; a pause applies to commands only."""
        limits = self._limits()
        calls = min(limit - used.total() for limit, used in limits) - self._kept.calls
        commands = min(limit - self._reserved(limit) - used[Use.COMMAND] for limit, used in limits)
        if self.is_paused:
            commands = 0
        elif self._slow_downs:
            # One command at a time, until the broker accepts one.
            commands = min(commands, 1 - self._under_way[Use.COMMAND])
        return Room(calls, commands).at_most(calls, commands - self._kept.commands)

    def may_begin(self, use: Use) -> bool:
        """Whether such a call may start now; half of the reserve is for cancels only."""
        room = self.room()
        if use is Use.COMMAND:
            return room.commands > 0
        if use is Use.CANCEL:
            return room.calls > 0
        return all(
            limit - used.total() - self._kept.calls > self._reserved(limit) // 2 for limit, used in self._limits()
        )

    def keep(self, room: Room) -> None:
        """Reserve places for doors that are about to open."""
        self._kept = Room(self._kept.calls + room.calls, self._kept.commands + room.commands)

    def let_go(self, room: Room) -> None:
        self._kept = Room(self._kept.calls - room.calls, self._kept.commands - room.commands)

    def begin(self, use: Use) -> None:
        self._under_way[use] += 1
        if self.capabilities.calls_per_second_max is not None:
            self._begun.append((self.monotonic(), use))

    def end(self, use: Use) -> None:
        self._under_way[use] -= 1

    def notify(self, use: Use, outcome: Outcome) -> None:
        """Start a pause if the answer requests one; an accepted command ends the slow start."""
        if isinstance(outcome, NotSent) and outcome.retry_after is not None:
            self.slow_down(outcome.retry_after)
        elif use is Use.COMMAND and not isinstance(outcome, NotSent):
            self._slow_downs = 0

    def slow_down(self, seconds: float) -> None:
        """Pause commands for so many seconds, longer with each repeated request."""
        # Concurrent calls are refused together, which counts as one request.
        if not self.is_paused:
            if self._slow_downs or seconds <= 0:
                seconds = max(seconds, PAUSE_SECONDS * 2 ** min(self._slow_downs, 10))
            self._slow_downs += 1
        self._paused_until = max(self._paused_until, self.monotonic() + min(PAUSE_SECONDS_MAX, seconds))

    def _reserved(self, limit: int) -> int:
        """Calls of a limit that commands may not use; at least one is left for commands."""
        return min(limit - 1, math.ceil(limit * self.capabilities.calls_reserved))

    def _limits(self) -> list[tuple[int, Counter[Use]]]:
        """Each limit with the calls that count against it: concurrent calls, and those of the last second."""
        limits = [(self.capabilities.calls_at_once_max, self._under_way)]
        rate = self.capabilities.calls_per_second_max
        if rate is not None:
            # A rate below 1 means one call in a longer time.
            since = self.monotonic() - max(1.0, 1.0 / rate)
            while self._begun and self._begun[0][0] <= since:
                self._begun.popleft()
            limits.append((max(1, math.floor(rate)), Counter(use for _, use in self._begun)))
        return limits


class BudgetedSession:
    """A BrokerSession whose calls wait for the budget; used for every call outside the dispatcher."""

    def __init__(self, session: BrokerSession, budget: BrokerBudget) -> None:
        self._session = session
        self._budget = budget
        # One queue per use, so that a cancel does not wait behind look-ups.
        self._queues = {use: asyncio.Lock() for use in Use}

    @property
    def is_connected(self) -> bool:
        return self._session.is_connected

    @property
    def unheard(self) -> Collection[AccountId]:
        return self._session.unheard

    async def submit(self, order: BrokerOrder) -> Outcome:
        return await self._command(lambda: self._session.submit(order))

    async def replace(self, replacement: BrokerReplacement) -> Outcome:
        return await self._command(lambda: self._session.replace(replacement))

    async def cancel(self, account_id: AccountId, order: OrderName, valid_until: datetime) -> Outcome:
        async with self._turn(Use.CANCEL):
            outcome = await self._session.cancel(account_id, order, valid_until)
        self._budget.notify(Use.CANCEL, outcome)
        return outcome

    async def find(self, account_id: AccountId, order: OrderName) -> OrderReport | None:
        async with self._turn(Use.LOOK_UP):
            return await self._session.find(account_id, order)

    async def orders_since(self, account_id: AccountId, since: datetime) -> list[OrderReport]:
        async with self._turn(Use.LOOK_UP):
            return await self._session.orders_since(account_id, since)

    async def positions(self, account_id: AccountId) -> list[BrokerPosition]:
        async with self._turn(Use.LOOK_UP):
            return await self._session.positions(account_id)

    async def balances(self, account_id: AccountId) -> Balances:
        async with self._turn(Use.LOOK_UP):
            return await self._session.balances(account_id)

    async def instruments(self, account_id: AccountId, symbols: Sequence[Symbol]) -> list[Instrument]:
        async with self._turn(Use.LOOK_UP):
            return await self._session.instruments(account_id, symbols)

    async def quotes(self, account_id: AccountId, symbols: Sequence[Symbol]) -> list[Quote]:
        async with self._turn(Use.LOOK_UP):
            return await self._session.quotes(account_id, symbols)

    async def sign_in(
        self, account_id: AccountId, environment: Environment, secrets: Secrets
    ) -> SignedIn | SignInRefused:
        async with self._turn(Use.LOOK_UP):
            return await self._session.sign_in(account_id, environment, secrets)

    async def sign_out(self, account_id: AccountId) -> None:
        async with self._turn(Use.LOOK_UP):
            await self._session.sign_out(account_id)

    def reports(self) -> AsyncIterator[FeedItem]:
        return self._session.reports()

    def listen_again(self, accounts: Collection[AccountId]) -> None:
        self._session.listen_again(accounts)

    async def close(self) -> None:
        await self._session.close()

    async def _command(self, send: Callable[[], Awaitable[Outcome]]) -> Outcome:
        """A command does not wait, because its door expires: without room it is not sent."""
        if self._budget.room().commands <= 0:
            return NotSent("no more calls to the broker for now")
        self._budget.begin(Use.COMMAND)
        try:
            outcome = await send()
        finally:
            self._budget.end(Use.COMMAND)
        self._budget.notify(Use.COMMAND, outcome)
        return outcome

    @asynccontextmanager
    async def _turn(self, use: Use) -> AsyncIterator[None]:
        async with self._queues[use]:
            while not self._budget.may_begin(use):  # noqa: ASYNC110
                # The rate limit has no event to wait for, so this polls.
                await asyncio.sleep(TURN_SECONDS)
            self._budget.begin(use)
        try:
            yield
        except SlowDown as asked:
            self._budget.slow_down(asked.retry_after)
            raise
        finally:
            self._budget.end(use)
