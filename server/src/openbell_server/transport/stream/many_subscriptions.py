"""Serves several subscriptions in one call, each with its label; they take turns to send, so no frames queue up."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from datetime import datetime
from typing import Final

import grpc
import structlog

from openbell.wire import trading_pb2 as pb
from openbell_server.application.access.rate_limits import LimitRates
from openbell_server.application.events.event_frames import GOING_AWAY, Frame, FrameKind
from openbell_server.application.events.follow_events import FollowEvents
from openbell_server.application.events.open_streams import OpenStream
from openbell_server.application.events.recheck_access import ACCESS_SECONDS, Enter
from openbell_server.domain.access.principals import Caller
from openbell_server.domain.errors import InvalidParameter, Problem
from openbell_server.transport.stream.event_messages import encode_ended, encode_error, encode_frame
from openbell_server.transport.stream.subscribe_requests import read_message, subscription_of

SUBSCRIPTIONS_MAX: Final = 100


class _Labelled:
    def __init__(self, request: pb.Subscribe) -> None:
        self.request = request
        self.label = request.subscription_id
        # The token of the last frame sent.
        self.token = ""
        # When set, a frame that waits for its turn is not sent.
        self.is_over = False

    def lose(self, _: Exception) -> None:
        """Stop sending because access ended; the next item of the frames is the reason."""
        self.is_over = True


class ManySubscriptions:
    """One call with many subscriptions; it counts as one open stream."""

    def __init__(
        self,
        context: "grpc.aio.ServicerContext[bytes, bytes]",
        stream: OpenStream,
        follow: FollowEvents,
        limit: LimitRates,
        now: Callable[[], datetime],
    ) -> None:
        self._context = context
        self._stream = stream
        self._follow = follow
        self._limit = limit
        self._now = now
        self._open: dict[str, _Labelled] = {}
        self._following: dict[_Labelled, asyncio.Task[None]] = {}
        # Held while writing; waiters are served first come, first served.
        self._turn = asyncio.Lock()
        self._failure: Exception | None = None

    async def run(self, caller: Caller, enter: Enter) -> None:
        """Serve until the caller closes its side and the last subscription ends; raises any other end of the call."""
        try:
            async with asyncio.TaskGroup() as tasks:
                watching = tasks.create_task(self._watch(enter))
                while isinstance(sent := await self._context.read(), bytes):
                    await self._answer(sent, caller, enter, tasks)
                await self._all_ended()
                # A server that shuts down reports it to the caller, also if no subscription is open.
                if not self._follow.draining.is_set():
                    watching.cancel()
        except BaseExceptionGroup as group:
            # Later exceptions are consequences of the first.
            raise group.exceptions[0] from None

    async def _watch(self, enter: Enter) -> None:
        """Raise when the caller loses all access, or when this process shuts down and every subscription has ended."""
        draining = self._follow.draining
        while not draining.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ACCESS_SECONDS):
                    await draining.wait()
            await enter()
        await self._all_ended()
        raise Problem("unavailable", str(GOING_AWAY["message"]))

    async def _all_ended(self) -> None:
        while self._following:
            await asyncio.wait(self._following.values())

    async def _answer(self, sent: bytes, caller: Caller, enter: Enter, tasks: asyncio.TaskGroup) -> None:
        """Handle one request. A malformed message ends the call; a wrong request is answered by an error frame."""
        request = read_message(pb.StreamEventsRequest, sent)
        if request.HasField("unsubscribe"):
            await self._unsubscribe(request.unsubscribe.subscription_id)
            return
        try:
            await self._limit.read(caller)
            self._subscribe(request, enter, tasks)
            return
        except Problem as problem:
            refused = problem
        except (TimeoutError, OSError):
            refused = Problem("unavailable", "a service behind the stream did not answer")
        async with self._turn:
            await self._write(encode_error(refused, request.subscribe))

    def _subscribe(self, request: pb.StreamEventsRequest, enter: Enter, tasks: asyncio.TaskGroup) -> None:
        if not request.HasField("subscribe"):
            raise Problem("invalid_parameter", "a request must have subscribe or unsubscribe")
        wanted, opened = subscription_of(request.subscribe), _Labelled(request.subscribe)
        label = opened.label
        if not label:
            raise InvalidParameter("subscription_id", "is required: every frame of the subscription carries it")
        if label in self._open:
            raise Problem("label_taken", "an open subscription of this call already has this subscription_id")
        if len(self._open) >= SUBSCRIPTIONS_MAX:
            raise Problem("too_many_subscriptions", f"one call carries at most {SUBSCRIPTIONS_MAX} subscriptions")
        frames = self._follow.subscribe(enter, wanted, opened.lose)
        self._open[label] = opened
        self._following[opened] = following = tasks.create_task(self._send_all(opened, frames, enter))
        following.add_done_callback(lambda _: self._following.pop(opened))

    async def _unsubscribe(self, label: str) -> None:
        async with self._turn:
            # It is not writing now, because this task holds the lock.
            ended = self._open.pop(label, None)
            if ended is None:
                problem = Problem("not_found", "no subscription of this call has this subscription_id")
                await self._write(encode_error(problem, pb.Subscribe(subscription_id=label)))
                return
            following, ended.is_over = self._following[ended], True
            following.cancel()
            await self._write(encode_ended(label))
        # Wait until it has ended, before another subscription takes its place.
        await asyncio.wait({following})

    async def _send_all(self, opened: _Labelled, frames: AsyncGenerator[Frame, None], enter: Enter) -> None:
        async with contextlib.aclosing(frames):
            while isinstance(received := await _next(frames), Frame):
                await self._send(opened, received)
                if received.kind is FrameKind.ERROR:
                    return
        # Raises, and so ends the call, if the caller has lost all access.
        await enter()
        async with self._turn:
            del self._open[opened.label]
            await self._write(encode_error(received, opened.request, opened.token))

    async def _send(self, opened: _Labelled, frame: Frame) -> None:
        async with self._turn:
            if opened.is_over:
                return
            # After the last frame the caller may use the label again.
            if frame.kind is FrameKind.ERROR:
                del self._open[opened.label]
            await self._write(encode_frame(frame, opened.request, self._now))
        opened.token = frame.resume_token or opened.token

    async def _write(self, message: bytes) -> None:
        """Write with the lock held. After a failed write gRPC may still be sending, so no other write is permitted."""
        if self._failure is not None:
            raise self._failure
        try:
            await self._stream.send(self._context.write, (message,))
        except Exception as error:
            self._failure = error
            raise


async def _next(frames: AsyncGenerator[Frame, None]) -> Frame | Problem:
    """The next frame, or the problem that ended the frames."""
    try:
        return await anext(frames)
    except Problem as problem:
        return problem
    except (TimeoutError, OSError):
        return Problem("unavailable", "a service behind the stream did not answer")
    except Exception:  # noqa: BLE001 - the caller resumes; the operator gets the reason
        structlog.get_logger().exception("stream_failed")
        return Problem("unavailable", "the subscription broke; resume with your token")
