"""The event stream: who gets in, what is sent, how it resumes, and when it ends."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

import grpc
import pytest

from openbell.wire import trading_pb2 as pb
from openbell.wire import trading_pb2_grpc
from openbell_server.adapters.postgres.access.account_changes import append_account_changed
from openbell_server.adapters.postgres.connection import Pool, Role, transaction
from openbell_server.adapters.postgres.execution.execution import PostgresExecutionStore
from openbell_server.application.access.rate_limits import LimitRates
from openbell_server.application.events.account_log import log_balances_changed, log_position_adjusted
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.principals import EVENT_READ, INTENT_EDIT
from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.money.balances import Balances
from openbell_server.domain.orders.action_lifecycle import Reason
from openbell_server.domain.orders.broker_reports import ReportStatus
from support.brokers.scripted_broker import Harness
from support.builders.tenant import Tenant, a_cancel, a_report, a_tenant, accept, an_execution, described, misspelled
from support.rest.event_streams import event_stream
from support.rest.rest_api import limited

ACTIONS, ORDERS, CHANGES = pb.EVENT_TYPE_INTENT_ACTION, pb.EVENT_TYPE_BROKER_ORDER, pb.EVENT_TYPE_ACCOUNT_CHANGED
Metadata = tuple[tuple[str, str], ...]


@dataclass
class StreamClient:
    stub: "trading_pb2_grpc.TradingServiceAsyncStub"
    stopping: asyncio.Event

    def subscribe(
        self,
        tenant: Tenant,
        *,
        token: str = "",
        kinds: tuple[int, ...] = (ACTIONS, ORDERS),
        metadata: Metadata | None = None,
    ) -> AsyncIterator[pb.TradingEvent]:
        request = pb.Subscribe(trading_account_id=str(tenant.account.id), resume_token=token)
        request.subscriptions.extend(kinds)  # type: ignore[arg-type]
        keys = metadata if metadata is not None else (("x-api-key", tenant.key),)
        return aiter(self.stub.SubscribeEvents(request, metadata=keys, timeout=60))


@pytest.fixture
async def stream(pool: Pool) -> AsyncIterator[StreamClient]:
    async with serving(pool, limited()) as client:
        yield client


@asynccontextmanager
async def serving(pool: Pool, limit: LimitRates) -> AsyncIterator[StreamClient]:
    stopping = asyncio.Event()
    async with event_stream(pool, limit, stopping) as address, grpc.aio.insecure_channel(address) as channel:
        yield StreamClient(trading_pb2_grpc.TradingServiceStub(channel), stopping)


async def refusal(frames: AsyncIterator[pb.TradingEvent]) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        async for _ in frames:
            pass
    codes = dict(refused.value.trailing_metadata() or ())
    return refused.value.code(), str(codes.get("openbell-code"))


async def take(frames: AsyncIterator[pb.TradingEvent], count: int) -> list[pb.TradingEvent]:
    async with asyncio.timeout(60):
        return [await anext(frames) for _ in range(count)]


async def test_a_live_stream_begins_with_subscribed_and_tells_what_follows(pool: Pool, stream: StreamClient) -> None:
    tenant = await a_tenant(pool)
    await accept(pool, tenant.submission())
    frames = stream.subscribe(tenant)
    (first,) = await take(frames, 1)
    assert first.WhichOneof("event") == "subscribed"
    assert (first.account_seq, list(first.subscribed.subscriptions)) == (1, [ACTIONS, ORDERS])
    (accepted,) = await accept(pool, tenant.submission())
    (event,) = await take(frames, 1)
    assert (event.account_seq, event.prev_seq, event.intent_action.intent_id) == (2, 1, str(accepted.intent_id))
    assert (event.intent_action.status, event.intent_action.action_type) == ("QUEUED", "CREATE")


async def test_opening_streams_is_counted_as_reading_and_following_them_is_not(pool: Pool) -> None:
    tenant = await a_tenant(pool)
    async with serving(pool, limited(reads_per_minute=2)) as client:
        open_streams = [client.subscribe(tenant) for _ in range(2)]
        for frames in open_streams:
            await take(frames, 1)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await take(client.subscribe(tenant), 1)
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        told = dict(refused.value.trailing_metadata() or ())
        assert told["openbell-code"] == "rate_limited"
        assert told["retry-after"] == "60"
        # Longer than until the next look at whether the caller may still follow.
        for _ in range(2):
            await asyncio.sleep(0.6)
            await accept(pool, tenant.submission())
            for frames in open_streams:
                await take(frames, 1)


async def test_a_token_resumes_with_the_next_event(pool: Pool, stream: StreamClient) -> None:
    tenant = await a_tenant(pool)
    (start,) = await take(stream.subscribe(tenant), 1)
    for _ in range(7):
        await accept(pool, tenant.submission())
    token, seen = start.resume_token, []
    for _ in range(7):
        _, event = await take(stream.subscribe(tenant, token=token), 2)
        seen.append(event.account_seq)
        token = event.resume_token
    assert seen == [1, 2, 3, 4, 5, 6, 7]


async def test_a_filtered_stream_links_its_events_by_prev_seq(pool: Pool, stream: StreamClient) -> None:
    tenant = await a_tenant(pool)
    (start,) = await take(stream.subscribe(tenant), 1)
    (created,) = await accept(pool, tenant.submission())
    await pool.execute(
        'insert into account_events values ($1, $2, 2, 2, $3, 1, \'{"status": "NEW"}\', now())',
        tenant.account.organization_id,
        tenant.account.id,
        created.intent_id,
    )
    await pool.execute("update account_counters set event_no = 2")
    await accept(pool, tenant.submission(a_cancel(created.intent_id)))
    frames = stream.subscribe(tenant, token=start.resume_token, kinds=(ACTIONS,))
    _, first, second = await take(frames, 3)
    assert [(e.account_seq, e.prev_seq) for e in (first, second)] == [(1, 0), (3, 1)]
    _, order = await take(stream.subscribe(tenant, token=start.resume_token, kinds=(ORDERS,)), 2)
    assert (order.account_seq, order.prev_seq, order.broker_order.status) == (2, 0, "NEW")


async def test_a_changed_account_is_told_of_to_those_who_asked_and_leaves_no_gap_for_the_others(
    pool: Pool, stream: StreamClient
) -> None:
    tenant = await a_tenant(pool)
    account = tenant.account
    (start,) = await take(stream.subscribe(tenant), 1)
    await accept(pool, tenant.submission())
    async with transaction(pool, Role.TENANT, account.organization_id) as connection:
        await append_account_changed(connection, account.organization_id, account.id, ["name", "timezone"])
        reason = Reason("SIGN_IN_REFUSED", "401", "no such key")
        await append_account_changed(connection, account.organization_id, account.id, ["credential_status"], reason)
    await accept(pool, tenant.submission())
    asked = stream.subscribe(tenant, token=start.resume_token, kinds=(ACTIONS, ORDERS, CHANGES))
    _, _, renamed, refused, last = await take(asked, 5)
    assert [(e.account_seq, e.prev_seq) for e in (renamed, refused, last)] == [(2, 1), (3, 2), (4, 3)]
    change = renamed.account_changed
    assert (list(change.changed), change.version) == (["name", "timezone"], 1)
    assert (change.credential_status, change.HasField("expires_at")) == ("NOT_REQUIRED", False)
    assert not change.HasField("reason")
    told = refused.account_changed.reason
    assert (told.code, told.broker_code, told.broker_text) == ("SIGN_IN_REFUSED", "401", "no such key")
    _, first, second = await take(stream.subscribe(tenant, token=start.resume_token), 3)
    assert [(e.account_seq, e.prev_seq) for e in (first, second)] == [(1, 0), (4, 1)]


async def test_an_order_that_is_not_ours_is_told_of_to_those_who_asked(pool: Pool, stream: StreamClient) -> None:
    harness = Harness(pool, await a_tenant(pool))
    (start,) = await take(stream.subscribe(harness.tenant), 1)
    report = described(a_report(ReportStatus.FILLED, [an_execution(1, 5)], client_order_id="by-phone"), "x1")
    harness.broker.book["x"] = report
    await harness.reconcile()
    asked = stream.subscribe(harness.tenant, token=start.resume_token, kinds=(pb.EVENT_TYPE_EXTERNAL_ORDER,))
    _, event = await take(asked, 2)
    told = event.external_order
    assert (event.account_seq, event.prev_seq, told.broker_order_id, told.client_order_id) == (1, 0, "x1", "by-phone")
    assert (told.symbol, told.order_side, told.status, told.filled_quantity) == ("AAPL", "BUY", "FILLED", "5")
    assert report.description is not None
    assert told.accepted_at.ToDatetime(UTC) == report.description.accepted_at
    assert not told.HasField("limit_price")
    assert told.average_price == "1"


async def test_a_position_by_the_broker_s_word_is_told_of_to_those_who_asked(pool: Pool, stream: StreamClient) -> None:
    harness = Harness(pool, await a_tenant(pool))
    (start,) = await take(stream.subscribe(harness.tenant), 1)
    async with PostgresExecutionStore(pool).account_transaction(harness.account) as transaction:
        log_position_adjusted(transaction, Symbol("AAPL"), Decimal(0), Decimal("-2.5"), "OPENING", Decimal("187.45"))
    asked = stream.subscribe(harness.tenant, token=start.resume_token, kinds=(pb.EVENT_TYPE_POSITION_ADJUSTED,))
    _, event = await take(asked, 2)
    told = event.position_adjusted
    assert (event.account_seq, told.symbol, told.before, told.after, told.cause) == (1, "AAPL", "0", "-2.5", "OPENING")
    assert told.average_price == "187.45"


async def test_a_change_of_cash_is_told_of_to_those_who_asked(pool: Pool, stream: StreamClient) -> None:
    harness = Harness(pool, await a_tenant(pool))
    (start,) = await take(stream.subscribe(harness.tenant), 1)
    as_of = datetime(2026, 11, 2, 12, 0, 0, 123456, tzinfo=UTC)
    async with PostgresExecutionStore(pool).account_transaction(harness.account) as transaction:
        log_balances_changed(transaction, Balances(currency="USD", cash=Decimal("-1.50"), as_of=as_of))
    asked = stream.subscribe(harness.tenant, token=start.resume_token, kinds=(pb.EVENT_TYPE_BALANCES_CHANGED,))
    _, event = await take(asked, 2)
    told = event.balances_changed
    assert (event.account_seq, told.currency, told.cash, told.HasField("equity")) == (1, "USD", "-1.50", False)
    assert told.as_of.ToDatetime(UTC) == as_of


async def test_an_execution_is_told_of_to_those_who_asked(pool: Pool, stream: StreamClient) -> None:
    harness = Harness(pool, await a_tenant(pool))
    (start,) = await take(stream.subscribe(harness.tenant), 1)
    intent, order_id = await harness.working()
    fill = an_execution(1, Decimal("2.50"), 3)
    await harness.report(a_report(ReportStatus.WORKING, [fill], client_order_id=order_id))
    asked_for = (pb.EVENT_TYPE_BROKER_TRADE,)
    asked = stream.subscribe(harness.tenant, token=start.resume_token, kinds=asked_for)
    _, event = await take(asked, 2)
    told = event.broker_trade
    assert (told.intent_id, told.execution_id, told.client_order_id) == (str(intent), "e1", order_id)
    assert (told.symbol, told.order_side, told.kind, told.quantity, told.price) == (
        "AAPL",
        "BUY",
        "NORMAL",
        "2.50",
        "3",
    )
    assert (told.cumulative_quantity, told.leaves_quantity, told.position) == ("2.50", "7.50", "2.50")
    assert told.executed_at.ToDatetime(UTC) == fill.executed_at
    assert not told.HasField("fee")
    charged = an_execution(2, 1, fee="-0.0125")
    await harness.report(a_report(ReportStatus.WORKING, [fill, charged], client_order_id=order_id))
    *_, event = await take(stream.subscribe(harness.tenant, token=event.resume_token, kinds=asked_for), 2)
    assert event.broker_trade.fee == "-0.0125"


@pytest.mark.parametrize("kinds", [(), (0,), (99,), (ACTIONS, 99)])
async def test_a_kind_that_cannot_be_honoured_is_refused(
    pool: Pool, stream: StreamClient, kinds: tuple[int, ...]
) -> None:
    tenant = await a_tenant(pool)
    assert await refusal(stream.subscribe(tenant, kinds=kinds)) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "invalid_parameter",
    )


async def test_nobody_gets_in_without_one_right_key(pool: Pool, stream: StreamClient) -> None:
    tenant = await a_tenant(pool)
    key = ("x-api-key", tenant.key)
    wrong = ("x-api-key", misspelled(tenant.key))
    for metadata, expected in (
        ((), (grpc.StatusCode.UNAUTHENTICATED, "unauthenticated")),
        ((wrong,), (grpc.StatusCode.UNAUTHENTICATED, "unauthenticated")),
        ((key, key), (grpc.StatusCode.INVALID_ARGUMENT, "ambiguous_credentials")),
        ((key, ("authorization", "Bearer x")), (grpc.StatusCode.INVALID_ARGUMENT, "ambiguous_credentials")),
    ):
        assert await refusal(stream.subscribe(tenant, metadata=metadata)) == expected


async def test_a_stranger_hears_nothing_of_what_is_wrong_in_a_request(pool: Pool, stream: StreamClient) -> None:
    tenant = await a_tenant(pool)
    unauthenticated = (grpc.StatusCode.UNAUTHENTICATED, "unauthenticated")
    assert await refusal(stream.subscribe(tenant, kinds=(99,), metadata=())) == unauthenticated
    request = pb.Subscribe(trading_account_id="none")
    assert await refusal(aiter(stream.stub.SubscribeEvents(request, timeout=60))) == unauthenticated


async def test_a_foreign_account_answers_like_a_missing_one(pool: Pool, stream: StreamClient) -> None:
    tenant, other = await a_tenant(pool), await a_tenant(pool)
    foreign = stream.subscribe(other, metadata=(("x-api-key", tenant.key),))
    assert await refusal(foreign) == (grpc.StatusCode.NOT_FOUND, "not_found")


async def test_permission_and_environment_are_required(pool: Pool, stream: StreamClient) -> None:
    blind = await a_tenant(pool, permissions=frozenset({INTENT_EDIT}))
    assert await refusal(stream.subscribe(blind)) == (grpc.StatusCode.PERMISSION_DENIED, "permission_denied")
    live = await a_tenant(pool, environment=Environment.PAPER, key_environment=Environment.LIVE)
    assert await refusal(stream.subscribe(live)) == (grpc.StatusCode.PERMISSION_DENIED, "environment_mismatch")
    await take(stream.subscribe(await a_tenant(pool, permissions=frozenset({EVENT_READ}))), 1)


async def test_a_token_of_another_account_is_refused(pool: Pool, stream: StreamClient) -> None:
    tenant, other = await a_tenant(pool), await a_tenant(pool)
    (start,) = await take(stream.subscribe(other), 1)
    assert await refusal(stream.subscribe(tenant, token=start.resume_token)) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "invalid_cursor",
    )


@pytest.mark.parametrize("how", ["disabled = true", "revoked_at = now()", "expires_at = now()", "permissions = '{}'"])
async def test_a_key_that_loses_its_right_loses_its_stream(pool: Pool, stream: StreamClient, how: str) -> None:
    tenant = await a_tenant(pool)
    frames = stream.subscribe(tenant)
    await take(frames, 1)
    await pool.execute(f"update api_keys set {how}")
    begun = time.monotonic()
    code, _ = await refusal(frames)
    assert code in {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}
    assert time.monotonic() - begun < 5


async def test_a_server_that_goes_away_says_so(pool: Pool, stream: StreamClient) -> None:
    tenant = await a_tenant(pool)
    frames = stream.subscribe(tenant)
    await take(frames, 1)
    stream.stopping.set()
    with contextlib.suppress(StopAsyncIteration):
        code, _ = await refusal(frames)
        assert code in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
