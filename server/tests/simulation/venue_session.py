"""A session with the simulated broker: calls that may hang, and a feed that can be cut, fall mute and come back."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from openbell_server.application.ports.broker import BrokerOrder, BrokerReplacement, FeedItem
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.credentials import Secrets, SignedIn, SignInRefused
from openbell_server.domain.identifiers import AccountId, Symbol
from openbell_server.domain.markets.instruments import BrokerPosition, Instrument, Quote
from openbell_server.domain.money.balances import Balances
from openbell_server.domain.orders.broker_reports import NotSent, OrderName, OrderReport, Outcome
from simulation.loop import PROCESS, is_alive
from simulation.venue import Reply, Venue, Write

RECONNECT_SECONDS = 0.5


@dataclass(eq=False, slots=True)
class VenueSession:
    """Implements BrokerSession for one process."""

    venue: Venue
    is_connected: bool = False
    # Open, and nothing comes: whoever watches the heartbeat cuts it in the end.
    is_mute: bool = False
    signed_in: dict[AccountId, str] = field(default_factory=dict)
    # Accounts that must sign in before the broker does anything for them.
    locked: frozenset[AccountId] = frozenset()
    unheard: Collection[AccountId] = ()
    _items: deque[FeedItem] = field(default_factory=deque)
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)

    async def submit(self, order: BrokerOrder) -> Outcome:
        """Ask for a new order."""
        write = self._write("submit", order.client_order_id, order.client_order_id)
        return await self._call(write, order.account_id, lambda reply: self.venue.submit(order, reply))

    async def replace(self, replacement: BrokerReplacement) -> Outcome:
        """Ask that a working order be changed."""
        write = self._write("replace", replacement.client_order_id, replacement.order.client_order_id)

        def arrive(reply: Reply) -> None:
            self.venue.replace(self.venue.find_order(replacement.order), replacement, reply)

        return await self._call(write, replacement.account_id, arrive)

    async def cancel(self, account_id: AccountId, order: OrderName, valid_until: datetime) -> Outcome:
        """Ask for the end of an order."""
        write = self._write("cancel", order.client_order_id, order.client_order_id)

        def arrive(reply: Reply) -> None:
            self.venue.cancel(self.venue.find_order(order), valid_until, reply)

        return await self._call(write, account_id, arrive)

    async def find(self, account_id: AccountId, order: OrderName) -> OrderReport | None:
        """The order as a look-up shows it."""
        await self._ask(account_id)
        if not (self.venue.profile.keeps_ids or order.broker_order_ids):
            raise LookupError("the broker knows its own ids only, and has told none")
        return self.venue.find(self.venue.find_order(order))

    async def orders_since(self, account_id: AccountId, since: datetime) -> list[OrderReport]:
        """Every order of the account that a look-up shows."""
        del since
        await self._ask(account_id)
        orders = [order for order in self.venue.orders.values() if order.account_id == account_id]
        return [report for order in orders if (report := self.venue.find(order)) is not None]

    async def positions(self, account_id: AccountId) -> list[BrokerPosition]:
        """As they are: its list of orders may lag behind."""
        await self._ask(account_id)
        return self.venue.positions(account_id)

    async def balances(self, account_id: AccountId) -> Balances:
        """What every fill left of nothing; nobody knows a price."""
        await self._ask(account_id)
        return self.venue.balances(account_id)

    async def instruments(self, account_id: AccountId, symbols: Sequence[Symbol]) -> list[Instrument]:
        """Nobody asks."""
        raise NotImplementedError

    async def quotes(self, account_id: AccountId, symbols: Sequence[Symbol]) -> list[Quote]:
        """Nobody asks."""
        raise NotImplementedError

    def listen_again(self, accounts: Collection[AccountId]) -> None:
        """No account has a feed of its own."""

    async def sign_in(
        self, account_id: AccountId, environment: Environment, secrets: Secrets
    ) -> SignedIn | SignInRefused:
        """Be let in."""
        del environment
        await self._trip()
        self.signed_in[account_id] = secrets["key_id"]
        return SignedIn()

    async def sign_out(self, account_id: AccountId) -> None:
        """Be let out."""
        await self._trip()
        self.signed_in.pop(account_id, None)

    def reports(self) -> AsyncIterator[FeedItem]:
        """The feed, as it comes from now on."""
        self._items.clear()
        if self.is_connected:
            self._put(None)
        return self

    def __aiter__(self) -> AsyncIterator[FeedItem]:
        """Begin to read."""
        return self

    async def __anext__(self) -> FeedItem:
        """The next report, or the word that the feed stands."""
        while not self._items:
            self._arrived.clear()
            await self._arrived.wait()
        return self._items.popleft()

    async def close(self) -> None:
        """Let go."""
        self.cut()

    # ---- what the world does to it

    def connect(self) -> None:
        """From here on everything is told."""
        self.venue.listeners[self] = self._deliver
        self.is_connected, self.is_mute = True, False
        self._put(None)

    def cut(self) -> None:
        """Lose the connection and what was on its way."""
        self.venue.listeners.pop(self, None)
        self.is_connected = False

    def _deliver(self, account_id: AccountId, report: OrderReport) -> None:
        if self.is_connected and not self.is_mute:
            self._put((account_id, report))

    def _put(self, item: FeedItem) -> None:
        self._items.append(item)
        self._arrived.set()

    def _write(self, command: str, command_id: str, order_id: str) -> Write:
        return Write(at=asyncio.get_running_loop().time(), command=command, command_id=command_id, order_id=order_id)

    async def _call(self, write: Write, account_id: AccountId, arrive: Callable[[Reply], None]) -> Outcome:
        # A pause can come between the last look at the clock and the socket.
        await asyncio.sleep(0)
        if not self.is_connected or self.venue._happens(self.venue.faults.busy):
            return NotSent("429, or no connection")
        if account_id in self.locked and account_id not in self.signed_in:
            return NotSent("not signed in")
        assert is_alive(), f"{PROCESS.get()} is dead"
        return await self.venue.send(write, arrive)

    async def _ask(self, account_id: AccountId) -> None:
        await self._trip()
        if account_id in self.locked and account_id not in self.signed_in:
            raise PermissionError("sign in first")
        if not self.is_connected or self.venue._happens(self.venue.faults.failing):
            raise ConnectionResetError("reset by peer")

    async def _trip(self) -> None:
        await asyncio.sleep(self.venue._within(0.05))
