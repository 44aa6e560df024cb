"""Load on a running platform: many clients, mixed intents, and followers that cut their own streams."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from uuid import UUID

import grpc
import httpx

from openbell import Action, AsyncClient, Limit, Market
from openbell.connection import DEFAULT_TIMEOUT
from openbell.intents.requests import SubmitOptions
from openbell.wire import trading_pb2 as pb
from openbell.wire import trading_pb2_grpc
from openbell_server.adapters.postgres.connection import open_pool
from openbell_server.application.events.open_streams import STREAMS_OF_CALLER_MAX
from openbell_server.devtools.local_platform import LocalPlatform
from openbell_server.transport.stream.event_messages import KINDS
from proof.waiting import until_none_left
from support.builders.tenant import a_key

SYMBOLS = ("AAPL", "MSFT", "NVDA", "BRK.B", "SPY")
FRAME_SECONDS = 120
RECONNECT_SECONDS = 0.2
# One caller may have only so many, and one that was cut may not have ended when the next begins.
STREAMS_OF_KEY = STREAMS_OF_CALLER_MAX // 2
# What a stream ends with when its server is gone; anything else is a fault.
_GONE = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN})
# gRPC would otherwise wait longer after each failure, up to two minutes.
_CHANNEL = (("grpc.initial_reconnect_backoff_ms", 200), ("grpc.max_reconnect_backoff_ms", 1000))


@asynccontextmanager
async def clients(
    platform: LocalPlatform,
    count: int,
    *,
    timeout: float = DEFAULT_TIMEOUT,
    transport_of: Callable[[int], httpx.AsyncBaseTransport | None] = lambda _: None,
) -> AsyncIterator[list[AsyncClient]]:
    """Clients with connections of their own."""
    environment = platform.client_environment()
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                AsyncClient(
                    api_key=environment["OPENBELL_API_KEY"],
                    url=environment["OPENBELL_URL"],
                    stream_address=environment["OPENBELL_STREAM"],
                    timeout=timeout,
                    transport=transport_of(number),
                )
            )
            for number in range(count)
        ]


def accounts_of(platform: LocalPlatform) -> list[str]:
    """The accounts that were opened, as clients name them."""
    return [str(account_id) for account_id in platform.seeded.account_ids]


async def submit_mixed(
    client: AsyncClient, account_id: str, number: int, key: str | None = None, rest_seconds: float = 0
) -> Action:
    """One intent; of twenty, one rests at the broker and is cancelled, one rests and is replaced by more that fills.

    With a key it may be repeated as a whole. What rests for a while is at the broker by the time it is changed.
    """
    symbol = SYMBOLS[number % len(SYMBOLS)]
    options = _under(account_id, key)
    if number % 20 == 0:
        resting = await client.buy(symbol, Limit(5, price="0.01"), **options)
        await asyncio.sleep(rest_seconds)
        await client.cancel_intent(resting.intent_id, **_under(account_id, key and f"{key}-cancel"))
        return resting
    if number % 20 == 10:
        resting = await client.buy(symbol, Limit(5, price="0.01"), **options)
        await asyncio.sleep(rest_seconds)
        marketable = Limit(7, price="1000000")
        await client.replace_intent(resting.intent_id, marketable, **_under(account_id, key and f"{key}-replace"))
        return resting
    if number % 10 == 5:
        return await client.sell(symbol, Limit(2, price="0.01"), **options)
    # Above a thousand the paper broker fills in two executions.
    return await client.buy(symbol, Market(Decimal(1500) if number % 10 == 7 else 10), **options)


def _under(account_id: str, key: str | None) -> SubmitOptions:
    """What a command carries; its key is its reference too, so that what it left behind can be found."""
    return {"account_id": account_id, "idempotency_key": key, "client_reference_id": key}


async def submit_all(
    platform: LocalPlatform, intents: int, client_count: int, at: "dict[int, asyncio.Event] | None" = None
) -> list[Action]:
    """Submit from many clients over all accounts; the event of a number is set when that many were accepted."""
    accounts = accounts_of(platform)
    numbers = itertools.count()
    accepted: list[Action] = []

    async def work(client: AsyncClient) -> None:
        for number in numbers:
            if number >= intents:
                return
            accepted.append(await submit_mixed(client, accounts[number % len(accounts)], number))
            if at and len(accepted) in at:
                at[len(accepted)].set()

    async with clients(platform, client_count) as opened:
        await asyncio.gather(*(work(client) for client in opened))
    return accepted


@dataclass
class Follower:
    """Follows one account from its first event, and cuts its own stream every few events."""

    account_id: str
    api_key: str
    cut_every: int
    frames: list[pb.TradingEvent] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    cuts: int = 0
    breaks: int = 0
    subscribed: asyncio.Event = field(default_factory=asyncio.Event)
    _token: str = ""
    _stands: bool = False

    @property
    def seen(self) -> list[int]:
        """The numbers of the events that came, as they came."""
        return [frame.account_seq for frame in self.frames]

    async def follow(self, channel: grpc.aio.Channel) -> None:
        """Until cancelled; a stream whose server went away is resumed."""
        while True:
            try:
                await self._until_cut(trading_pb2_grpc.TradingServiceStub(channel))
                self.cuts += 1
            except grpc.aio.AioRpcError as error:
                if error.code() not in _GONE:
                    raise
                # An attempt that never came to a stream breaks none.
                self.breaks += self._stands
                self._stands = False
                await asyncio.sleep(RECONNECT_SECONDS)

    async def _until_cut(self, stub: "trading_pb2_grpc.TradingServiceAsyncStub") -> None:
        request = pb.Subscribe(
            trading_account_id=self.account_id,
            subscriptions=list(KINDS),
            resume_token=self._token,
        )
        call = stub.SubscribeEvents(request, metadata=(("x-api-key", self.api_key),))
        received = 0
        async for frame in call:
            self._token, self._stands = frame.resume_token, True
            if frame.event_id:
                if self.frames and frame.prev_seq != self.frames[-1].account_seq:
                    last = self.frames[-1].account_seq
                    self.faults.append(f"{frame.account_seq} follows {frame.prev_seq}, seen {last}")
                self.frames.append(frame)
                received += 1
            self.subscribed.set()
            if received >= self.cut_every:
                call.cancel()
                return


@asynccontextmanager
async def followers(platform: LocalPlatform, cut_every: int) -> AsyncIterator[list[Follower]]:
    """A follower for every account, all subscribed."""
    accounts = platform.seeded.account_ids
    keys = [platform.seeded.api_key]
    async with await open_pool(platform.owner_url) as pool:
        while len(keys) * STREAMS_OF_KEY < len(accounts):
            _, key = await a_key(pool, platform.seeded.organization_id)
            keys.append(key)
    async with grpc.aio.insecure_channel(platform.client_environment()["OPENBELL_STREAM"], options=_CHANNEL) as channel:
        made = [
            Follower(str(account_id), keys[number // STREAMS_OF_KEY], cut_every)
            for number, account_id in enumerate(accounts)
        ]
        tasks = [asyncio.ensure_future(follower.follow(channel)) for follower in made]
        try:
            for follower in made:
                await asyncio.wait_for(follower.subscribed.wait(), FRAME_SECONDS)
            yield made
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            for follower, end in zip(made, ended, strict=True):
                if not isinstance(end, asyncio.CancelledError):
                    follower.faults.append(repr(end))


async def until_followed(following: Sequence[Follower], heads: Mapping[UUID, int]) -> None:
    """Wait until every follower has as many events as its account, or gets no more of them."""

    async def missing() -> int:
        return sum(max(0, heads[UUID(each.account_id)] - len(each.frames)) for each in following)

    await until_none_left(missing)
