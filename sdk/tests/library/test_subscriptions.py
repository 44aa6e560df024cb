"""What a subscription makes of frames, whatever carried them."""

from decimal import Decimal

import pytest
from msgspec.structs import replace

from openbell import Event, EventMissed, NotConfigured
from openbell.events.mirror import Book
from openbell.events.subscriptions import Frame, Subscription

ACCOUNT = "account-1"


def order(seq: int, prev: int, *, status: str = "WORKING", intent: str = "i-1", account: str = ACCOUNT) -> Frame:
    body = {
        "intent_id": intent,
        "symbol": "AAPL",
        "order_side": "BUY",
        "order_type": "LIMIT",
        "quantity": "10",
        "time_in_force": "DAY",
        "status": status,
        "certainty": "CONFIRMED",
        "filled_quantity": "0",
        "leaves_quantity": "10",
    }
    return Frame(
        type="broker_order",
        account_id=account,
        account_seq=seq,
        prev_seq=prev,
        resume_token=f"t{seq}",
        event_id=f"{account}.{seq}",
        body=body,
    )


def trade(seq: int, prev: int, *, position: str) -> Frame:
    body = {
        "intent_id": "i-1",
        "execution_id": f"x-{seq}",
        "symbol": "AAPL",
        "order_side": "BUY",
        "kind": "NORMAL",
        "quantity": "4",
        "price": "187.5",
        "executed_at": "2026-11-02T12:00:00Z",
        "cumulative_quantity": "4",
        "leaves_quantity": "6",
        "position": position,
    }
    return Frame(
        type="broker_trade",
        account_id=ACCOUNT,
        account_seq=seq,
        prev_seq=prev,
        resume_token=f"t{seq}",
        body=body,
    )


def held(seq: int, symbol: str, quantity: str, account: str = ACCOUNT) -> Frame:
    body = {"symbol": symbol, "quantity": quantity}
    return Frame(type="broker_position", account_id=account, account_seq=seq, body=body)


def primed(seq: int, account: str = ACCOUNT, *, is_last: bool = True) -> Frame:
    body, token = {"orders": 1, "positions": 1}, f"t{seq}" if is_last else ""
    return Frame(type="primed", account_id=account, account_seq=seq, prev_seq=seq, resume_token=token, body=body)


def subscribed(seq: int) -> Frame:
    return Frame(type="subscribed", account_id=ACCOUNT, account_seq=seq, prev_seq=seq, resume_token=f"t{seq}")


def given(subscription: Subscription, *frames: Frame) -> list[Event]:
    return [event for frame in frames for event in subscription.accept(frame)]


def test_what_stands_is_given_out_once_all_of_it_is_there() -> None:
    subscription = Subscription(ACCOUNT, None, {"start": "PRIMED"})
    assert given(subscription, subscribed(7), order(7, 7), held(7, "AAPL", "-3")) == []
    first, second, last = given(subscription, primed(7))
    assert first.is_snapshot
    assert first.broker_order is not None
    assert second.broker_position is not None
    assert second.broker_position.quantity == Decimal(-3)
    assert last.primed is not None
    assert [event.account_seq for event in given(subscription, order(8, 7))] == [8]


def test_a_snapshot_that_was_cut_is_asked_for_again_and_given_out_once() -> None:
    subscription = Subscription(ACCOUNT, None, {"start": "PRIMED"})
    given(subscription, subscribed(7), order(7, 7))
    subscription.begin(lambda: None)
    assert (subscription.start_now, subscription.resume_token) == ("PRIMED", None)
    assert len(given(subscription, subscribed(9), order(9, 9), primed(9))) == 2
    assert (subscription.start_now, subscription.resume_token) == (None, "t9")


def test_what_stands_in_an_organization_is_given_out_account_by_account_once_all_of_it_is_there() -> None:
    subscription = Subscription(None, None, {"start": "PRIMED"})
    first = [order(7, 7, account="a"), order(7, 7, intent="i-2", account="a"), primed(7, "a", is_last=False)]
    last = [order(9, 9, account="b"), held(9, "AAPL", "2", "b")]
    assert given(subscription, Frame(type="subscribed"), *first, *last) == []
    events = given(subscription, primed(9, "b"))
    assert [event.account_id for event in events] == ["a", "a", "a", "b", "b", "b"]
    assert [event.account_seq for event in events if event.primed is not None] == [7, 9]
    with pytest.raises(EventMissed):
        subscription.accept(order(9, 8, account="a"))


def test_an_organization_without_accounts_is_primed_at_once() -> None:
    subscription = Subscription(None, None, {"start": "PRIMED"})
    given(subscription, Frame(type="subscribed", resume_token="v0"))
    assert [event.account_seq for event in given(subscription, order(1, 0, account="new"))] == [1]


def test_an_event_missed_after_the_snapshot_raises() -> None:
    subscription = Subscription(ACCOUNT, None, {"start": "PRIMED"})
    given(subscription, primed(7))
    with pytest.raises(EventMissed, match="Events 8 to 8"):
        subscription.accept(order(9, 8))


@pytest.mark.parametrize("reason", ["RETENTION", "DELETED"])
def test_events_that_are_no_longer_kept_raise_with_the_token_to_go_on_from(reason: str) -> None:
    subscription = Subscription(ACCOUNT, "t3")
    gap = Frame(type="gap", resume_token="t40", body={"first_seq": "4", "last_seq": "40", "reason": reason})
    with pytest.raises(EventMissed, match="Events 4 to 40 of the account are no longer in the log") as caught:
        subscription.accept(gap)
    assert (caught.value.resume_token, caught.value.reason) == ("t40", reason)


def test_accounts_of_an_organization_are_counted_apart_and_repeats_are_dropped() -> None:
    subscription = Subscription(None, None)
    beat = Frame(type="heartbeat", resume_token="v1")
    frames = [
        Frame(type="subscribed", resume_token="v0"),
        order(5, 4, account="a"),
        order(90, 80, account="b"),
        beat,
        order(6, 5, account="a"),
        order(6, 5, account="a"),
        order(90, 80, account="b"),
    ]
    assert [(event.account_id, event.account_seq) for event in given(subscription, *frames)] == [
        ("a", 5),
        ("b", 90),
        ("a", 6),
    ]
    with pytest.raises(EventMissed):
        subscription.accept(order(8, 7, account="a"))


def test_a_type_that_is_none_and_two_beginnings_are_refused() -> None:
    with pytest.raises(NotConfigured, match="broker_orders"):
        Subscription(ACCOUNT, None, {"types": ["broker_orders"]})
    with pytest.raises(NotConfigured, match="start"):
        Subscription(ACCOUNT, "t1", {"start": "BEGINNING"})


def test_a_book_holds_what_is_open_and_held_and_nothing_else() -> None:
    subscription, book = Subscription(ACCOUNT, None, {"start": "PRIMED"}), Book()

    def tell(*frames: Frame) -> None:
        for event in given(subscription, *frames):
            book.apply(event)

    tell(order(7, 7), held(7, "AAPL", "2"), held(7, "MSFT", "5"), primed(7))
    assert (set(book.orders), book.positions) == ({"i-1"}, {"AAPL": Decimal(2), "MSFT": Decimal(5)})
    adjusted = {"symbol": "MSFT", "before": "5", "after": "0", "cause": "UNEXPLAINED"}
    tell(
        trade(8, 7, position="6"),
        order(9, 8, status="FILLED"),
        order(10, 9, intent="i-2"),
        Frame(type="position_adjusted", account_id=ACCOUNT, account_seq=11, prev_seq=10, body=adjusted),
    )
    assert (set(book.orders), book.positions, book.account_seq) == ({"i-2"}, {"AAPL": Decimal(6)}, 11)


def test_an_order_in_a_book_waits_for_a_command_once_it_is_recorded() -> None:
    def waits_after(*actions: tuple[str, str]) -> tuple[str, str | None]:
        first = order(7, 6)
        frames = [replace(first, body=first.body | {"status": "NEW", "pending": "NONE"})]
        for seq, (kind, state) in enumerate(actions, 8):
            body = {"action_id": "a", "intent_id": "i-1", "seq": seq, "action_type": kind, "status": state}
            frames.append(replace(first, type="intent_action", account_seq=seq, prev_seq=seq - 1, body=body))
        book = Book()
        for event in given(Subscription(ACCOUNT, "t6"), *frames):
            book.apply(event)
        return book.orders["i-1"].status, book.orders["i-1"].pending

    assert waits_after(("REPLACE", "QUEUED"), ("CANCEL", "QUEUED")) == ("PENDING_CANCEL", "CANCEL")
    assert waits_after(("CANCEL", "QUEUED"), ("REPLACE", "QUEUED")) == ("PENDING_CANCEL", "CANCEL")
    assert waits_after(("CREATE", "ACKED"), ("REPLACE", "REFUSED")) == ("NEW", "NONE")


@pytest.fixture
def without_grpc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openbell.events.subscriptions.find_spec", lambda _: None)


@pytest.mark.usefixtures("without_grpc")
def test_without_grpc_accounts_are_followed_over_http() -> None:
    assert Subscription(ACCOUNT, None).transport == "sse"
    assert Subscription(None, None).transport == "sse"
    assert Subscription(ACCOUNT, None, {"transport": "sse"}).transport == "sse"


@pytest.mark.usefixtures("without_grpc")
def test_grpc_that_is_not_installed_says_how_to_install_it() -> None:
    with pytest.raises(NotConfigured) as told:
        Subscription(ACCOUNT, None, {"transport": "grpc"})
    assert "openbell[grpc]" in told.value.remedy


def test_where_grpc_is_installed_it_carries_events_unless_http_is_asked_for() -> None:
    assert [Subscription(ACCOUNT, None, {"transport": each}).transport for each in (None, "grpc", "sse")] == [
        "grpc",
        "grpc",
        "sse",
    ]
