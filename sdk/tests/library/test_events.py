"""The event iterators against a gRPC server of the test that cuts its streams."""

import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal

import grpc
import grpc.aio
import pytest

from openbell import (
    AccountChanged,
    AsyncClient,
    BalancesChanged,
    BrokerTrade,
    Client,
    ControlChanged,
    Event,
    EventMissed,
    ExternalOrder,
    Invalid,
    NotAuthenticated,
    PositionAdjusted,
    Reason,
    Unreachable,
)
from openbell.events import subscriptions
from openbell.events.grpc_messages import frame_of
from openbell.events.subscriptions import Subscription
from openbell.wire import trading_pb2 as wire
from openbell.wire.trading_pb2_grpc import TradingServiceServicer, add_TradingServiceServicer_to_server

ACCOUNT = "account-1"
Ending = tuple[grpc.StatusCode, str] | None


def frame(seq: int, prev: int, *, token: str | None = None) -> wire.TradingEvent:
    order = wire.BrokerOrder(
        intent_id=f"i-{seq}",
        symbol="AAPL",
        order_side="BUY",
        order_type="MARKET",
        quantity="10",
        time_in_force="DAY",
        status="PARTIALLY_FILLED",
        pending="NONE",
        certainty="CONFIRMED",
        filled_quantity="4.10",
        leaves_quantity="5.90",
        average_price="187.123456789012345678",
        broker_order_ids=["B-1"],
        reason=wire.Reason(code="SOMETHING"),
    )
    return wire.TradingEvent(
        account_id=ACCOUNT, account_seq=seq, prev_seq=prev, resume_token=token or f"t{seq}", broker_order=order
    )


def action_frame(seq: int, prev: int) -> wire.TradingEvent:
    action = wire.IntentAction(action_id="a", intent_id="i", seq=1, action_type="CREATE", status="QUEUED")
    return wire.TradingEvent(
        account_id=ACCOUNT, account_seq=seq, prev_seq=prev, resume_token=f"t{seq}", intent_action=action
    )


def subscribed(seq: int) -> wire.TradingEvent:
    return wire.TradingEvent(account_seq=seq, prev_seq=seq, resume_token=f"t{seq}", subscribed=wire.Subscribed())


def heartbeat(seq: int, prev: int = 0) -> wire.TradingEvent:
    return wire.TradingEvent(account_seq=seq, prev_seq=prev, resume_token=f"t{seq}", heartbeat=wire.Heartbeat())


class Script(TradingServiceServicer):
    """One list of frames per connection, then the connection ends as told; the last one is refused."""

    StreamEvents = TradingServiceServicer.StreamEvents

    def __init__(self, *connections: tuple[list[wire.TradingEvent], Ending]) -> None:
        self.connections = list(connections)
        self.requests: list[wire.Subscribe] = []
        self.keys: list[str] = []

    def SubscribeEvents(  # noqa: N802 - the name in the proto
        self, request: wire.Subscribe, context: grpc.ServicerContext
    ) -> Iterator[wire.TradingEvent]:
        self.requests.append(request)
        self.keys.append(str(dict(context.invocation_metadata())["x-api-key"]))
        frames, ending = self.connections.pop(0)
        yield from frames
        if ending is not None:
            context.set_trailing_metadata((("openbell-code", CODE),))
            context.abort(*ending)


CODE = "a_code_of_the_platform"
CUT = (grpc.StatusCode.UNAVAILABLE, "draining")
REVOKED = (grpc.StatusCode.UNAUTHENTICATED, "the key was revoked")


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "FIRST_PAUSE", 0.0)


class Stage:
    """Runs a script and gives the address it plays at."""

    def __init__(self) -> None:
        self.servers: list[grpc.Server] = []

    def play(self, script: TradingServiceServicer) -> str:
        server = grpc.server(ThreadPoolExecutor(max_workers=2))
        add_TradingServiceServicer_to_server(script, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.servers.append(server)
        return f"127.0.0.1:{port}"


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    for server in stage.servers:
        server.stop(grace=None).wait(timeout=5)


def collect(address: str, token: str | None = None) -> list[Event]:
    """Everything up to the refusal that ends every script."""
    received: list[Event] = []

    def follow(stream: Iterator[Event]) -> None:
        for event in stream:
            received.append(event)  # noqa: PERF402 - what came before the error is kept

    with Client("key-1", stream_address=address, account_id=ACCOUNT) as client, pytest.raises(NotAuthenticated):
        follow(client.events(token))
    return received


async def collect_async(address: str, token: str | None = None) -> list[Event]:
    received: list[Event] = []

    async def follow(stream: AsyncIterator[Event]) -> None:
        async for event in stream:
            received.append(event)  # noqa: PERF401 - what came before the error is kept

    async with AsyncClient("key-1", stream_address=address, account_id=ACCOUNT) as client:
        with pytest.raises(NotAuthenticated):
            await follow(client.events(token))
    return received


def broken_stream() -> Script:
    return Script(
        ([subscribed(6), frame(7, 6), heartbeat(9), frame(10, 7)], CUT),
        ([], CUT),
        ([subscribed(10), action_frame(11, 10)], None),
        ([subscribed(11), frame(11, 10), frame(14, 11)], REVOKED),
    )


def check_broken_stream(script: Script, received: list[Event]) -> None:
    assert [event.account_seq for event in received] == [7, 10, 11, 14]
    assert [request.resume_token for request in script.requests] == ["t6", "t10", "t10", "t11"]
    assert {request.trading_account_id for request in script.requests} == {ACCOUNT}
    assert script.keys == ["key-1"] * 4


def test_a_cut_stream_goes_on_from_the_last_token_without_loss_or_repeat(stage: Stage) -> None:
    script = broken_stream()
    check_broken_stream(script, collect(stage.play(script), "t6"))


async def test_the_async_iterator_goes_on_the_same(stage: Stage) -> None:
    script = broken_stream()
    check_broken_stream(script, await collect_async(stage.play(script), "t6"))


def test_a_stream_cut_before_its_first_event_resumes_from_where_it_was_subscribed(stage: Stage) -> None:
    script = Script(([subscribed(6)], CUT), ([subscribed(6), frame(7, 6)], REVOKED))
    assert [event.account_seq for event in collect(stage.play(script))] == [7]
    assert [request.resume_token for request in script.requests] == ["", "t6"]


def test_an_event_is_read_exactly(stage: Stage) -> None:
    (event,) = collect(stage.play(Script(([subscribed(0), frame(1, 0)], REVOKED))))
    assert event.broker_order is not None
    assert event.broker_order.average_price == Decimal("187.123456789012345678")
    assert str(event.broker_order.filled_quantity) == "4.10"
    assert event.broker_order.limit_price is None
    assert event.broker_order.reason is not None
    assert event.intent_action is None
    assert event.occurred_at.tzinfo is not None


def test_a_changed_account_is_read_exactly(stage: Stage) -> None:
    changed = wire.AccountChanged(changed=["credential_status"], version=2**40, credential_status="EXPIRED")
    changed.expires_at.FromJsonString("2026-11-15T12:00:00.123456Z")
    changed.reason.code = "CREDENTIAL_EXPIRED"
    told = wire.TradingEvent(account_id=ACCOUNT, account_seq=1, prev_seq=0, resume_token="t1", account_changed=changed)
    script = Script(([subscribed(0), told], REVOKED))
    (event,) = collect(stage.play(script))
    assert wire.EVENT_TYPE_ACCOUNT_CHANGED in script.requests[0].subscriptions
    assert event.account_changed == AccountChanged(
        changed=("credential_status",),
        version=2**40,
        credential_status="EXPIRED",
        expires_at=datetime(2026, 11, 15, 12, 0, 0, 123456, tzinfo=UTC),
        reason=Reason(code="CREDENTIAL_EXPIRED"),
    )
    assert (event.broker_order, event.intent_action) == (None, None)


def test_an_order_that_is_not_ours_is_read_exactly(stage: Stage) -> None:
    theirs = wire.ExternalOrder(
        broker_order_id="x1",
        symbol="AAPL",
        order_side="SELL",
        order_type="LIMIT",
        limit_price="191.20",
        status="FILLED",
        filled_quantity="25",
        average_price="191.24",
    )
    theirs.accepted_at.FromJsonString("2026-11-15T12:00:00.123456Z")
    told = wire.TradingEvent(account_id=ACCOUNT, account_seq=1, prev_seq=0, resume_token="t1", external_order=theirs)
    script = Script(([subscribed(0), told], REVOKED))
    (event,) = collect(stage.play(script))
    assert wire.EVENT_TYPE_EXTERNAL_ORDER in script.requests[0].subscriptions
    assert event.external_order == ExternalOrder(
        broker_order_id="x1",
        symbol="AAPL",
        order_side="SELL",
        order_type="LIMIT",
        limit_price=Decimal("191.20"),
        status="FILLED",
        filled_quantity=Decimal(25),
        average_price=Decimal("191.24"),
        accepted_at=datetime(2026, 11, 15, 12, 0, 0, 123456, tzinfo=UTC),
    )


def test_a_position_that_was_set_by_the_broker_s_word_is_read_exactly(stage: Stage) -> None:
    held = wire.PositionAdjusted(symbol="AAPL", before="0", after="-2.5", cause="OPENING", average_price="9.50")
    told = wire.TradingEvent(account_id=ACCOUNT, account_seq=1, prev_seq=0, resume_token="t1", position_adjusted=held)
    script = Script(([subscribed(0), told], REVOKED))
    (event,) = collect(stage.play(script))
    assert wire.EVENT_TYPE_POSITION_ADJUSTED in script.requests[0].subscriptions
    assert event.position_adjusted == PositionAdjusted(
        symbol="AAPL", before=Decimal(0), after=Decimal("-2.5"), cause="OPENING", average_price=Decimal("9.50")
    )


def test_balances_are_read_exactly(stage: Stage) -> None:
    as_of, money = datetime(2026, 11, 15, 12, tzinfo=UTC), wire.BalancesChanged(currency="USD", cash="-0.010")
    money.as_of.FromDatetime(as_of)
    told = wire.TradingEvent(account_id=ACCOUNT, account_seq=1, prev_seq=0, resume_token="t1", balances_changed=money)
    (event,) = collect(stage.play(Script(([subscribed(0), told], REVOKED))))
    assert event.balances_changed == BalancesChanged(currency="USD", cash=Decimal("-0.010"), as_of=as_of)


def test_an_execution_is_read_exactly(stage: Stage) -> None:
    trade = wire.BrokerTrade(
        intent_id="i",
        execution_id="e1",
        broker_order_ids=["B-1"],
        symbol="AAPL",
        order_side="SELL",
        kind="BUST",
        quantity="2.50",
        price="187.123456789012345678",
        cumulative_quantity="0",
        leaves_quantity="10",
        position="-3",
    )
    trade.executed_at.FromJsonString("2026-11-15T12:00:00.123456Z")
    told = wire.TradingEvent(account_id=ACCOUNT, account_seq=1, prev_seq=0, resume_token="t1", broker_trade=trade)
    script = Script(([subscribed(0), told], REVOKED))
    (event,) = collect(stage.play(script))
    assert wire.EVENT_TYPE_BROKER_TRADE in script.requests[0].subscriptions
    assert event.broker_trade == BrokerTrade(
        intent_id="i",
        execution_id="e1",
        broker_order_ids=("B-1",),
        symbol="AAPL",
        order_side="SELL",
        kind="BUST",
        quantity=Decimal("2.50"),
        price=Decimal("187.123456789012345678"),
        executed_at=datetime(2026, 11, 15, 12, 0, 0, 123456, tzinfo=UTC),
        cumulative_quantity=Decimal(0),
        leaves_quantity=Decimal(10),
        position=Decimal(-3),
    )


def test_a_changed_control_is_read_exactly(stage: Stage) -> None:
    control = wire.ControlChanged(
        scope="SYMBOL", subject="AAPL", code="POSITION_MAX", change="CHANGED", version=2**40, principal_type="API_KEY"
    )
    told = wire.TradingEvent(account_id=ACCOUNT, account_seq=1, prev_seq=0, resume_token="t1", control_changed=control)
    script = Script(([subscribed(0), told], REVOKED))
    (event,) = collect(stage.play(script))
    assert wire.EVENT_TYPE_CONTROL_CHANGED in script.requests[0].subscriptions
    assert event.control_changed == ControlChanged(
        scope="SYMBOL", subject="AAPL", code="POSITION_MAX", change="CHANGED", version=2**40, principal_type="API_KEY"
    )


def test_a_missed_event_raises_and_leaves_the_last_good_token(stage: Stage) -> None:
    address = stage.play(Script(([subscribed(6), frame(7, 6), frame(9, 8)], None)))
    with Client("k", stream_address=address, account_id=ACCOUNT) as client:
        stream = client.events()
        assert next(stream).account_seq == 7
        with pytest.raises(EventMissed, match="Events 8 to 8") as caught:
            next(stream)
    assert caught.value.resume_token == "t7"


def test_an_event_missed_across_a_reconnect_raises() -> None:
    subscription = Subscription(ACCOUNT, None)
    for received in (subscribed(6), frame(7, 6)):
        subscription.accept(frame_of(received))
    with pytest.raises(EventMissed):
        subscription.accept(frame_of(subscribed(9)))


def test_a_heartbeat_that_is_ahead_of_us_raises() -> None:
    subscription = Subscription(ACCOUNT, None)
    subscription.accept(frame_of(subscribed(6)))
    with pytest.raises(EventMissed):
        subscription.accept(frame_of(heartbeat(9, prev=8)))


def test_a_frame_newer_than_this_client_does_not_hide_a_gap() -> None:
    subscription = Subscription(ACCOUNT, None)
    subscription.accept(frame_of(subscribed(6)))
    assert not subscription.accept(frame_of(wire.TradingEvent(account_seq=9, resume_token="t9")))
    with pytest.raises(EventMissed):
        subscription.accept(frame_of(frame(10, 9)))


async def test_a_refused_subscription_is_not_tried_again_and_has_the_code_of_the_platform(stage: Stage) -> None:
    address = stage.play(script := Script(*[([], (grpc.StatusCode.INVALID_ARGUMENT, "bad token"))] * 2))
    with pytest.raises(Invalid) as plain:
        next(Client("k", stream_address=address, account_id=ACCOUNT).events("nonsense"))
    assert (plain.value.detail, plain.value.code, len(script.requests)) == ("bad token", CODE, 1)
    with pytest.raises(Invalid) as awaited:
        await anext(AsyncClient("k", stream_address=address, account_id=ACCOUNT).events("nonsense"))
    assert (awaited.value.code, len(script.requests)) == (CODE, 2)


def test_a_stream_that_keeps_failing_ends_as_unreachable_with_its_token(stage: Stage) -> None:
    script = Script(*[([], CUT)] * 10)
    address = stage.play(script)
    with Client("k", stream_address=address, account_id=ACCOUNT) as client, pytest.raises(Unreachable) as caught:
        next(client.events("t6"))
    assert caught.value.resume_token == "t6"
    assert len(script.requests) == subscriptions.FIRST_FAILURES_MAX + 1


class Mute(TradingServiceServicer):
    """Subscribes and then says nothing, once; after that it refuses."""

    StreamEvents = TradingServiceServicer.StreamEvents

    def __init__(self) -> None:
        self.connections = 0

    def SubscribeEvents(  # noqa: N802 - the name in the proto
        self, request: wire.Subscribe, context: grpc.ServicerContext
    ) -> Iterator[wire.TradingEvent]:
        del request
        self.connections += 1
        if self.connections > 1:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "the key was revoked")
        yield subscribed(6)
        ended = threading.Event()
        context.add_callback(ended.set)
        if not ended.wait(timeout=60):
            yield frame(7, 6)  # nobody cut the silence: what the test must not receive


@pytest.mark.parametrize("collected_by", ["sync", "async"])
async def test_a_silent_stream_is_taken_for_dead_and_opened_again(
    monkeypatch: pytest.MonkeyPatch, stage: Stage, collected_by: str
) -> None:
    monkeypatch.setattr(subscriptions, "SILENCE_SECONDS", 0.2)
    mute = Mute()
    address = stage.play(mute)
    received = collect(address) if collected_by == "sync" else await collect_async(address)
    assert received == []
    assert mute.connections == 2
