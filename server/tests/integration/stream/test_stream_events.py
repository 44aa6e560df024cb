"""Several subscriptions in one call: each has a label, and what is wrong with one is no matter of the others."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import grpc
import pytest

from openbell.wire import trading_pb2 as pb
from openbell_server.adapters.postgres.connection import Pool
from openbell_server.application.events import open_streams
from openbell_server.domain.access.principals import INTENT_EDIT
from openbell_server.transport.stream.many_subscriptions import SUBSCRIPTIONS_MAX
from support.builders.tenant import Tenant, a_tenant, an_account, misspelled
from support.rest.event_streams import SMALL_WINDOW, ending, event_stream, take, write_events
from support.rest.rest_api import limited

HELD = pb.EVENT_TYPE_POSITION_ADJUSTED
LONG = "x" * 65
STREAM = "/trading.TradingService/StreamEvents"


@dataclass
class Call:
    """One call of a tenant's key."""

    tenant: Tenant
    call: Any

    async def subscribe(self, label: str, tenant: Tenant | None = None, **asked: Any) -> None:
        request = {
            "trading_account_id": str((tenant or self.tenant).account.id),
            "subscriptions": [HELD],
            "subscription_id": label,
            **asked,
        }
        await self.send(pb.StreamEventsRequest(subscribe=pb.Subscribe(**request)))

    async def unsubscribe(self, label: str) -> None:
        await self.send(pb.StreamEventsRequest(unsubscribe=pb.Unsubscribe(subscription_id=label)))

    async def send(self, request: pb.StreamEventsRequest) -> None:
        await self.call.write(request.SerializeToString())

    async def open(self, *labels: str, **asked: Any) -> list[pb.TradingEvent]:
        """Subscriptions that begin, one after the other."""
        first = []
        for label in labels:
            await self.subscribe(label, **asked)
            (frame,) = await take(self.call, 1)
            assert (frame.WhichOneof("event"), frame.subscription_id) == ("subscribed", label)
            first.append(frame)
        return first


@dataclass
class Line:
    """A connection."""

    channel: grpc.aio.Channel
    stopping: asyncio.Event

    def call(self, tenant: Tenant, key: str | None = None) -> Call:
        # Bytes out: what is no message can be sent too.
        streams: Any = self.channel.stream_stream(STREAM, response_deserializer=pb.TradingEvent.FromString)
        return Call(tenant, streams(metadata=(("x-api-key", key or tenant.key),), timeout=60))


@pytest.fixture
async def line(pool: Pool) -> AsyncIterator[Line]:
    stopping = asyncio.Event()
    async with (
        event_stream(pool, stopping=stopping) as address,
        grpc.aio.insecure_channel(address, options=SMALL_WINDOW) as channel,
    ):
        yield Line(channel, stopping)


async def sibling_of(pool: Pool, tenant: Tenant) -> Tenant:
    """Another account that the same key may follow."""
    return replace(tenant, account=await an_account(pool, tenant.account.organization_id))


async def test_every_frame_has_the_label_of_its_subscription(pool: Pool, line: Line) -> None:
    tenant = await a_tenant(pool)
    second = await sibling_of(pool, tenant)
    await write_events(pool, tenant, ["AAPL"])
    call = line.call(tenant)
    await call.open("one")
    await call.open("two", tenant=second, symbols=["MSFT"])
    await call.open("all", trading_account_id="")
    await write_events(pool, tenant, ["AAPL", "MSFT"])
    await write_events(pool, second, ["AAPL", "MSFT"])
    frames = await take(call.call, 7)
    one, two = str(tenant.account.id), str(second.account.id)

    def told(label: str) -> list[tuple[str, int, int]]:
        """In the order of each account."""
        mine = [frame for frame in frames if frame.subscription_id == label]
        return sorted(((frame.account_id, frame.account_seq, frame.prev_seq) for frame in mine), key=str)

    assert told("one") == [(one, 2, 1), (one, 3, 2)]
    assert told("two") == [(two, 2, 0)]
    assert told("all") == sorted([(one, 2, 1), (one, 3, 2), (two, 1, 0), (two, 2, 1)], key=str)


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"trading_account_id": str(UUID(int=7))}, "not_found"),
        ({"trading_account_id": "none"}, "not_found"),
        ({"subscriptions": []}, "invalid_parameter"),
        ({"subscriptions": [99]}, "invalid_parameter"),
        ({"symbols": ["aapl"]}, "invalid_parameter"),
        ({"start": pb.START_LIVE, "resume_token": "a token"}, "invalid_parameter"),
        ({"resume_token": "a token"}, "invalid_cursor"),
        ({"subscription_id": ""}, "invalid_parameter"),
        ({"subscription_id": LONG}, "invalid_parameter"),
        ({"subscription_id": "a\nb"}, "invalid_parameter"),
        ({"subscription_id": "good"}, "label_taken"),
    ],
    ids=str,
)
async def test_a_subscription_that_is_wrong_is_told_so_and_the_others_go_on(
    pool: Pool, line: Line, asked: dict[str, Any], code: str
) -> None:
    tenant = await a_tenant(pool)
    call = line.call(tenant)
    await call.open("good")
    await call.subscribe(**{"label": "bad", **asked})
    (frame,) = await take(call.call, 1)
    assert (frame.error.code, frame.error.retryable) == (code, False)
    assert frame.subscription_id == asked.get("subscription_id", "bad")
    await write_events(pool, tenant, ["AAPL"])
    (event,) = await take(call.call, 1)
    assert (event.subscription_id, event.account_seq) == ("good", 1)
    # What was refused left nothing behind.
    await call.open("bad")


async def test_what_asks_for_nothing_and_an_unknown_label_are_told_so(pool: Pool, line: Line) -> None:
    call = line.call(await a_tenant(pool))
    await call.unsubscribe("early")
    await call.send(pb.StreamEventsRequest())
    frames = await take(call.call, 2)
    await call.open("early")
    await call.unsubscribe("other")
    frames += await take(call.call, 1)
    assert [(frame.subscription_id, frame.error.code) for frame in frames] == [
        ("early", "not_found"),
        ("", "invalid_parameter"),
        ("other", "not_found"),
    ]


async def test_a_call_carries_a_hundred_subscriptions_and_one_that_ended_makes_room(pool: Pool, line: Line) -> None:
    tenant = await a_tenant(pool)
    call = line.call(tenant)
    await call.open(*(f"s{number}" for number in range(SUBSCRIPTIONS_MAX)))
    await call.subscribe("more")
    (frame,) = await take(call.call, 1)
    assert (frame.subscription_id, frame.error.code) == ("more", "too_many_subscriptions")
    assert frame.error.retryable
    await write_events(pool, tenant, ["AAPL"])
    events = await take(call.call, SUBSCRIPTIONS_MAX)
    assert len({event.subscription_id for event in events if event.account_seq == 1}) == SUBSCRIPTIONS_MAX
    await call.unsubscribe("s7")
    (ended,) = await take(call.call, 1)
    assert (ended.WhichOneof("event"), ended.subscription_id) == ("ended", "s7")
    await call.open("more")


async def test_after_ended_no_frame_of_the_subscription_comes_and_its_label_is_free(pool: Pool, line: Line) -> None:
    tenant = await a_tenant(pool)
    await write_events(pool, tenant, ["AAPL"] * 300, size=4000)
    call = line.call(tenant)
    await call.open("quiet")
    # It has more to send than was read, so that it is ended in the middle of it.
    await call.subscribe("busy", start=pb.START_BEGINNING)
    await take(call.call, 3)
    await call.unsubscribe("busy")
    sent = 0
    while (await take(call.call, 1))[0].WhichOneof("event") != "ended":
        sent += 1
    assert sent < 297
    await write_events(pool, tenant, ["AAPL"])
    (event,) = await take(call.call, 1)
    assert (event.subscription_id, event.account_seq) == ("quiet", 301)
    await call.open("busy")


async def test_subscriptions_that_have_much_to_send_take_turns(pool: Pool, line: Line) -> None:
    tenant = await a_tenant(pool)
    call = line.call(tenant)
    await call.open("one", "two")
    # They are there all at once, for both.
    await write_events(pool, tenant, ["AAPL"] * 200, size=2000)
    frames = await take(call.call, 400)
    first = [frame.subscription_id for frame in frames[:100]]
    assert 40 <= first.count("one") <= 60
    for label in ("one", "two"):
        mine = [frame.account_seq for frame in frames if frame.subscription_id == label]
        assert mine == list(range(1, 201))


async def test_a_subscription_that_loses_its_account_ends_and_the_others_go_on(pool: Pool, line: Line) -> None:
    tenant = await a_tenant(pool)
    second = await sibling_of(pool, tenant)
    call = line.call(tenant)
    await call.open("kept")
    (first,) = await call.open("lost", tenant=second)
    await pool.execute("update accounts set environment = 'live' where account_id = $1", second.account.id)
    (frame,) = await take(call.call, 1)
    assert (frame.subscription_id, frame.error.code, frame.error.retryable) == ("lost", "environment_mismatch", False)
    assert frame.resume_token == first.resume_token
    await write_events(pool, second, ["AAPL"])
    await write_events(pool, tenant, ["AAPL"])
    (event,) = await take(call.call, 1)
    assert (event.subscription_id, event.account_seq) == ("kept", 1)


@pytest.mark.parametrize("labels", [(), ("one", "two")])
async def test_a_key_that_loses_its_right_loses_the_whole_call(pool: Pool, line: Line, labels: tuple[str, ...]) -> None:
    call = line.call(await a_tenant(pool))
    await call.open("before")
    await call.unsubscribe("before")
    await take(call.call, 1)
    await call.open(*labels)
    await pool.execute("update api_keys set disabled = true")
    frames, code, told = await ending(call.call)
    assert (frames, code, told["openbell-code"]) == ([], grpc.StatusCode.UNAUTHENTICATED, "key_disabled")


@pytest.mark.parametrize("labels", [(), ("one", "two", "three")])
async def test_who_follows_a_server_that_goes_away_is_told_for_every_subscription_where_to_resume(
    pool: Pool, line: Line, labels: tuple[str, ...]
) -> None:
    tenant = await a_tenant(pool)
    call = line.call(tenant)
    await call.open("before")
    await call.unsubscribe("before")
    await take(call.call, 1)
    tokens = {frame.subscription_id: frame.resume_token for frame in await call.open(*labels)}
    line.stopping.set()
    frames, code, _ = await ending(call.call)
    assert {frame.subscription_id: frame.resume_token for frame in frames} == tokens
    assert {(frame.error.code, frame.error.retryable) for frame in frames} <= {("going_away", True)}
    assert (len(frames), code) == (len(labels), grpc.StatusCode.UNAVAILABLE)


async def test_a_call_is_one_stream_of_its_caller_however_much_it_carries(pool: Pool, line: Line) -> None:
    tenant = await a_tenant(pool)
    calls = [line.call(tenant) for _ in range(open_streams.STREAMS_OF_CALLER_MAX)]
    for call in calls:
        await call.open("one", "two")
    _, code, told = await ending(line.call(tenant).call)
    assert (code, told["openbell-code"]) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "too_many_streams")


async def test_who_reads_nothing_is_cut_and_resumes_every_subscription_where_it_was(
    pool: Pool, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_streams, "STALLED_SECONDS", 1.0)
    tenant = await a_tenant(pool)
    call = line.call(tenant)
    await call.open("one", "two")
    await write_events(pool, tenant, ["AAPL"] * 300, size=4000)
    seen: list[pb.TradingEvent] = []
    while len({frame.subscription_id for frame in seen}) < 2:
        seen += await take(call.call, 1)
    # Nothing is read for longer than it takes to be found out.
    await asyncio.sleep(3)
    frames, code, told = await ending(call.call)
    assert (code, told["openbell-code"]) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "slow_consumer")
    assert len(seen + frames) < 590
    again = line.call(tenant)
    for label in ("one", "two"):
        last = [frame for frame in seen + frames if frame.subscription_id == label][-1]
        await again.open(label, resume_token=last.resume_token)
        (event, *_) = [frame for frame in await take(again.call, 20) if frame.subscription_id == label]
        assert (event.account_seq, event.prev_seq) == (last.account_seq + 1, last.account_seq)
        await again.unsubscribe(label)
        while (await take(again.call, 1))[0].WhichOneof("event") != "ended":
            pass


async def test_every_subscription_is_counted_as_reading(pool: Pool) -> None:
    tenant = await a_tenant(pool)
    async with (
        event_stream(pool, limited(reads_per_minute=3)) as address,
        grpc.aio.insecure_channel(address) as channel,
    ):
        call = Line(channel, asyncio.Event()).call(tenant)
        await call.open("one", "two")
        await call.subscribe("three")
        (frame,) = await take(call.call, 1)
        assert (frame.subscription_id, frame.error.code, frame.error.retryable) == ("three", "rate_limited", True)
        assert frame.error.message.endswith("wait 60 s")
        await write_events(pool, tenant, ["AAPL"])
        assert {event.subscription_id for event in await take(call.call, 2)} == {"one", "two"}
        # To end one is free.
        await call.unsubscribe("one")
        (ended,) = await take(call.call, 1)
        assert ended.WhichOneof("event") == "ended"


async def test_what_is_no_message_ends_the_call(pool: Pool, line: Line) -> None:
    call = line.call(await a_tenant(pool))
    await call.open("one")
    await call.call.write(b"\x0a\x05x")
    frames, code, told = await ending(call.call)
    assert (frames, code) == ([], grpc.StatusCode.INVALID_ARGUMENT)
    assert told["openbell-code"] == "invalid_parameter"


async def test_who_closes_its_side_keeps_what_is_open_until_it_ends(pool: Pool, line: Line) -> None:
    tenant = await a_tenant(pool)
    second = await sibling_of(pool, tenant)
    call = line.call(tenant)
    await call.open("one", tenant=second)
    await call.call.done_writing()
    await write_events(pool, second, ["AAPL"])
    (event,) = await take(call.call, 1)
    assert (event.subscription_id, event.account_seq) == ("one", 1)
    await pool.execute("update accounts set environment = 'live' where account_id = $1", second.account.id)
    (frame,) = await take(call.call, 1)
    assert frame.error.code == "environment_mismatch"
    assert await asyncio.wait_for(call.call.code(), 60) is grpc.StatusCode.OK


async def test_who_closes_its_side_with_nothing_open_is_done(pool: Pool, line: Line) -> None:
    call = line.call(await a_tenant(pool))
    await call.open("one")
    await call.unsubscribe("one")
    await take(call.call, 1)
    await call.call.done_writing()
    assert await asyncio.wait_for(call.call.code(), 60) is grpc.StatusCode.OK


async def test_who_may_follow_nothing_is_not_let_in(pool: Pool, line: Line) -> None:
    blind = await a_tenant(pool, permissions=frozenset({INTENT_EDIT}))
    for key, expected in (
        (blind.key, (grpc.StatusCode.PERMISSION_DENIED, "permission_denied")),
        (misspelled(blind.key), (grpc.StatusCode.UNAUTHENTICATED, "unauthenticated")),
    ):
        _, code, told = await ending(line.call(blind, key).call)
        assert (code, told["openbell-code"]) == expected
