"""Every hostile answer to every call of a session: it may only end in doubt, soon, and with little read."""

import asyncio
import contextlib
import resource
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from random import Random
from typing import Any, Final, Self

import httpx
import msgspec

from conformance.hostile_payloads import Payload, payloads_of
from conformance.hostile_server import HostileServer
from conformance.hostile_values import Proves
from conformance.samples import ACCOUNT, ORDER, SYMBOL, TOLD_AT, VALID_UNTIL, Answer, Route, Samples, samples_of
from openbell_server.application.ports.broker import BrokerSession, FeedItem, ReplaceSupport
from openbell_server.brokers.http_client import QUERY_ERRORS
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.orders.broker_reports import NotSent, Unknown

# Twice what a session waits, at the slowest: the machine may be busy.
DEADLINE_SECONDS: Final = 60.0
# What an answer may have, with all that lies in the buffers of two sockets.
PUSHED_BYTES_MAX: Final = 8_000_000
GROWTH_BYTES_MAX: Final = 20_000_000
TEXT_LENGTH_MAX: Final = 4_096
DIGITS_MAX: Final = 18
AT_ONCE: Final = 8
COMMANDS: Final = frozenset({"submit", "replace", "cancel"})
# One of so many takes its time: as long as a session waits.
SLOW_AMONG: Final = 25
FEED_SECONDS: Final = 0.3
BUSY_TRIES_MAX: Final = 5

Call = Callable[[BrokerSession], Awaitable[Any]]
# What each call makes of each answer of a route when nothing is wrong with it.
Right = dict[tuple[str, str, Answer], Any]


@dataclass(slots=True)
class Tried:
    """What was tried, and a line for each thing that went wrong."""

    payloads: int = 0
    calls: int = 0
    crashes: list[str] = field(default_factory=list)
    hangs: list[str] = field(default_factory=list)
    unbounded: list[str] = field(default_factory=list)
    # Something was concluded that the answer does not prove, or a command was written twice.
    wrong: list[str] = field(default_factory=list)
    # What a session did with a right answer afterwards was another thing.
    unusable: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Case:
    """One payload, on one route, for one call."""

    call: str
    route: Route
    answer: Answer
    payload: Payload

    @property
    def name(self) -> str:
        """As people find it again."""
        return f"{self.call} <- {self.route.name} {self.answer.status}: {self.payload.name}"


def calls_of(samples: Samples) -> dict[str, Call]:
    """Everything that a session can be asked, but its feed and what it declares that it cannot."""
    replaces = samples.definition.capabilities.replace is not ReplaceSupport.NONE
    return {
        "submit": lambda session: session.submit(ORDER),
        **({"replace": lambda session: session.replace(samples.replacement)} if replaces else {}),
        "cancel": lambda session: session.cancel(ACCOUNT, samples.order, VALID_UNTIL),
        "find": lambda session: session.find(ACCOUNT, samples.order),
        "orders_since": lambda session: session.orders_since(ACCOUNT, TOLD_AT),
        "positions": lambda session: session.positions(ACCOUNT),
        "balances": lambda session: session.balances(ACCOUNT),
        "instruments": lambda session: session.instruments(ACCOUNT, [SYMBOL]),
        "quotes": lambda session: session.quotes(ACCOUNT, [SYMBOL]),
        "sign_in": lambda session: _sign_in(session, samples),
    }


async def _sign_in(session: BrokerSession, samples: Samples) -> Any:
    assert samples.secrets is not None
    return await session.sign_in(ACCOUNT, Environment.PAPER, samples.secrets)


async def hostile(broker: str, count: int | None = None) -> Tried:
    """Try so many of them, drawn by lot, or all: thousands."""
    samples, tried = samples_of(broker), Tried()
    right: Right = {}
    async with Bench(samples, tried, right) as bench:
        cases = _chosen(await bench.cases(), count)
        for case in cases:
            await bench.learn(case)
    tried.payloads = len({(case.route.name, case.answer.status, case.payload.name) for case in cases})
    # What is long alone, so that its memory is measured.
    for at_once, some in (
        (AT_ONCE, [c for c in cases if not c.payload.heavy]),
        (1, [c for c in cases if c.payload.heavy]),
    ):
        waiting = deque(some)
        await asyncio.gather(*(_work(Bench(samples, tried, right), waiting) for _ in range(at_once)))
    return tried


async def _work(bench: "Bench", waiting: deque[Case]) -> None:
    async with bench:
        while waiting:
            await bench.try_out(waiting.popleft())


def _chosen(cases: Sequence[Case], count: int | None) -> list[Case]:
    """The slow ones first, so that they pass side by side."""
    slow = [case for case in cases if case.payload.slow]
    quick = [case for case in cases if not case.payload.slow]
    if count is not None:
        chance = Random("hostile")
        slow = chance.sample(slow, min(count // SLOW_AMONG, len(slow)))
        quick = chance.sample(quick, min(count, len(quick)))
    return slow + quick


class Bench:
    """One session with one server, used again and again."""

    def __init__(self, samples: Samples, tried: Tried, right: Right) -> None:
        self._samples = samples
        self._tried = tried
        self._server = HostileServer(samples)
        self._calls = calls_of(samples)
        self._stack = AsyncExitStack()
        self._right = right

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self._server.serving())
        self._session = await self._samples.definition.open_session(
            dict.fromkeys(Environment, self._server.address),
        )
        self._stack.push_async_callback(self._session.close)
        if self._samples.secrets is not None:
            await _surely(lambda: _sign_in(self._session, self._samples))
        return self

    async def __aexit__(self, *trouble: object) -> None:
        await self._stack.aclose()

    async def cases(self) -> list[Case]:
        """Every payload of every route that a call asks, for that call."""
        cases = []
        for call, make in self._calls.items():
            self._server.seen.routes.clear()
            await _surely(partial(make, self._session))
            met = set(self._server.seen.routes)
            cases += [Case(call, *made) for made in self._payloads(call, met)]
        feeds = {route.name for route in self._samples.routes if route.is_feed}
        return cases + [Case("reports", *made) for made in self._payloads("reports", feeds)]

    def _payloads(self, call: str, names: set[str]) -> list[tuple[Route, Answer, Payload]]:
        return [
            (route, answer, payload)
            for route in self._samples.routes
            if route.name in names
            for answer in (route.answers[:1] if call in route.first_only else route.answers)
            for payload in payloads_of(self._samples, route, answer)
        ]

    async def try_out(self, case: Case) -> None:
        """One call, judged; then a right answer must be understood again."""
        self._tried.calls += 1
        right = self._right[case.call, case.route.name, case.answer]
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        if case.call == "reports":
            await self._try_feed(case, right)
        else:
            await self._try_call(case, right)
        growth = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
        seen = self._server.seen
        if (seen.pushed > PUSHED_BYTES_MAX and not case.payload.floods) or (
            case.payload.heavy and growth > GROWTH_BYTES_MAX
        ):
            self._tried.unbounded.append(f"{case.name}: {seen.pushed} bytes were taken, memory grew by {growth}")
        if seen.strays:
            self._tried.wrong.append(f"{case.name}: {seen.strays}")
        if case.call in COMMANDS and seen.routes.count(case.route.name) > 1:
            self._tried.wrong.append(f"{case.name}: {seen.routes}")

    async def learn(self, case: Case) -> None:
        """See what the call makes of the answer as it should be."""
        key = (case.call, case.route.name, case.answer)
        if key not in self._right:
            self._server.behave(case.route, case.answer)
            if case.call == "reports":
                self._right[key] = await _surely(self._heard)
            else:
                self._right[key] = await _surely(lambda: self._calls[case.call](self._session))
            self._server.behave()

    async def _try_call(self, case: Case, right: Any) -> None:
        self._server.attack(case.route, case.payload)
        began = time.monotonic()
        told = await self._told(case)
        if time.monotonic() - began > DEADLINE_SECONDS:
            self._tried.hangs.append(f"{case.name}: {time.monotonic() - began:.1f} s")
        self._judge(case, told, right)
        # Not counted: what was asked of the hostile route is known by now.
        seen, self._server.seen = self._server.seen, type(self._server.seen)()
        self._server.behave(case.route, case.answer)
        # What an answer left behind on its connection may spoil the next, which is in doubt then and nothing else.
        again = await self._told(case)
        for _ in range(BUSY_TRIES_MAX):
            if isinstance(again, Exception | Unknown | NotSent):
                again = await self._told(case)
        if _plain(again) != _plain(right):
            self._tried.unusable.append(f"{case.name}: then {again!r:.200}")
        seen.strays += self._server.seen.strays
        self._server.seen = seen

    async def _told(self, case: Case) -> Any:
        try:
            async with asyncio.timeout(2 * DEADLINE_SECONDS):
                return await self._calls[case.call](self._session)
        except Exception as trouble:  # noqa: BLE001 - whatever comes is judged
            return trouble

    def _judge(self, case: Case, told: Any, right: Any) -> None:
        if isinstance(told, Exception):
            if case.call in COMMANDS or not _is_meant(told):
                self._tried.crashes.append(f"{case.name}: {type(told).__name__} {told!s:.200}")
            return
        # One that is asked about first may not be written at all; each has a route of its name.
        is_unwritten = isinstance(told, NotSent) and case.call not in self._server.seen.routes
        if case.call in COMMANDS and (isinstance(told, Unknown) or is_unwritten):
            return
        if case.payload.proves is Proves.NOTHING:
            is_right = False
        elif case.payload.proves is Proves.AS_BEFORE:
            is_right = _plain(told) == _plain(right)
        else:
            is_right = type(told) is type(right) and not isinstance(told, NotSent) and _is_sound(told)
        if not is_right:
            self._tried.wrong.append(f"{case.name}: {told!r:.300}")

    async def _heard(self) -> list[FeedItem]:
        """What the feed tells when nothing is wrong."""
        feed = self._session.reports()
        heard: list[FeedItem] = []
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not any(item is not None and item[1] is not None for item in heard):
                heard.append(await anext(feed))
        assert isinstance(feed, AsyncGenerator)
        await feed.aclose()
        return heard

    async def _try_feed(self, case: Case, right: list[FeedItem]) -> None:
        # What an update does not tell may be asked for.
        told = (ACCOUNT, await _surely(lambda: self._session.find(ACCOUNT, self._samples.order)))
        self._server.attack(case.route, case.payload)
        heard: deque[FeedItem] = deque(maxlen=1000)
        listening = asyncio.ensure_future(self._listen(heard))
        try:
            await _wait(FEED_SECONDS, lambda: bool(self._server.seen.ended) or listening.done())
            odd = [item for item in heard if item not in right and item != told and not _may_be(case.payload, item)]
            if odd:
                self._tried.wrong.append(f"{case.name}: {odd[0]!r:.300}")
            heard.clear()
            self._server.behave()
            await _wait(DEADLINE_SECONDS, lambda: right[-1] in heard or listening.done())
            if listening.done():
                self._tried.crashes.append(f"{case.name}: {listening.exception()!r:.300}")
            elif right[-1] not in heard:
                self._tried.unusable.append(f"{case.name}: the feed does not come back")
        finally:
            listening.cancel()
            await asyncio.wait({listening})

    async def _listen(self, heard: deque[FeedItem]) -> None:
        feed = self._session.reports()
        assert isinstance(feed, AsyncGenerator)
        try:
            async for item in feed:
                heard.append(item)
        finally:
            await feed.aclose()


async def _surely(call: Callable[[], Awaitable[Any]]) -> Any:
    """What is answered as it should be; a machine that is busy may need more time than a session gives it."""
    for _ in range(BUSY_TRIES_MAX):
        with contextlib.suppress(*QUERY_ERRORS):
            told = await call()
            if not isinstance(told, Unknown | NotSent):
                return told
    raise TimeoutError("nothing wrong was answered, and nothing came of it")


async def _wait(seconds: float, condition: Callable[[], bool]) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.005)


def _may_be(payload: Payload, item: FeedItem) -> bool:
    return payload.proves is Proves.THE_KIND and _is_sound(item)


def _is_meant(trouble: Exception) -> bool:
    """Whether somebody thought of it: a call that fails, or an adapter that says so."""
    own = type(trouble).__module__.startswith("openbell_server.")
    return own or isinstance(trouble, httpx.HTTPError | TimeoutError | msgspec.MsgspecError)


def _plain(told: Any) -> str:
    """To compare by, without the time at which it was asked."""
    if is_dataclass(told):
        return str({each.name: _plain(getattr(told, each.name)) for each in fields(told) if each.name != "as_of"})
    if isinstance(told, list | tuple):
        return str([_plain(each) for each in told])
    return repr(told)


def _is_sound(told: Any) -> bool:
    """Whether it can be kept and reckoned with: text without NUL, numbers and times within what we have."""
    if is_dataclass(told):
        # A broker's own words are cleaned where they are kept.
        named = [each.name for each in fields(told) if each.name not in {"broker_code", "broker_text"}]
        return all(_is_sound(getattr(told, name)) for name in named)
    if isinstance(told, list | tuple):
        return all(_is_sound(each) for each in told)
    if isinstance(told, str):
        return len(told) <= TEXT_LENGTH_MAX and "\0" not in told and told.encode(errors="replace").decode() == told
    if isinstance(told, Decimal):
        return told.is_finite() and told == round(told, DIGITS_MAX) and abs(told) < 10**DIGITS_MAX
    if isinstance(told, datetime):
        return _is_a_time(told)
    return not isinstance(told, int) or abs(told) < 2**31


def _is_a_time(moment: datetime) -> bool:
    try:
        return moment.tzinfo is not None and bool(moment.astimezone(UTC))
    except OverflowError:
        return False
