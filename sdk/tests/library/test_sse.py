"""The event iterators and mirrors over server-sent events, over a transport of the test that cuts its streams."""

import json
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from openbell import AsyncClient, Client, Event, NotAuthenticated, UnexpectedReply
from openbell.events import subscriptions

ACCOUNT = "account-1"
Script = list[tuple[str, str, dict[str, object]]]


def order(seq: int, prev: int, status: str = "WORKING") -> tuple[str, str, dict[str, object]]:
    body = {
        "intent_id": "i-1",
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
    return "broker_order", f"t{seq}", {"account_seq": seq, "prev_seq": prev, "broker_order": body}


def subscribed(seq: int) -> tuple[str, str, dict[str, object]]:
    return "subscribed", f"t{seq}", {"account_seq": seq, "prev_seq": seq, "subscribed": {}}


def primed(seq: int) -> tuple[str, str, dict[str, object]]:
    return "primed", f"t{seq}", {"account_seq": seq, "prev_seq": seq, "primed": {"orders": 1}}


class Platform:
    """One list of frames per connection, which then ends; after the last it refuses."""

    def __init__(self, *scripts: Script) -> None:
        self.scripts = list(scripts)
        self.asked: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        if not self.scripts:
            return httpx.Response(401, json={"code": "unauthenticated", "detail": "revoked", "status": 401})
        text = ": hello\nretry: 1000\n\n"
        for kind, token, data in self.scripts.pop(0):
            told = {"account_id": ACCOUNT, "occurred_at": "2026-11-02T12:00:00Z", **data}
            text += f"id: {token}\nevent: {kind}\ndata: {json.dumps(told)}\n\n"
        return httpx.Response(200, text=text, headers={"content-type": "text/event-stream"})

    @property
    def tokens(self) -> list[str | None]:
        return [request.headers.get("last-event-id") for request in self.asked]


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "FIRST_PAUSE", 0.0)


def cut() -> Platform:
    return Platform(
        [subscribed(6), order(7, 6), order(8, 7)],
        [subscribed(8)],
        [subscribed(8), order(8, 7), order(9, 8)],
    )


def test_a_cut_stream_goes_on_from_the_last_token_without_loss_or_repeat() -> None:
    platform, received = cut(), list[int]()

    def follow(events: Iterator[Event]) -> None:
        for event in events:
            received.append(event.account_seq)

    with Client("k", account_id=ACCOUNT, transport=httpx.MockTransport(platform)) as client:
        events = client.events(transport="sse", symbols=["AAPL"], types=["BROKER_ORDER"])
        with pytest.raises(NotAuthenticated):
            follow(events)
    assert received == [7, 8, 9]
    assert platform.tokens == [None, "t8", "t8", "t9"]
    assert dict(platform.asked[0].url.params) == {
        "account_id": ACCOUNT,
        "types": "BROKER_ORDER",
        "symbols": "AAPL",
        "start": "LIVE",
    }
    assert "start" not in platform.asked[1].url.params


async def test_the_async_iterator_goes_on_the_same() -> None:
    platform, received = cut(), list[int]()

    async def follow(events: AsyncIterator[Event]) -> None:
        async for event in events:
            received.append(event.account_seq)

    async with AsyncClient("k", account_id=ACCOUNT, transport=httpx.MockTransport(platform)) as client:
        with pytest.raises(NotAuthenticated):
            await follow(client.events(transport="sse"))
    assert received == [7, 8, 9]
    assert platform.tokens == [None, "t8", "t8", "t9"]


def test_a_frame_that_cannot_be_read_is_no_silence() -> None:
    platform = Platform([subscribed(6), ("broker_order", "t7", {"account_seq": "seven"})])
    with (
        Client("k", account_id=ACCOUNT, transport=httpx.MockTransport(platform)) as client,
        pytest.raises(UnexpectedReply),
    ):
        next(client.events(transport="sse"))


def test_a_mirror_is_primed_when_entered_and_tells_what_ended_it() -> None:
    platform = Platform([subscribed(6), order(6, 6), primed(6)], [subscribed(6), order(7, 6, "FILLED")])
    with Client("k", account_id=ACCOUNT, transport=httpx.MockTransport(platform)) as client:
        mirror = client.mirror(transport="sse")
        # It may have ended before it was entered.
        with pytest.raises(NotAuthenticated), mirror:
            mirror.wait(lambda book: book.account_seq > 7)
    with pytest.raises(NotAuthenticated):
        assert mirror.orders
    assert platform.tokens == [None, "t6", "t7"]


async def test_an_async_mirror_does_the_same() -> None:
    platform = Platform([subscribed(6), order(6, 6), primed(6)], [subscribed(6), order(7, 6, "FILLED")])
    async with AsyncClient("k", account_id=ACCOUNT, transport=httpx.MockTransport(platform)) as client:
        with pytest.raises(NotAuthenticated):
            async with client.mirror(transport="sse") as mirror:
                await mirror.wait(lambda book: book.account_seq > 7)
    assert platform.tokens == [None, "t6", "t7"]


async def test_what_was_told_before_a_snapshot_was_cut_is_forgotten() -> None:
    platform = Platform([subscribed(6), order(6, 6)], [subscribed(9), primed(9)])
    for script in platform.scripts:
        script[0] = ("subscribed", "", script[0][2])
    async with AsyncClient("k", account_id=ACCOUNT, transport=httpx.MockTransport(platform)) as client:
        (event,) = [await anext(client.events(transport="sse", start="PRIMED"))]
    assert event.primed is not None
