"""Sequences of requests to StreamEvents that are wrong somewhere, with the frames and the status that must come."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import grpc

from openbell.wire import trading_pb2 as pb
from openbell_server.transport.stream.many_subscriptions import SUBSCRIPTIONS_MAX
from proof.malformed_messages import STREAM, Metadata, World, field, flipped, no_uuid, varint

# The call is asked once more, and answers: nothing that came before broke it.
GOES_ON: Final = "goes on"
CALL_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class Step:
    """Requests, and the frames that answer them, in any order: label and what it is, or its code."""

    sent: tuple[bytes, ...]
    answers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Talk:
    """One call: steps, each awaited, and how it ends."""

    steps: tuple[Step, ...]
    ending: str = GOES_ON
    metadata: Metadata | None = None


Make = Callable[[random.Random, World], Talk]


def _subscribe(world: World, label: str, **fields: Any) -> bytes:
    return field(1, world.good(subscription_id=label, **fields))


def _unsubscribe(label: str) -> bytes:
    return field(2, pb.Unsubscribe(subscription_id=label).SerializeToString())


def _one(answer: str, make: Callable[[random.Random, World], bytes]) -> Make:
    """One request that is answered by this frame."""
    return lambda chance, world: Talk((Step((make(chance, world),), (answer,)),))


def _asked(code: str, make: Callable[[random.Random, World], dict[str, Any]]) -> Make:
    """A subscription that is refused, beside one that is open."""

    def made(chance: random.Random, world: World) -> Talk:
        wrong = Step((_subscribe(world, "a", **make(chance, world)),), (f"a {code}",))
        return Talk((_opened(world, "kept"), wrong, _ended("kept")))

    return made


def _labelled(make: Callable[[random.Random], str]) -> Make:
    def made(chance: random.Random, world: World) -> Talk:
        label = make(chance)
        return Talk((Step((_subscribe(world, label),), (f"{label} invalid_parameter",)),))

    return made


def _opened(world: World, label: str) -> Step:
    return Step((_subscribe(world, label),), (f"{label} subscribed",))


def _ended(label: str) -> Step:
    return Step((_unsubscribe(label),), (f"{label} ended",))


def _broken(status: str, make: Callable[[random.Random, World], bytes]) -> Make:
    """What ends the call, after a subscription that is open."""
    return lambda chance, world: Talk((_opened(world, "a"), Step((make(chance, world),))), status)


def _refused(status: str, make: Callable[[random.Random, World], Metadata]) -> Make:
    return lambda chance, world: Talk((Step((_subscribe(world, "a"),)),), status, make(chance, world))


def _too_many(chance: random.Random, world: World) -> Talk:
    labels = [f"s{number}" for number in range(SUBSCRIPTIONS_MAX)]
    full = Step(tuple(_subscribe(world, label) for label in labels), tuple(f"{label} subscribed" for label in labels))
    more = [f"more{number}" for number in range(chance.randint(1, 5))]
    refused = tuple(f"{label} too_many_subscriptions" for label in more)
    over = Step(tuple(_subscribe(world, label) for label in more), refused)
    return Talk((full, over, _ended(chance.choice(labels))))


def _by_chance(chance: random.Random, world: World) -> Talk:
    """Requests of every kind about three labels; which of them are open says what must come."""
    is_open, steps = set[str](), []
    for _ in range(chance.randint(5, 25)):
        label = chance.choice("xyz")
        match chance.choice(["subscribe", "subscribe", "wrong", "unsubscribe", "empty"]):
            case "subscribe":
                steps.append(_opened(world, label))
                if label in is_open:
                    steps[-1] = Step(steps[-1].sent, (f"{label} label_taken",))
                is_open.add(label)
            case "wrong":
                steps.append(Step((_subscribe(world, label, subscriptions=[]),), (f"{label} invalid_parameter",)))
            case "unsubscribe":
                steps.append(_ended(label))
                if label not in is_open:
                    steps[-1] = Step(steps[-1].sent, (f"{label} not_found",))
                is_open.discard(label)
            case _:
                steps.append(Step((field(chance.randint(3, 99), chance.randbytes(9)),), (" invalid_parameter",)))
    return Talk(tuple(steps))


# What is wrong → how it is made.
TALKS: dict[str, Make] = {
    "an empty request": _one(" invalid_parameter", lambda _, __: b""),
    "nothing but unknown fields": _one(" invalid_parameter", lambda c, _: field(c.randint(3, 2**28), c.randbytes(40))),
    "a request of another wire type": _one(" invalid_parameter", lambda c, _: b"\x08" + varint(c.getrandbits(60))),
    "no label": _labelled(lambda _: ""),
    "a long label": _labelled(lambda c: "l" * c.randint(65, 9000)),
    "a label that cannot be printed": _labelled(lambda c: c.choice(["\0", "a\nb", "\u200b", "\x7f"])),
    "a label twice": lambda _, w: Talk(
        (_opened(w, "a"), Step((_subscribe(w, "a"),), ("a label_taken",)), _ended("a"), _opened(w, "a"))
    ),
    "an end before the beginning": lambda _, w: Talk((Step((_unsubscribe("a"),), ("a not_found",)), _opened(w, "a"))),
    "two ends": lambda _, w: Talk((_opened(w, "a"), _ended("a"), Step((_unsubscribe("a"),), ("a not_found",)))),
    "the end of nothing": _one(" not_found", lambda _, __: _unsubscribe("")),
    "a beginning and an end in one": _one("b not_found", lambda _, w: _subscribe(w, "a") + _unsubscribe("b")),
    "two beginnings in one": _one("b subscribed", lambda _, w: _subscribe(w, "a") + field(1, b"\x32\x01b")),
    "more subscriptions than a call carries": _too_many,
    "requests by chance": _by_chance,
    "no UUID": _asked("not_found", lambda c, w: {"trading_account_id": no_uuid(c, w)}),
    "an account of another organization": _asked("not_found", lambda _, w: {"trading_account_id": w.foreign_id}),
    "no kind": _asked("invalid_parameter", lambda _, __: {"subscriptions": []}),
    "an unknown kind": _asked("invalid_parameter", lambda c, _: {"subscriptions": [1, c.choice([99, 2**31 - 1])]}),
    "symbols by the thousand": _asked(
        "invalid_parameter", lambda c, _: {"symbols": [f"A{n}" for n in range(c.randint(101, 3000))]}
    ),
    "a start and a token": _asked("invalid_parameter", lambda _, w: {"start": 1, "resume_token": w.own_token}),
    "a token with another sign": _asked("invalid_cursor", lambda c, w: {"resume_token": flipped(c, w.own_token)}),
    "a token of another account": _asked("invalid_cursor", lambda _, w: {"resume_token": w.sibling_token}),
    "no token": _asked("invalid_cursor", lambda c, w: {"resume_token": c.choice(["=", w.own_token * 2, "A" * 60_000])}),
    "a message cut short": _broken(
        "INVALID_ARGUMENT", lambda c, w: (_subscribe(w, "b") + field(15, bytes(50)))[: -c.randint(1, 50)]
    ),
    "a message cut short in another": _broken("INVALID_ARGUMENT", lambda _, w: field(1, w.good() + b"\x7a\x32")),
    "bad UTF-8": _broken(
        "INVALID_ARGUMENT",
        lambda c, w: field(1, w.good() + field(c.choice([1, 3, 5, 6]), c.choice([b"\xff", b"\xc0\x80"]))),
    ),
    "no wire type": _broken("INVALID_ARGUMENT", lambda c, w: _subscribe(w, "b") + bytes([c.choice([0x0E, 0x0F])])),
    "more than 64 KB": _broken(
        "RESOURCE_EXHAUSTED", lambda c, w: _subscribe(w, "b") + field(15, bytes(c.randint(65_536, 10**6)))
    ),
    "nothing at all": lambda _, __: Talk((), "OK"),
    "nothing after the end": lambda _, w: Talk((_opened(w, "a"), _ended("a")), "OK"),
    "no key": _refused("UNAUTHENTICATED", lambda _, __: ()),
    "a key with another sign": _refused("UNAUTHENTICATED", lambda c, w: (("x-api-key", flipped(c, w.tenant.key)),)),
    "a key twice": _refused("INVALID_ARGUMENT", lambda _, w: w.key * 2),
    "more metadata than 8 KB": _refused(
        "RESOURCE_EXHAUSTED", lambda c, w: (*w.key, ("x-much", "a" * c.randint(8_300, 60_000)))
    ),
    "noise by nobody": lambda c, _: Talk((Step((c.randbytes(c.randint(1, 900)),)),), "UNAUTHENTICATED", ()),
}


async def listen(channel: grpc.aio.Channel, world: World, talk: Talk) -> tuple[str, str]:
    """How the call ended, and what came that should not have; nothing where all was as it must be."""
    streams: Any = channel.stream_stream(STREAM)
    metadata = world.key if talk.metadata is None else talk.metadata
    call = streams(metadata=metadata, timeout=CALL_SECONDS)
    steps = (*talk.steps, _opened(world, "last")) if talk.ending == GOES_ON else talk.steps
    ended: set[str] = set()
    try:
        for step in steps:
            for sent in step.sent:
                await call.write(sent)
            came = await _answers(call, ended, len(step.answers))
            if Counter(came) != Counter(step.answers):
                return "another frame", f"{came} instead of {step.answers}"[:300]
        if talk.ending == GOES_ON:
            return GOES_ON, ""
        if talk.ending == "OK":
            await call.done_writing()
        came = await _answers(call, ended, 1)
        status = (await call.code()).name if came == ["the end"] else f"the frame {came}"
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
        status = (await call.code()).name
    finally:
        call.cancel()
    return status, "" if status == talk.ending else f"{status} instead of {talk.ending}"


async def _answers(call: Any, ended: set[str], count: int) -> list[str]:
    """So many frames that answer requests; events of others may come between them, but not of one that ended."""
    came: list[str] = []
    while len(came) < count:
        sent = await call.read()
        if sent is grpc.aio.EOF:
            return [*came, "the end"]
        frame = pb.TradingEvent.FromString(sent)
        label, kind = frame.subscription_id, frame.WhichOneof("event")
        if kind == "subscribed":
            ended.discard(label)
        elif kind == "ended":
            ended.add(label)
        elif kind != "error":
            if label in ended:
                came.append(f"{label} {kind} after its end")
            continue
        came.append(f"{label} {frame.error.code or kind}")
    return came
