"""gRPC under malformed requests: each gets the status that must come; a healthy stream beside them loses nothing."""

import asyncio
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, MutableMapping
from typing import Any, Final

import grpc
import structlog

from openbell.wire import trading_pb2 as pb
from openbell_server.adapters.postgres.connection import open_pool
from openbell_server.adapters.postgres.migrate import migrate
from openbell_server.devtools.local_services import LocalServices
from proof.figures import Figures
from proof.malformed_messages import (
    SUBSCRIBE,
    Call,
    Metadata,
    World,
    a_world,
    field,
    flipped,
    no_uuid,
    open_call,
    varint,
)
from proof.stream_talks import TALKS, listen
from support.builders.tenant import accept
from support.identity.identity_provider import PEOPLE, good_token
from support.rest.event_streams import event_stream

SIZES = {"full": 2_000, "gate": 200}
AT_ONCE: Final = 8
EVERY: Final = 20
SECONDS_MAX: Final = 580


Make = Callable[[random.Random, World], Call]


def _body(make: Callable[[random.Random, World], bytes]) -> Make:
    return lambda chance, world: Call(make(chance, world), world.key)


def _signed(make: Callable[[random.Random, World], Metadata]) -> Make:
    return lambda chance, world: Call(world.good(), make(chance, world))


def _token(make: Callable[[random.Random, World], str]) -> Make:
    return _body(lambda chance, world: world.good(resume_token=make(chance, world)))


# What is wrong → (the status that must come, how it is made). OK: the first frame comes.
CASES: dict[str, tuple[str, Make]] = {
    "no UUID": ("NOT_FOUND", _body(lambda c, w: w.good(trading_account_id=no_uuid(c, w)))),
    "an account of another organization": ("NOT_FOUND", _body(lambda _, w: w.good(trading_account_id=w.foreign_id))),
    "an unknown kind": (
        "INVALID_ARGUMENT",
        _body(lambda c, w: w.good() + b"\x10" + varint(c.choice([99, 2**31 - 1, 2**63]))),
    ),
    "no kind": ("INVALID_ARGUMENT", _body(lambda _, w: w.good(subscriptions=[]))),
    "kinds by the thousand": ("OK", _body(lambda c, w: w.good(subscriptions=[1, 2] * c.randint(500, 10_000)))),
    "symbols by the thousand": (
        "INVALID_ARGUMENT",
        _body(lambda c, w: w.good(symbols=[f"A{n}" for n in range(c.randint(101, 3000))])),
    ),
    "no symbol": ("INVALID_ARGUMENT", _body(lambda c, w: w.good(symbols=[c.choice(["", "aapl", "\0", "A" * 500])]))),
    "an unknown start": ("INVALID_ARGUMENT", _body(lambda c, w: w.good() + b"\x20" + varint(c.randint(4, 2**31 - 1)))),
    "a start and a token": ("INVALID_ARGUMENT", _body(lambda _, w: w.good(start=1, resume_token=w.own_token))),
    "a long label": ("INVALID_ARGUMENT", _body(lambda c, w: w.good(subscription_id="l" * c.randint(65, 9000)))),
    "a field of another wire type": ("OK", _body(lambda c, w: w.good() + b"\x08" + varint(c.getrandbits(60)))),
    "no wire type": ("INVALID_ARGUMENT", _body(lambda c, w: w.good() + bytes([c.choice([0x0E, 0x0F, 0x0C, 0x07])]))),
    "a message cut short": (
        "INVALID_ARGUMENT",
        _body(lambda c, w: (w.good() + field(15, bytes(50)))[: -c.randint(1, 50)]),
    ),
    "a field twice, the last right": (
        "OK",
        _body(lambda c, w: field(1, no_uuid(c, w).encode()) + w.good()),
    ),
    "a field twice, the last wrong": (
        "NOT_FOUND",
        _body(lambda c, w: w.good() + field(1, no_uuid(c, w).encode())),
    ),
    "bad UTF-8": (
        "INVALID_ARGUMENT",
        _body(lambda c, w: w.good() + field(c.choice([1, 3, 5, 6]), c.choice([b"\xff", b"\xc0\x80", b"\xed\xa0\x80"]))),
    ),
    "unknown fields": (
        "OK",
        _body(lambda c, w: w.good() + field(c.randint(7, 2**28), c.randbytes(c.randint(0, 900)))),
    ),
    "more than 64 KB": (
        "RESOURCE_EXHAUSTED",
        _body(lambda c, w: w.good() + field(15, bytes(c.randint(65_536, 10**6)))),
    ),
    "a token with another sign": ("INVALID_ARGUMENT", _token(lambda c, w: flipped(c, w.own_token))),
    "a token of another account": ("INVALID_ARGUMENT", _token(lambda _, w: w.sibling_token)),
    "a token of another organization": ("INVALID_ARGUMENT", _token(lambda _, w: w.foreign_token)),
    "no token": ("INVALID_ARGUMENT", _token(lambda c, w: c.choice(["=", "\u20ac", w.own_token * 2, "A" * 60_000]))),
    "no key": ("UNAUTHENTICATED", _signed(lambda _, __: ())),
    "a key with another sign": ("UNAUTHENTICATED", _signed(lambda c, w: (("x-api-key", flipped(c, w.tenant.key)),))),
    "a key that ran out": ("UNAUTHENTICATED", _signed(lambda _, w: (("x-api-key", w.expired_key),))),
    "a key twice": ("INVALID_ARGUMENT", _signed(lambda _, w: w.key * 2)),
    "a key and a token": ("INVALID_ARGUMENT", _signed(lambda _, w: (*w.key, ("authorization", "Bearer x")))),
    "an access token that ran out": (
        "UNAUTHENTICATED",
        _signed(
            lambda _, __: (("authorization", f"Bearer {good_token('EdDSA', PEOPLE, exp=int(time.time()) - 900)}"),)
        ),
    ),
    "more metadata than 8 KB": (
        "RESOURCE_EXHAUSTED",
        _signed(lambda c, w: (*w.key, ("x-much", "a" * c.randint(8_300, 60_000)))),
    ),
    "a method that is not there": (
        "UNIMPLEMENTED",
        lambda c, w: Call(w.good(), w.key, c.choice([SUBSCRIBE + "x", "/x/y", "/trading.TradingService/"])),
    ),
    "a method that is not there, by nobody": (
        "UNAUTHENTICATED",
        lambda c, w: Call(w.good(), (), c.choice([SUBSCRIBE.lower(), "/grpc.health.v1.Health/List"])),
    ),
    "noise by nobody": ("UNAUTHENTICATED", lambda c, _: Call(c.randbytes(c.randint(1, 900)), ())),
}


def prove(figures: Figures) -> None:
    broken: list[str] = []

    def remember(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if event["event"] == "stream_failed":
            broken.append(str(event.get("exception") or event.get("exc_info")))
        raise structlog.DropEvent

    structlog.configure(processors=[structlog.processors.format_exc_info, remember])
    with LocalServices() as services:
        url = services.postgres.url("postgres")
        migrate(url)
        asyncio.run(asyncio.wait_for(_prove(figures, url, broken), SECONDS_MAX))


async def _prove(figures: Figures, url: str, broken: list[str]) -> None:
    chance, number = random.Random(7), SIZES[figures.size]
    wrong: list[str] = []
    async with (
        await open_pool(url) as pool,
        event_stream(pool) as address,
        grpc.aio.insecure_channel(address) as channel,
        grpc.aio.insecure_channel(address, options=(("grpc.use_local_subchannel_pool", 1),)) as apart,
    ):
        world = await a_world(pool, apart)
        healthy = open_call(apart, Call(world.good(), world.key), SECONDS_MAX)
        (await healthy.read(),)
        written, answers = 0, Counter[str]()
        for begun in range(0, number, AT_ONCE):
            some = range(begun, min(begun + AT_ONCE, number))
            for status, fault in await asyncio.gather(*(_try(channel, world, chance, index) for index in some)):
                answers[status] += 1
                wrong += [fault] if fault else []
            if begun % EVERY < AT_ONCE:
                await accept(pool, world.tenant.submission())
                written += 1
        seen = [await asyncio.wait_for(_number(healthy), 60) for _ in range(written)]
        healthy.cancel()
    figures.exactly("malformed requests", answers.total(), number)
    figures.shown("ways to be wrong in one request", len(CASES))
    figures.shown("ways to be wrong in a call of several", len(TALKS))
    for status, count in sorted(answers.items()):
        figures.shown(f"answers {status}", count)
    figures.exactly("requests with another status than the table's, or another frame", len(wrong), 0)
    figures.exactly("requests that broke the server", len(broken), 0)
    figures.exactly("events that a healthy stream missed, of those written", written - len(set(seen)), 0)
    figures.exactly("events out of order", int(seen != sorted(seen)), 0)
    for line in [*sorted(set(wrong))[:20], *broken[:3]]:
        print(line, file=sys.stderr)


async def _try(channel: grpc.aio.Channel, world: World, chance: random.Random, index: int) -> tuple[str, str]:
    """How a call ended, and what was wrong with that; one half of them goes to each method."""
    if index % 2:
        name = list(TALKS)[index // 2 % len(TALKS)]
        status, fault = await listen(channel, world, TALKS[name](chance, world))
        return status, fault and f"{name}: {fault}"
    name = list(CASES)[index // 2 % len(CASES)]
    expected, make = CASES[name]
    status = await _status(channel, make(chance, world))
    return status, "" if status == expected else f"{name}: {status}"


async def _status(channel: grpc.aio.Channel, sent: Call) -> str:
    call = open_call(channel, sent, 20)
    try:
        first = await call.read()
    except grpc.aio.AioRpcError as error:
        return error.code().name
    finally:
        call.cancel()
    return "OK" if first is not grpc.aio.EOF else "EOF"


async def _number(frames: Any) -> int:
    while True:
        frame = pb.TradingEvent.FromString(await frames.read())
        if frame.event_id:
            return frame.account_seq
