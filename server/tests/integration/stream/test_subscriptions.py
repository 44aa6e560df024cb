"""What a subscription may ask for beyond kinds, how it is primed, and how it ends when nobody reads it."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import grpc
import pytest

from openbell.wire import trading_pb2 as pb
from openbell.wire import trading_pb2_grpc
from openbell_server.adapters.postgres.connection import Pool
from openbell_server.application.events import open_streams
from openbell_server.application.events.recheck_access import ACCESS_SECONDS
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.orders.broker_reports import ReportStatus, Unknown
from support.brokers.scripted_broker import Harness, until_so
from support.builders.tenant import (
    Tenant,
    a_limit_create,
    a_report,
    a_tenant,
    accept,
    an_account,
    an_execution,
    described,
)
from support.history.pruning import prune_at_any_age
from support.rest.event_streams import SMALL_WINDOW, ending, event_stream, take, write_events

EVERY_KIND = [kind for kind in pb.EventType.values() if kind and kind < pb.EVENT_TYPE_BROKER_TRADE]


@dataclass
class Client:
    stub: "trading_pb2_grpc.TradingServiceAsyncStub"
    stopping: asyncio.Event

    def subscribe(self, tenant: Tenant, **asked: Any) -> Any:
        request = pb.Subscribe(
            trading_account_id=asked.pop("account", str(tenant.account.id)),
            subscriptions=asked.pop("kinds", EVERY_KIND),
            **asked,
        )
        return self.stub.SubscribeEvents(request, metadata=(("x-api-key", tenant.key),), timeout=60)


@pytest.fixture
async def client(pool: Pool) -> AsyncIterator[Client]:
    stopping = asyncio.Event()
    async with (
        event_stream(pool, stopping=stopping) as address,
        grpc.aio.insecure_channel(address, options=SMALL_WINDOW) as channel,
    ):
        yield Client(trading_pb2_grpc.TradingServiceStub(channel), stopping)


async def test_symbols_let_pass_what_is_about_them_and_what_is_about_none(pool: Pool, client: Client) -> None:
    tenant = await a_tenant(pool)
    await write_events(pool, tenant, ["AAPL", "MSFT", None, "TSLA", "AAPL"])
    call = client.subscribe(tenant, start=pb.START_BEGINNING, symbols=["AAPL", "TSLA"], subscription_id="mine")
    subscribed, *events = await take(call, 5)
    assert (subscribed.account_seq, list(subscribed.subscribed.symbols)) == (0, ["AAPL", "TSLA"])
    assert [(event.account_seq, event.prev_seq) for event in events] == [(1, 0), (3, 1), (4, 3), (5, 4)]
    assert {frame.subscription_id for frame in (subscribed, *events)} == {"mine"}
    assert [event.event_id for event in events] == [f"{tenant.account.id}.{number}" for number in (1, 3, 4, 5)]


@pytest.mark.parametrize(
    "asked",
    [
        {"symbols": ["aapl"]},
        {"symbols": [""]},
        {"symbols": [f"S{number}" for number in range(101)]},
        {"subscription_id": "x" * 65},
        {"subscription_id": "a\nb"},
        {"start": 9},
        {"start": pb.START_LIVE, "resume_token": "a token"},
    ],
    ids=str,
)
async def test_what_cannot_be_honoured_is_refused(pool: Pool, client: Client, asked: dict[str, Any]) -> None:
    _, code, told = await ending(client.subscribe(await a_tenant(pool), **asked))
    assert (code, told["openbell-code"]) == (grpc.StatusCode.INVALID_ARGUMENT, "invalid_parameter")


async def test_a_primed_stream_tells_what_stands_and_then_what_happens(pool: Pool, client: Client) -> None:
    harness = Harness(pool, await a_tenant(pool))
    intent, order_id = await harness.working()
    await harness.report(a_report(ReportStatus.WORKING, [an_execution(1, 2)], client_order_id=order_id))
    harness.broker.book["x"] = described(a_report(ReportStatus.WORKING, client_order_id="by-phone"), "x1")
    await harness.reconcile()
    head = await pool.fetchval("select event_no from account_counters")
    call = client.subscribe(harness.tenant, start=pb.START_PRIMED)
    frames = await take(call, 5)
    kinds = [frame.WhichOneof("event") for frame in frames]
    assert kinds == ["subscribed", "broker_order", "external_order", "broker_position", "primed"]
    assert {frame.account_seq for frame in frames} == {head}
    _, order, external, position, primed = frames
    assert (order.broker_order.intent_id, order.broker_order.filled_quantity) == (str(intent), "2")
    assert external.external_order.broker_order_id == "x1"
    assert (position.broker_position.symbol, position.broker_position.quantity) == ("AAPL", "2")
    assert (primed.primed.orders, primed.primed.positions) == (2, 1)
    # Who breaks off before the end begins anew.
    assert [bool(frame.resume_token) for frame in frames] == [False, False, False, False, True]
    await harness.accept(a_limit_create())
    (event,) = await take(call, 1)
    assert (event.account_seq, event.prev_seq) == (head + 1, head)
    last = (await take(client.subscribe(harness.tenant, resume_token=primed.resume_token), 2))[-1]
    assert last.account_seq == head + 1


async def test_a_snapshot_has_an_order_in_the_words_of_its_last_event(pool: Pool, client: Client) -> None:
    harness = Harness(pool, await a_tenant(pool))
    _, order_id = await harness.working()
    await harness.report(a_report(ReportStatus.WORKING, [an_execution(1, 2)], client_order_id=order_id))
    orders = [pb.EVENT_TYPE_BROKER_ORDER]
    head = int(await pool.fetchval("select count(*) from account_events where kind = 2"))
    events = await take(client.subscribe(harness.tenant, start=pb.START_BEGINNING, kinds=orders), 1 + head)
    _, standing, primed = await take(client.subscribe(harness.tenant, start=pb.START_PRIMED, kinds=orders), 3)
    assert standing.broker_order == events[-1].broker_order
    assert (primed.primed.orders, primed.primed.positions) == (1, 0)


async def test_a_snapshot_leaves_out_an_order_until_an_event_tells_of_it(pool: Pool, client: Client) -> None:
    harness = Harness(pool, await a_tenant(pool))
    await harness.accept(a_limit_create())
    _, primed = await take(client.subscribe(harness.tenant, start=pb.START_PRIMED), 2)
    assert (primed.account_seq, primed.primed.orders) == (1, 0)
    harness.broker.script.append(Unknown("no answer"))
    await harness.work()
    _, standing, primed = await take(client.subscribe(harness.tenant, start=pb.START_PRIMED), 3)
    assert (standing.broker_order.status, primed.primed.orders) == ("UNKNOWN", 1)


async def test_a_token_of_what_is_no_longer_kept_is_told_what_is_missing(pool: Pool, client: Client) -> None:
    tenant = await a_tenant(pool)
    (start,) = await take(client.subscribe(tenant), 1)
    await write_events(pool, tenant, ["AAPL"] * 3)
    await prune_at_any_age(pool)
    await pool.execute("select prune_events('00000000-0000-0000-0000-000000000000', 0, 1000)")
    await write_events(pool, tenant, ["AAPL"] * 2)
    _, gap, event, last = await take(client.subscribe(tenant, resume_token=start.resume_token), 4)
    assert (gap.gap.first_seq, gap.gap.last_seq, gap.gap.reason) == (1, 3, "RETENTION")
    assert (gap.account_seq, gap.prev_seq) == (3, 0)
    assert [(frame.account_seq, frame.prev_seq) for frame in (event, last)] == [(4, 3), (5, 4)]
    _, resumed = await take(client.subscribe(tenant, resume_token=gap.resume_token), 2)
    assert resumed.account_seq == 4
    begun, first = await take(client.subscribe(tenant, start=pb.START_BEGINNING), 2)
    assert (begun.account_seq, first.account_seq, first.prev_seq) == (3, 4, 3)


@pytest.fixture
def cuts(monkeypatch: pytest.MonkeyPatch) -> list[Exception]:
    """Why streams were cut in the middle of sending, as it happens."""
    made: list[Exception] = []
    cut = open_streams.OpenStream.cut

    def recorded(stream: open_streams.OpenStream, why: Exception) -> None:
        cut(stream, why)
        made.append(why)

    monkeypatch.setattr(open_streams.OpenStream, "cut", recorded)
    return made


async def stalled(pool: Pool, client: Client, tenant: Tenant) -> Any:
    """A stream that has more to send than its client takes."""
    await write_events(pool, tenant, ["AAPL"] * 300, size=4000)
    call = client.subscribe(tenant, start=pb.START_BEGINNING)
    await take(call, 2)
    return call


async def test_who_reads_nothing_is_cut_and_resumes_where_it_was(
    pool: Pool, client: Client, cuts: list[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_streams, "STALLED_SECONDS", 1.0)
    tenant = await a_tenant(pool)
    call = await stalled(pool, client, tenant)
    # Nothing is read until it was found out.
    await until_so(lambda: bool(cuts))
    frames, code, told = await ending(call)
    assert (code, told["openbell-code"]) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "slow_consumer")
    assert len(frames) < 298
    rest = client.subscribe(tenant, resume_token=told["openbell-resume-token"])
    subscribed, event = await take(rest, 2)
    # What was on its way when the stream was cut may come twice, and nothing is left out.
    assert subscribed.account_seq <= frames[-1].account_seq
    assert event.account_seq == subscribed.account_seq + 1


async def test_a_stream_that_nobody_reads_ends_with_its_key(pool: Pool, client: Client, cuts: list[Exception]) -> None:
    tenant = await a_tenant(pool)
    call = await stalled(pool, client, tenant)
    await pool.execute("update api_keys set disabled = true")
    await until_so(lambda: bool(cuts))
    frames, code, _ = await ending(call)
    assert code is grpc.StatusCode.UNAUTHENTICATED
    assert len(frames) < 298


async def test_a_caller_that_may_not_follow_is_refused_before_a_stream_is_counted(pool: Pool, client: Client) -> None:
    tenant = await a_tenant(pool, permissions=frozenset({"intent:edit"}))
    _, code, _ = await ending(client.subscribe(tenant))
    assert code is grpc.StatusCode.PERMISSION_DENIED
    assert not await pool.fetchval("select count(*) from stream_counts")


async def test_a_caller_has_so_many_streams_and_no_more(pool: Pool, client: Client) -> None:
    tenant = await a_tenant(pool)
    calls = [client.subscribe(tenant) for _ in range(open_streams.STREAMS_OF_CALLER_MAX)]
    for call in calls:
        await take(call, 1)
    _, code, told = await ending(client.subscribe(tenant))
    assert (code, told["openbell-code"]) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "too_many_streams")
    calls[0].cancel()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        call = client.subscribe(tenant)
        try:
            await take(call, 1)
            break
        except grpc.aio.AioRpcError:
            await asyncio.sleep(0.1)
    else:
        pytest.fail("the place of a stream that was closed stays taken")


async def test_who_follows_a_server_that_goes_away_is_told_where_to_resume(pool: Pool, client: Client) -> None:
    tenant = await a_tenant(pool)
    await accept(pool, tenant.submission())
    call = client.subscribe(tenant)
    await take(call, 1)
    client.stopping.set()
    frames, code, told = await ending(call)
    assert [frame.error.code for frame in frames] == ["going_away"]
    assert frames[0].error.retryable
    assert (code, told["openbell-resume-token"]) == (grpc.StatusCode.UNAVAILABLE, frames[0].resume_token)


async def test_one_stream_follows_all_accounts_of_its_key_and_those_that_come_later(pool: Pool, client: Client) -> None:
    tenant, other_organization = await a_tenant(pool), await a_tenant(pool)
    second = replace(tenant, account=await an_account(pool, tenant.account.organization_id))
    live = replace(tenant, account=await an_account(pool, tenant.account.organization_id, Environment.LIVE))
    await write_events(pool, tenant, ["AAPL"])
    call = client.subscribe(tenant, account="", subscription_id="all")
    (subscribed,) = await take(call, 1)
    assert subscribed.subscribed.organization
    assert (subscribed.account_id, bool(subscribed.resume_token)) == ("", True)
    third = replace(tenant, account=await an_account(pool, tenant.account.organization_id))
    for each in (other_organization, live, tenant, second, third, tenant):
        await write_events(pool, each, ["AAPL"])
    seen = {(event.account_id, event.account_seq, event.prev_seq) for event in await take(call, 4)}
    first = str(tenant.account.id)
    expected = {(first, 2, 1), (first, 3, 2), (str(second.account.id), 1, 0), (str(third.account.id), 1, 0)}
    assert seen == expected
    again = client.subscribe(tenant, account="", resume_token=subscribed.resume_token)
    assert {(event.account_id, event.account_seq, event.prev_seq) for event in (await take(again, 5))[1:]} == expected
    _, code, told = await ending(client.subscribe(other_organization, account="", resume_token=subscribed.resume_token))
    assert (code, told["openbell-code"]) == (grpc.StatusCode.INVALID_ARGUMENT, "invalid_cursor")


async def test_every_hundredth_event_of_an_organization_has_a_token_that_resumes_after_it(
    pool: Pool, client: Client
) -> None:
    tenant = await a_tenant(pool)
    await write_events(pool, tenant, ["AAPL"] * 150)
    _, *events = await take(client.subscribe(tenant, account="", start=pb.START_BEGINNING), 151)
    assert [event.account_seq for event in events] == list(range(1, 151))
    assert [event.account_seq for event in events if event.resume_token] == [100]
    _, event = await take(client.subscribe(tenant, account="", resume_token=events[99].resume_token), 2)
    assert (event.account_seq, event.prev_seq) == (101, 100)


async def test_a_stream_of_an_organization_ends_with_its_key_and_is_primed_account_by_account(
    pool: Pool, client: Client
) -> None:
    harness = Harness(pool, await a_tenant(pool))
    await harness.working()
    empty = await an_account(pool, harness.account.organization_id)
    call = client.subscribe(harness.tenant, account="", start=pb.START_PRIMED)
    frames = await take(call, 4)
    primed = {frame.account_id: frame.primed.orders for frame in frames if frame.WhichOneof("event") == "primed"}
    assert primed == {str(harness.tenant.account.id): 1, str(empty.id): 0}
    assert [bool(frame.resume_token) for frame in frames] == [False, False, False, True]
    await pool.execute("update api_keys set disabled = true")
    _, code, _ = await ending(call)
    assert code is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize("follows_all", [False, True], ids=["one account", "all accounts"])
async def test_a_disabled_organization_loses_its_streams_and_opens_none(
    pool: Pool, client: Client, follows_all: bool
) -> None:
    tenant, other = await a_tenant(pool), await a_tenant(pool)
    asked = {"account": ""} if follows_all else {}
    call, others = client.subscribe(tenant, **asked), client.subscribe(other, **asked)
    for opened in (call, others):
        await take(opened, 1)
    organization = tenant.account.organization_id
    await pool.execute("update organizations set disabled = true where organization_id = $1", organization)
    for refused in (call, client.subscribe(tenant, **asked)):
        _, code, told = await ending(refused)
        assert (code, told["openbell-code"]) == (grpc.StatusCode.FAILED_PRECONDITION, "organization_disabled")
    await write_events(pool, other, ["AAPL"])
    assert (await take(others, 1))[0].account_seq == 1


async def test_a_disabled_account_is_followed_all_the_same(pool: Pool, client: Client) -> None:
    tenant = await a_tenant(pool)
    call = client.subscribe(tenant)
    await take(call, 1)
    await pool.execute("update accounts set disabled = true")
    # Longer than until the next look at whether the caller may still follow.
    await asyncio.sleep(2 * ACCESS_SECONDS)
    await write_events(pool, tenant, ["AAPL"])
    again = client.subscribe(tenant, start=pb.START_BEGINNING)
    await take(again, 1)
    assert [(await take(each, 1))[0].account_seq for each in (call, again)] == [1, 1]
