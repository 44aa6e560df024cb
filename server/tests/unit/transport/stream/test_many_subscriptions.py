"""What a call with several subscriptions does between two frames: whose turn it is, and what is not sent any more."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any
from uuid import uuid4

import grpc
import pytest

from openbell.wire import trading_pb2 as pb
from openbell_server.application.events.event_frames import Frame, FrameKind, Subscription
from openbell_server.application.events.open_streams import OpenStream
from openbell_server.application.events.recheck_access import Enter
from openbell_server.domain.access.principals import Caller, PrincipalKind
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import AccountId
from openbell_server.processes.authentication import wall_clock
from openbell_server.transport.stream.many_subscriptions import ManySubscriptions
from support.rest.rest_api import limited

ANYBODY = Caller(kind=PrincipalKind.API_KEY, id="1")
DENIED = Problem("not_found", "there is no such account")


async def enter() -> Any:
    """The caller may follow, whatever becomes of one account."""


class Wire:
    """A caller whose requests are there, and who takes a frame whenever the test lets it."""

    def __init__(self, *labels: str) -> None:
        self.sent: list[pb.TradingEvent] = []
        self.takes = asyncio.Semaphore(0)
        self.failure: Exception | None = None
        self._requests = [_subscribe(label) for label in labels]

    async def read(self) -> Any:
        return self._requests.pop(0) if self._requests else grpc.aio.EOF

    async def write(self, message: bytes) -> None:
        await self.takes.acquire()
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure
        self.sent.append(pb.TradingEvent.FromString(message))

    async def has_sent(self, count: int) -> list[tuple[str, str]]:
        """So many frames, once they are there: label, and code or kind."""
        async with asyncio.timeout(60):
            while len(self.sent) < count:
                self.takes.release()
                await asyncio.sleep(0)
                await asyncio.sleep(0)
        return [(frame.subscription_id, frame.error.code or str(frame.WhichOneof("event"))) for frame in self.sent]


class Endless:
    """Subscriptions that always have something to send, until they are lost."""

    def __init__(self) -> None:
        self.draining = asyncio.Event()
        self.lose: list[Callable[[Exception], None]] = []

    def subscribe(
        self, _: object, wanted: Subscription, lose: Callable[[Exception], None]
    ) -> AsyncGenerator[Frame, None]:
        lost: list[Exception] = []

        def notify(why: Exception) -> None:
            lost.append(why)
            lose(why)

        self.lose.append(notify)
        assert wanted.account_id is not None
        return self._frames(wanted.account_id, lost)

    async def _frames(self, account_id: AccountId, lost: list[Exception]) -> AsyncGenerator[Frame, None]:
        while not lost:
            yield Frame(FrameKind.HEARTBEAT, account_id, 1, 0, "token")
        raise lost[0]


def _subscribe(label: str) -> bytes:
    asked = pb.Subscribe(
        trading_account_id=str(uuid4()), subscriptions=[pb.EVENT_TYPE_BROKER_ORDER], subscription_id=label
    )
    return pb.StreamEventsRequest(subscribe=asked).SerializeToString()


def calling(wire: Wire, follow: Endless, enter: Enter = enter) -> "asyncio.Task[None]":
    context: Any = wire
    followed: Any = follow
    many = ManySubscriptions(context, OpenStream(lambda: 0.0), followed, limited(), wall_clock)
    return asyncio.ensure_future(many.run(ANYBODY, enter))


async def test_subscriptions_take_turns_one_frame_each() -> None:
    wire = Wire("a", "b", "c")
    running = calling(wire, Endless())
    labels = [label for label, _ in await wire.has_sent(40)][10:]
    assert all(set(labels[at : at + 3]) == {"a", "b", "c"} for at in range(len(labels) - 2))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_frame_that_waits_for_its_turn_is_not_sent_after_access_has_ended() -> None:
    wire, follow = Wire("a", "b"), Endless()
    running = calling(wire, follow)
    before = len(await wire.has_sent(10))
    # One is being sent, and the other waits behind it.
    await asyncio.sleep(0)
    following = wire.sent[-1].subscription_id
    lost = {"a": 0, "b": 1}[following]
    follow.lose[lost](DENIED)
    after = (await wire.has_sent(before + 6))[before:]
    assert [kind for label, kind in after if label == following] == ["not_found"]
    assert {kind for label, kind in after if label != following} == {"heartbeat"}
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_caller_that_is_gone_hears_the_status_and_not_one_error_for_each_subscription() -> None:
    wire, follow, gone = Wire("a", "b"), Endless(), list[Problem]()

    async def enter_once() -> Any:
        if gone:
            raise gone[0]

    running = calling(wire, follow, enter_once)
    await wire.has_sent(10)
    gone.append(Problem("unauthenticated", "no valid credential was sent"))
    for lose in follow.lose:
        lose(gone[0])
    for _ in range(10):
        wire.takes.release()
    with pytest.raises(Problem, match="no valid credential"):
        await asyncio.wait_for(running, 60)
    assert {frame.WhichOneof("event") for frame in wire.sent} == {"heartbeat"}


async def test_after_a_write_that_failed_there_is_no_other() -> None:
    wire = Wire("a", "b", "c")
    running = calling(wire, Endless())
    sent = len(await wire.has_sent(10))
    wire.failure = Problem("slow_consumer", "nothing was read")
    # Whoever wrote after it would be heard.
    for _ in range(10):
        wire.takes.release()
    with pytest.raises(Problem, match="nothing was read"):
        await asyncio.wait_for(running, 60)
    assert len(wire.sent) == sent
