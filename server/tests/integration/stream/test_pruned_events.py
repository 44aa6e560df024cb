"""Events that are no longer kept, or no longer there, as those who follow the account meet them."""

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest

from openbell.wire import trading_pb2 as pb
from openbell.wire import trading_pb2_grpc
from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.events.event_pruning import PruneEvents
from support.builders.tenant import Tenant, a_tenant, accept
from support.history.pruning import prune_at_any_age
from support.rest.event_streams import delete_events, ending, event_stream, forget_after, take


@pytest.fixture
async def stub(pool: Pool) -> AsyncIterator["trading_pb2_grpc.TradingServiceAsyncStub"]:
    async with event_stream(pool) as address, grpc.aio.insecure_channel(address) as channel:
        yield trading_pb2_grpc.TradingServiceStub(channel)


async def frames(
    stub: "trading_pb2_grpc.TradingServiceAsyncStub",
    tenant: Tenant,
    count: int,
    token: str = "",
    start: "pb.Start.ValueType" = pb.START_UNSPECIFIED,
) -> list[pb.TradingEvent]:
    request = pb.Subscribe(
        trading_account_id=str(tenant.account.id),
        subscriptions=[pb.EVENT_TYPE_INTENT_ACTION],
        resume_token=token,
        start=start,
    )
    call = stub.SubscribeEvents(request, metadata=(("x-api-key", tenant.key),), timeout=60)
    try:
        async with asyncio.timeout(60):
            stream = aiter(call)
            return [await anext(stream) for _ in range(count)]
    finally:
        call.cancel()


async def pruned_to_four(pool: Pool, tenant: Tenant) -> None:
    """Events 1 to 4 are gone, and 5 and 6 are there."""
    await accept(pool, *(tenant.submission() for _ in range(4)))
    await prune_at_any_age(pool)
    assert await PruneEvents(pool, 0.0).across_organizations() == 4
    await accept(pool, *(tenant.submission() for _ in range(2)))


async def test_a_token_from_before_what_is_kept_is_answered_with_a_gap_and_then_the_rest(
    pool: Pool, stub: "trading_pb2_grpc.TradingServiceAsyncStub"
) -> None:
    tenant = await a_tenant(pool)
    await accept(pool, tenant.submission())
    (early,) = await frames(stub, tenant, 1)
    assert early.account_seq == 1
    await accept(pool, *(tenant.submission() for _ in range(3)))
    await prune_at_any_age(pool)
    assert await PruneEvents(pool, 0.0).across_organizations() == 4
    await accept(pool, *(tenant.submission() for _ in range(2)))
    _, told, *rest = await frames(stub, tenant, 4, early.resume_token)
    assert told.WhichOneof("event") == "gap"
    assert (told.gap.first_seq, told.gap.last_seq, told.gap.reason) == (2, 4, "RETENTION")
    assert [(frame.account_seq, frame.prev_seq) for frame in rest] == [(5, 4), (6, 5)]
    # Its token leads behind the gap.
    _, first = await frames(stub, tenant, 2, told.resume_token)
    assert (first.WhichOneof("event"), first.account_seq) == ("intent_action", 5)


async def test_the_beginning_is_the_oldest_event_that_is_kept(
    pool: Pool, stub: "trading_pb2_grpc.TradingServiceAsyncStub"
) -> None:
    tenant = await a_tenant(pool)
    await pruned_to_four(pool, tenant)
    began, *rest = await frames(stub, tenant, 3, start=pb.START_BEGINNING)
    assert (began.WhichOneof("event"), began.account_seq) == ("subscribed", 4)
    assert [(frame.WhichOneof("event"), frame.account_seq) for frame in rest] == [
        ("intent_action", 5),
        ("intent_action", 6),
    ]


@pytest.mark.parametrize("of", ["account", "organization"])
async def test_events_that_were_deleted_without_pruning_are_answered_with_a_gap(
    pool: Pool, stub: "trading_pb2_grpc.TradingServiceAsyncStub", of: str
) -> None:
    tenant = await a_tenant(pool)
    await pruned_to_four(pool, tenant)
    await accept(pool, *(tenant.submission() for _ in range(4)))
    await delete_events(pool, tenant, 6, 8, 9)
    request = pb.Subscribe(
        trading_account_id=str(tenant.account.id) if of == "account" else "",
        subscriptions=[pb.EVENT_TYPE_INTENT_ACTION],
        start=pb.START_BEGINNING,
    )
    call = stub.SubscribeEvents(request, metadata=(("x-api-key", tenant.key),), timeout=60)
    async with asyncio.timeout(60):
        _, *rest = await take(call, 6)
        await accept(pool, *(tenant.submission() for _ in range(2)))
        rest += await take(call, 2)
    call.cancel()
    assert [(frame.prev_seq, frame.account_seq, frame.gap.reason) for frame in rest] == [
        (4, 5, ""),
        (5, 6, "DELETED"),
        (6, 7, ""),
        (7, 9, "DELETED"),
        (9, 10, ""),
        (10, 11, ""),
        (11, 12, ""),
    ]


@pytest.mark.parametrize("of", ["account", "organization"])
async def test_a_token_that_is_ahead_of_a_log_that_was_restored_is_refused(pool: Pool, of: str) -> None:
    tenant = await a_tenant(pool)
    await accept(pool, *(tenant.submission() for _ in range(3)))
    account_id = str(tenant.account.id) if of == "account" else ""
    token = ""
    for restored in (False, True):
        if restored:
            await forget_after(pool, tenant, 2)
        async with event_stream(pool) as address, grpc.aio.insecure_channel(address) as channel:
            stub: trading_pb2_grpc.TradingServiceAsyncStub = trading_pb2_grpc.TradingServiceStub(channel)
            request = pb.Subscribe(
                trading_account_id=account_id, subscriptions=[pb.EVENT_TYPE_INTENT_ACTION], resume_token=token
            )
            call = stub.SubscribeEvents(request, metadata=(("x-api-key", tenant.key),), timeout=60)
            if restored:
                _, code, told = await ending(call)
                assert (code, told["openbell-code"]) == (grpc.StatusCode.INVALID_ARGUMENT, "invalid_cursor")
            else:
                (frame,) = await take(call, 1)
                token = frame.resume_token
                call.cancel()
