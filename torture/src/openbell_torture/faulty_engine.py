"""The exchange in memory, with faults that are decided by the ordinal of each command."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Final
from uuid import UUID

from openbell_exchange.decisions import DENIED_ALTHOUGH_DONE, Refusal
from openbell_exchange.faults import CommandKind, Fault, Oddity
from openbell_exchange.history import History
from openbell_exchange.memory import MemoryExchange, OrderUpdate
from openbell_exchange.money import buying_power
from openbell_exchange.terms import Symbol, Terms
from openbell_torture.alpaca.engine import AccountState, Broken, Cut, HeldPosition, NewOrder, RequestKind
from openbell_torture.alpaca.wire import Caller
from openbell_torture.faults import EndpointFault, Plan

# How long a command without an answer is kept waiting; many bots wait for ever.
_HANG_SECONDS: Final = 3.0
_RETRY_AFTER_SECONDS: Final = 1
# Limits the updates that wait for a client which does not read.
_UPDATES_MAX: Final = 10_000
# No answer is due before the feed reported it.
_FILL_FIRST_SECONDS: Final = 0.1
# Requests that are cut while the endpoint is away.
_AWAY_REQUESTS: Final = 3
# Look-ups that do not find a new order.
_UNSEEN_READS: Final = 2
# A late fill comes with this request after the order was accepted, or after this time without requests.
_LATE_REQUESTS: Final = 3
_LATE_SECONDS: Final = 0.5


class FaultyEngine:
    """Implements Engine. `met` is called with the fault of each command."""

    def __init__(self, plan: Plan, met: Callable[[Fault | EndpointFault, str | None], None]) -> None:
        self.exchange = MemoryExchange(self._publish)
        self._plan = plan.commands
        self._has = plan.has
        self._met = met
        self._commands: Counter[CommandKind] = Counter()
        self._feeds: set[asyncio.Queue[OrderUpdate | None]] = set()
        self._closing = asyncio.Event()
        # Commands without an answer that are done when the next one comes.
        self._late: list[Callable[[], None]] = []
        self._requests: Counter[RequestKind] = Counter()
        self._away = 0
        # By the number of the order: look-ups that do not find it yet, and requests until it fills.
        self._unseen: dict[int, int] = {}
        self._unfilled: dict[int, int] = {}

    def close(self) -> None:
        """End every wait; what fills late, fills."""
        self._closing.set()
        for number in list(self._unfilled):
            self._fill(number)

    async def admit(self, kind: RequestKind) -> None:
        """Cut or fail the request, as the plan has it for its ordinal among those of its kind."""
        self._requests[kind] += 1
        ordinal = str(self._requests[kind])
        for number in list(self._unfilled):
            self._unfilled[number] -= 1
            if not self._unfilled[number]:
                self._fill(number)
        if kind is RequestKind.COMMAND and not self._away and self._has(EndpointFault.RESTART, ordinal):
            self._away = _AWAY_REQUESTS + 1
            self._cut_feeds()
        if self._away:
            self._away -= 1
            if kind is not RequestKind.STREAM:
                self._met(EndpointFault.RESTART, None)
            raise Cut
        if kind is RequestKind.READ:
            if self._has(EndpointFault.READ_RESET, ordinal):
                self._met(EndpointFault.READ_RESET, None)
                raise Cut
            if self._has(EndpointFault.READ_ERROR, ordinal):
                self._met(EndpointFault.READ_ERROR, None)
                raise Broken

    async def submit(self, who: Caller, order: NewOrder) -> None:
        of = str(self._commands[CommandKind.SUBMIT] + 1)

        def act() -> None:
            is_late = self._has(EndpointFault.LATE_FILL, of)
            number = self.exchange.submit(
                who.account_id, order.client_order_id, order.symbol, order.side, order.spec, fills=not is_late
            )
            if is_late:
                self._unfilled[number] = _LATE_REQUESTS
                asyncio.get_running_loop().call_later(_LATE_SECONDS, self._fill, number)
            if self._has(EndpointFault.UNSEEN, of):
                self._unseen[number] = _UNSEEN_READS

        await self._perform(CommandKind.SUBMIT, act, order.client_order_id)

    async def replace(self, who: Caller, history: History, client_order_id: str, terms: Terms) -> None:
        del who
        await self._perform(CommandKind.REPLACE, lambda: self.exchange.replace(history.number, client_order_id, terms))

    async def cancel(self, who: Caller, history: History) -> None:
        del who
        fills_after = self._plan.is_odd(Oddity.FILL_AFTER_CANCEL, f"order {history.number}")

        def act() -> None:
            self.exchange.cancel(history.number)
            if fills_after:
                self.exchange.fill_rest(history.number)

        await self._perform(CommandKind.CANCEL, act)

    async def named(self, account_id: UUID, client_order_id: str) -> tuple[int, int] | None:
        return self.exchange.named(account_id, client_order_id)

    async def history(self, number: int) -> History | None:
        return self.exchange.history(number)

    async def find(self, who: Caller, number: int) -> History | None:
        history = self.exchange.history(number)
        return history if history is not None and history.account_id == who.account_id and self._sees(number) else None

    async def list_orders(self, who: Caller) -> list[History]:
        return [history for history in self.exchange.list_orders(who.account_id) if self._sees(history.number)]

    async def state(self, account_id: UUID) -> AccountState:
        standing = self.exchange.standing(account_id)
        held = [holding for holding in standing.holdings.values() if holding.quantity]
        return AccountState(
            cash=standing.cash,
            buying_power=buying_power(standing.cash, standing.holdings.values()),
            fees=standing.fees,
            positions=[HeldPosition(holding.symbol, holding.quantity, holding.price) for holding in held],
        )

    async def position(self, account_id: UUID, symbol: str) -> Decimal:
        return self.exchange.position(account_id, Symbol(symbol))

    async def price(self, symbol: Symbol) -> Decimal:
        return self.exchange.quote(symbol).price

    @asynccontextmanager
    async def updates(self) -> AsyncIterator[AsyncIterator[OrderUpdate]]:
        feed: asyncio.Queue[OrderUpdate | None] = asyncio.Queue(_UPDATES_MAX)
        self._feeds.add(feed)
        try:
            yield _until_cut(feed)
        finally:
            self._feeds.discard(feed)

    async def _perform(self, kind: CommandKind, act: Callable[[], None], name: str | None = None) -> None:
        """Do the command, or not, and answer, or not, as the plan has it for the ordinal of the command."""
        self._commands[kind] += 1
        ordinal = str(self._commands[kind])
        fault = self._plan.fault_of(kind, ordinal)
        self._met(fault, name)
        self._catch_up()
        if delay := self._plan.delay_seconds(kind, ordinal):
            await self._wait(delay)
        if fault is Fault.DONE_LATE:
            self._late.append(act)
        if fault in {Fault.HANG, Fault.DONE_LATE}:
            await self._wait(_HANG_SECONDS)
            raise Cut
        if fault in {Fault.TOO_MANY, Fault.TOO_MANY_UNTIL}:
            wait = _RETRY_AFTER_SECONDS if fault is Fault.TOO_MANY_UNTIL else None
            raise Refusal("too_many_requests", "too many requests; nothing was done", wait)
        if fault is Fault.REFUSE:
            raise Refusal("refused", "the plan refuses this command")
        act()
        await self._answer(fault)

    async def _answer(self, fault: Fault) -> None:
        """Raises what the client gets in place of the answer, if it gets another."""
        if fault is Fault.DONE_THEN_ALL_RESET:
            self._cut_feeds()
        if fault is Fault.DONE_THEN_HANG:
            await self._wait(_HANG_SECONDS)
        if fault in {Fault.DONE_THEN_HANG, Fault.DONE_THEN_RESET, Fault.DONE_THEN_ALL_RESET}:
            raise Cut
        if fault is Fault.DONE_THEN_ERROR:
            raise Broken
        if fault is Fault.DONE_THEN_DENIED:
            raise Refusal(DENIED_ALTHOUGH_DONE, "refused, although it was done")
        if fault is Fault.DONE_THEN_WAIT:
            await asyncio.sleep(_FILL_FIRST_SECONDS)

    async def _wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), seconds)

    def _sees(self, number: int) -> bool:
        if not self._unseen.get(number):
            return True
        self._unseen[number] -= 1
        self._met(EndpointFault.UNSEEN, None)
        return False

    def _fill(self, number: int) -> None:
        self._unfilled.pop(number, None)
        self.exchange.match_rest(number)

    def _catch_up(self) -> None:
        late, self._late = self._late, []
        for act in late:
            with contextlib.suppress(Refusal):
                act()

    def _publish(self, update: OrderUpdate) -> None:
        is_repeated = self._plan.is_odd(Oddity.DUPLICATE_FILLS, f"order {update.order_number}")
        for feed in self._feeds:
            for _ in range(2 if is_repeated else 1):
                if not feed.full():
                    feed.put_nowait(update)

    def _cut_feeds(self) -> None:
        for feed in self._feeds:
            if not feed.full():
                feed.put_nowait(None)


async def _until_cut(feed: "asyncio.Queue[OrderUpdate | None]") -> AsyncIterator[OrderUpdate]:
    while (update := await feed.get()) is not None:
        yield update
    raise Cut
