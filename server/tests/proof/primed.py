"""A book that is primed while much is written equals the sum of the whole log, and at rest what the lists say."""

import asyncio
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Any

from openbell import AsyncClient, Event, Limit
from openbell.events.mirror import AsyncMirror, Book
from openbell.events.records import BrokerOrder
from openbell.events.subscriptions import Transport
from openbell_server.devtools.local_platform import LocalPlatform
from proof.books import event_heads, resting_orders
from proof.figures import Figures
from proof.load import accounts_of, clients, submit_mixed

ACCOUNTS = 2
WRITERS_PER_ACCOUNT = 4
PRIMED_AT_ONCE = 3
TRANSPORTS: tuple[Transport, ...] = ("grpc", "sse")
# So many events are followed after what stood.
FOLLOWED = 25
# A writer leaves so many orders open, and cancels its oldest.
RESTING_MAX = 8
WAIT_SECONDS = 120
POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Published:
    """What a book said was open and held after an event."""

    account_seq: int
    orders: dict[str, dict[str, Any]]
    positions: dict[str, Decimal]


@dataclass
class Log:
    """All events of an account, and books that were primed beside it."""

    account_id: str
    events: list[Event] = field(default_factory=list)
    told: list[Published] = field(default_factory=list)

    grown: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def follow(self, client: AsyncClient) -> None:
        async for event in client.events(account_id=self.account_id, start="BEGINNING"):
            async with self.grown:
                self.events.append(event)
                self.grown.notify_all()

    async def has_come_to(self, account_seq: int) -> None:
        async with asyncio.timeout(WAIT_SECONDS), self.grown:
            await self.grown.wait_for(lambda: len(self.events) >= account_seq)

    def unlike(self) -> int:
        """How many books are not what all events up to theirs add up to."""
        book, events, wrong = Book(), iter(self.events), 0
        for told in sorted(self.told, key=lambda each: each.account_seq):
            while book.account_seq < told.account_seq:
                book.apply(next(events))
            wrong += told != _told(book)
        return wrong


async def prove_primed(figures: Figures, platform: LocalPlatform, count: int) -> None:
    """Prime again and again beside the writers; then let them rest, and compare."""
    logs = [Log(account_id) for account_id in accounts_of(platform)[:ACCOUNTS]]
    async with clients(platform, len(logs) * WRITERS_PER_ACCOUNT + 1) as (reader, *writers):
        before = sum((await event_heads(platform)).values())
        following = [asyncio.ensure_future(log.follow(reader)) for log in logs]
        with _writing(writers, logs) as writing:
            numbers = iter(range(count))
            await asyncio.gather(*(_prime(reader, log, numbers) for log in logs for _ in range(PRIMED_AT_ONCE)))
        resting = {intent_id for left in await asyncio.gather(*writing) for intent_id in left}
        written = sum((await event_heads(platform)).values()) - before
        at_rest = await _at_rest(platform, reader, logs, resting)
        for follower in following:
            follower.cancel()
        await asyncio.gather(*following, return_exceptions=True)
    told = [each for log in logs for each in log.told]
    # Each was looked at twice, and each list once.
    figures.at_least("books primed while much was written", (len(told) - len(logs)) // 2, count)
    figures.shown("events written meanwhile", written)
    figures.at_least("most orders open in such a book", max(len(each.orders) for each in told), 1)
    figures.at_least("most symbols held in such a book", max(len(each.positions) for each in told), 1)
    figures.exactly("books unlike the sum of the whole log", sum(log.unlike() for log in logs), 0)
    figures.at_least("orders open when all rests", len(resting), 1)
    figures.exactly("books unlike the lists of orders and positions then", at_rest, 0)


@contextmanager
def _writing(writers: list[AsyncClient], logs: list[Log]) -> "Iterator[list[asyncio.Future[list[str]]]]":
    """Writers on every account, until it ends; each then says which orders it left open."""
    stopped = asyncio.Event()
    yield [
        asyncio.ensure_future(_write(writer, log.account_id, stopped))
        for writer, log in zip(writers, itertools.cycle(logs), strict=False)
    ]
    stopped.set()


async def _write(client: AsyncClient, account_id: str, stopped: asyncio.Event) -> list[str]:
    """Orders that fill, rest, are cancelled at once, after a while, or replaced."""
    resting: list[str] = []
    for number in itertools.count():
        await submit_mixed(client, account_id, number)
        action = await client.buy("SPY", Limit(5, price="0.01"), account_id=account_id)
        resting.append(action.intent_id)
        if len(resting) > RESTING_MAX:
            await client.cancel_intent(resting.pop(0), account_id=account_id)
            await client.replace_intent(resting[0], Limit(6, price="0.02"), account_id=account_id)
        if stopped.is_set():
            break
    return resting


async def _prime(client: AsyncClient, log: Log, numbers: Iterator[int]) -> None:
    for number in numbers:
        async with client.mirror(account_id=log.account_id, transport=TRANSPORTS[number % 2]) as mirror:
            first = _told(mirror)
            until = first.account_seq + FOLLOWED
            await mirror.wait(partial(_has_come_to, until), WAIT_SECONDS)
            log.told += [first, _told(mirror)]


def _has_come_to(account_seq: int, book: Book) -> bool:
    return book.account_seq >= account_seq


async def _at_rest(platform: LocalPlatform, client: AsyncClient, logs: list[Log], resting: set[str]) -> int:
    """Wait until nothing more happens; how many books, primed now or followed all along, differ from the lists."""
    deadline = asyncio.get_running_loop().time() + WAIT_SECONDS
    while {intent_id for _, intent_id in await resting_orders(platform)} != resting:
        if asyncio.get_running_loop().time() > deadline:
            break
        await asyncio.sleep(POLL_SECONDS)
    pairs = [await _listed_and_primed(client, log, deadline) for log in logs]
    return sum(listed != primed for listed, primed in pairs)


async def _listed_and_primed(client: AsyncClient, log: Log, deadline: float) -> tuple[Published, Published]:
    """Both after the same event: balances are logged some seconds after the last fill."""
    while True:
        listed = await _listed(client, log.account_id)
        async with client.mirror(account_id=log.account_id) as mirror:
            primed = _told(mirror)
        if listed.account_seq == primed.account_seq or asyncio.get_running_loop().time() > deadline:
            break
    await log.has_come_to(listed.account_seq)
    log.told.append(listed)
    return listed, primed


async def _listed(client: AsyncClient, account_id: str) -> Published:
    """What the lists say; that of positions tells after which event."""
    held = await client.positions(account_id=account_id)
    orders = [order async for order in client.orders(account_id=account_id, status="WORKING")]
    return Published(
        held.account_seq,
        {order.intent_id: _words(order) for order in orders},
        {each.symbol: each.quantity for each in held.data if each.quantity},
    )


def _told(book: Book | AsyncMirror) -> Published:
    orders = {intent_id: _words(order) for intent_id, order in book.orders.items()}
    return Published(book.account_seq, orders, dict(book.positions))


def _words(order: BrokerOrder) -> dict[str, Any]:
    """Why an order changed is told with the change, and is not part of what stands."""
    return {name: getattr(order, name) for name in BrokerOrder.__struct_fields__ if name not in ("reason", "notices")}
