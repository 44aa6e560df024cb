"""What may be sent to one broker now: calls at once, calls in a second, a reserve, and pauses that it asks for."""

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
from openbell_server.domain.accounts import Environment
from openbell_server.domain.broker_orders import NotSent, OrderName, OrderReport, Outcome
from openbell_server.domain.credentials import Secrets, SignedIn, SignInRefused
from openbell_server.domain.identifiers import AccountId, Symbol
from openbell_server.domain.instruments import BrokerPosition, Instrument, Quote

# A broker that asks for calm again and again without saying for how long gets it for 1, 2, 4 … seconds.
PAUSE_SECONDS: Final = 1.0
# Longer than this no broker is taken at its word: one command finds out.
PAUSE_SECONDS_MAX: Final = 60.0
TURN_SECONDS: Final = 0.02


class Use(Enum):
    """What a call is for."""

    # Opens or changes an order.
    COMMAND = "command"
    CANCEL = "cancel"
    # Look-ups, lists and sign-ins.
    LOOK_UP = "look_up"


@dataclass(frozen=True, slots=True)
class Room:
    """How many calls may begin now, and how many of them may be other than cancels."""

    calls: int
    commands: int

    def at_most(self, calls: int, commands: int) -> "Room":
        """The same within other limits."""
        within = max(0, min(self.calls, calls))
        return Room(within, max(0, min(self.commands, commands, within)))


@dataclass(slots=True)
class BrokerBudget:
    """Counts the calls of one session; nobody waits here, and nothing of another broker is known."""

    capabilities: BrokerCapabilities
    monotonic: Callable[[], float]
    _under_way: Counter[Use] = field(default_factory=Counter)
    # Places that are kept for doors about to open.
    _kept: Room = Room(0, 0)
    # When calls began and whether they were commands, for as long as they count.
    _begun: deque[tuple[float, Use]] = field(default_factory=deque)
    _paused_until: float = float("-inf")
    # How often the broker asked for calm since it last took a command.
    _slow_downs: int = 0

    @property
    def is_paused(self) -> bool:
        """Whether no new order may be sent, because the broker asked for calm."""
        return self.monotonic() < self._paused_until

    def room(self) -> Room:
        """What may begin now besides what is under way and what was kept; a pause is for commands only."""
        limits = self._limits()
        calls = min(limit - used.total() for limit, used in limits) - self._kept.calls
        commands = min(limit - self._reserved(limit) - used[Use.COMMAND] for limit, used in limits)
        if self.is_paused:
            commands = 0
        elif self._slow_downs:
            # One goes first, and shows whether the broker takes more.
            commands = min(commands, 1 - self._under_way[Use.COMMAND])
        return Room(calls, commands).at_most(calls, commands - self._kept.commands)

    def may_begin(self, use: Use) -> bool:
        """Whether such a call may begin now; of the reserve, half is for cancels alone."""
        room = self.room()
        if use is Use.COMMAND:
            return room.commands > 0
        if use is Use.CANCEL:
            return room.calls > 0
        return all(
            limit - used.total() - self._kept.calls > self._reserved(limit) // 2 for limit, used in self._limits()
        )

    def keep(self, room: Room) -> None:
        """Keep places for doors that are about to open."""
        self._kept = Room(self._kept.calls + room.calls, self._kept.commands + room.commands)

    def let_go(self, room: Room) -> None:
        """Give back places that were kept."""
        self._kept = Room(self._kept.calls - room.calls, self._kept.commands - room.commands)

    def begin(self, use: Use) -> None:
        """A call begins."""
        self._under_way[use] += 1
        if self.capabilities.calls_per_second_max is not None:
            self._begun.append((self.monotonic(), use))

    def end(self, use: Use) -> None:
        """A call has ended."""
        self._under_way[use] -= 1

    def hear(self, use: Use, outcome: Outcome) -> None:
        """Learn from an answer whether the broker wants calm, or takes commands again."""
        if isinstance(outcome, NotSent) and outcome.retry_after is not None:
            self.slow_down(outcome.retry_after)
        elif use is Use.COMMAND and not isinstance(outcome, NotSent):
            self._slow_downs = 0

    def slow_down(self, seconds: float) -> None:
        """Send no new order for so long, or longer each time where the broker goes on asking."""
        # Calls that were under way together are turned away together: that is one request for calm.
        if not self.is_paused:
            if self._slow_downs or seconds <= 0:
                seconds = max(seconds, PAUSE_SECONDS * 2 ** min(self._slow_downs, 10))
            self._slow_downs += 1
        self._paused_until = max(self._paused_until, self.monotonic() + min(PAUSE_SECONDS_MAX, seconds))

    def _reserved(self, limit: int) -> int:
        """How many of so many calls no command may use; one of a single one would leave nothing."""
        return min(limit - 1, math.ceil(limit * self.capabilities.calls_reserved))

    def _limits(self) -> list[tuple[int, Counter[Use]]]:
        """Every limit, and what counts against it: calls at once, and those of the last second."""
        limits = [(self.capabilities.calls_at_once_max, self._under_way)]
        rate = self.capabilities.calls_per_second_max
        if rate is not None:
            # Less than one call in a second is one in a longer time.
            since = self.monotonic() - max(1.0, 1.0 / rate)
            while self._begun and self._begun[0][0] <= since:
                self._begun.popleft()
            limits.append((max(1, math.floor(rate)), Counter(use for _, use in self._begun)))
        return limits


class BudgetedSession:
    """Implements BrokerSession by another one, for all who send through no door: every call waits for its turn."""

    def __init__(self, session: BrokerSession, budget: BrokerBudget) -> None:
        """Calls count against the budget."""
        self._session = session
        self._budget = budget
        # Of each use, whoever waits longest is next; a cancel waits behind no look-up.
        self._queues = {use: asyncio.Lock() for use in Use}

    @property
    def is_connected(self) -> bool:
        """Whether the feed stands."""
        return self._session.is_connected

    @property
    def unheard(self) -> Collection[AccountId]:
        """Accounts whose own feed does not stand."""
        return self._session.unheard

    async def submit(self, order: BrokerOrder) -> Outcome:
        """Ask for a new order, once more."""
        return await self._command(lambda: self._session.submit(order))

    async def replace(self, replacement: BrokerReplacement) -> Outcome:
        """Ask that a working order be changed, once more."""
        return await self._command(lambda: self._session.replace(replacement))

    async def cancel(self, account_id: AccountId, order: OrderName, valid_until: datetime) -> Outcome:
        """Ask for the end of an order, once more."""
        async with self._turn(Use.CANCEL):
            outcome = await self._session.cancel(account_id, order, valid_until)
        self._budget.hear(Use.CANCEL, outcome)
        return outcome

    async def find(self, account_id: AccountId, order: OrderName) -> OrderReport | None:
        """The order with all its executions."""
        async with self._turn(Use.LOOK_UP):
            return await self._session.find(account_id, order)

    async def orders_since(self, account_id: AccountId, since: datetime) -> list[OrderReport]:
        """Every order since a time."""
        async with self._turn(Use.LOOK_UP):
            return await self._session.orders_since(account_id, since)

    async def positions(self, account_id: AccountId) -> list[BrokerPosition]:
        """What the account holds."""
        async with self._turn(Use.LOOK_UP):
            return await self._session.positions(account_id)

    async def instruments(self, account_id: AccountId, symbols: Sequence[Symbol]) -> list[Instrument]:
        """What of these the broker trades."""
        async with self._turn(Use.LOOK_UP):
            return await self._session.instruments(account_id, symbols)

    async def quotes(self, account_id: AccountId, symbols: Sequence[Symbol]) -> list[Quote]:
        """The latest prices of these."""
        async with self._turn(Use.LOOK_UP):
            return await self._session.quotes(account_id, symbols)

    async def sign_in(
        self, account_id: AccountId, environment: Environment, secrets: Secrets
    ) -> SignedIn | SignInRefused:
        """Use these secrets for the account."""
        async with self._turn(Use.LOOK_UP):
            return await self._session.sign_in(account_id, environment, secrets)

    async def sign_out(self, account_id: AccountId) -> None:
        """Forget the account's secrets."""
        async with self._turn(Use.LOOK_UP):
            await self._session.sign_out(account_id)

    def reports(self) -> AsyncIterator[FeedItem]:
        """Reports as they come."""
        return self._session.reports()

    def listen_again(self, accounts: Collection[AccountId]) -> None:
        """Begin the own feeds of these accounts anew."""
        self._session.listen_again(accounts)

    async def close(self) -> None:
        """Let go of the connection."""
        await self._session.close()

    async def _command(self, send: Callable[[], Awaitable[Outcome]]) -> Outcome:
        """A command does not wait, since it grows old: without room nothing is sent."""
        if self._budget.room().commands <= 0:
            return NotSent("no more calls to the broker for now")
        self._budget.begin(Use.COMMAND)
        try:
            outcome = await send()
        finally:
            self._budget.end(Use.COMMAND)
        self._budget.hear(Use.COMMAND, outcome)
        return outcome

    @asynccontextmanager
    async def _turn(self, use: Use) -> AsyncIterator[None]:
        async with self._queues[use]:
            while not self._budget.may_begin(use):  # noqa: ASYNC110
                # Nobody announces that a second has passed.
                await asyncio.sleep(TURN_SECONDS)
            self._budget.begin(use)
        try:
            yield
        except SlowDown as asked:
            self._budget.slow_down(asked.retry_after)
            raise
        finally:
            self._budget.end(use)
