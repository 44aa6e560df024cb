"""Both clients over a transport of the test: what goes out, and that they behave the same."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from openbell import Action, AsyncClient, Client, Market, NotAuthenticated, OutcomeUnknown, Unreachable


class Platform:
    """Answers requests from a list and keeps what it was sent."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def client(self) -> Client:
        return Client("key-1", account_id="a", transport=httpx.MockTransport(self))

    def async_client(self) -> AsyncClient:
        return AsyncClient("key-1", account_id="a", transport=httpx.MockTransport(self))


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    taken: list[float] = []

    async def pause(seconds: float) -> None:
        taken.append(seconds)

    monkeypatch.setattr("openbell.client.session.sleep", taken.append)
    monkeypatch.setattr("openbell.async_client.session.sleep", pause)
    return taken


def test_a_buy_is_sent_with_key_and_idempotency_key(record: dict[str, Any]) -> None:
    platform = Platform(httpx.Response(202, json=record, headers={"Idempotency-Replayed": "true"}))
    with platform.client() as client:
        action = client.buy("AAPL", Market(10), client_reference_id="r")
    (request,) = platform.requests
    assert str(request.url) == "http://127.0.0.1:8080/v1/accounts/a/intents"
    assert request.headers["x-api-key"] == "key-1"
    assert len(request.headers["idempotency-key"]) == 32
    assert json.loads(request.content)["command"]["payload"]["order_side"] == "BUY"
    assert action.replayed


def test_a_lost_reply_is_asked_for_again_with_the_same_key(record: dict[str, Any], pauses: list[float]) -> None:
    platform = Platform(httpx.ReadTimeout("slow"), httpx.Response(202, json=record))
    platform.client().sell("AAPL", Market(10))
    first, second = platform.requests
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
    assert first.content == second.content
    assert len(pauses) == 1


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (httpx.ConnectError("refused"), Unreachable),
        (httpx.ConnectTimeout("slow"), Unreachable),
        (httpx.ReadError("reset"), OutcomeUnknown),
        (httpx.WriteTimeout("slow"), OutcomeUnknown),
        (httpx.RemoteProtocolError("cut"), OutcomeUnknown),
    ],
)
def test_only_a_request_that_never_left_counts_as_not_sent(failure: Exception, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=r"127\.0\.0\.1:8080"):
        Platform(failure).client().cancel_intent("i")


def test_a_refusal_is_raised_with_its_request_id() -> None:
    problem = httpx.Response(401, json={"code": "unauthenticated", "detail": "no valid key", "request_id": "r-1"})
    with pytest.raises(NotAuthenticated) as caught:
        Platform(problem).client().intent("i")
    assert caught.value.request_id == "r-1"
    assert "key-1" not in f"{caught.value!r} {caught.value}"


def test_lists_run_over_all_pages(record: dict[str, Any]) -> None:
    def page(seq: int, cursor: str | None) -> httpx.Response:
        return httpx.Response(200, json={"data": [record | {"seq": seq}], "next_cursor": cursor, "last_cursor": "x"})

    platform = Platform(page(1, "c1"), page(2, "c2"), page(3, None))
    assert [action.seq for action in platform.client().intents()] == [1, 2, 3]
    assert [r.url.params.get("next_cursor") for r in platform.requests] == [None, "c1", "c2"]
    platform = Platform(page(1, "c1"), page(2, None))
    assert [action.seq for action in platform.client().actions("i")] == [1, 2]
    assert platform.requests[0].url.path == "/v1/accounts/a/intents/i/actions"
    assert platform.client().intents_page("c9").last_cursor == "x"


async def test_both_clients_ask_for_some_actions_and_for_counts_alike(
    record: dict[str, Any], statistics: dict[str, Any]
) -> None:
    page = {"data": [record], "next_cursor": None, "last_cursor": None}
    platforms = [Platform(*(httpx.Response(200, json=body) for body in (page, statistics))) for _ in range(2)]
    client, async_client = platforms[0].client(), platforms[1].async_client()
    listed = [*client.intents(symbol="AAPL", client_reference_id="r")]
    assert listed == [action async for action in async_client.intents(symbol="AAPL", client_reference_id="r")]
    counted = client.stats("last_hour")
    assert counted == await async_client.stats("last_hour")
    assert (counted.intents, counted.symbols[0].actions, counted.dispatch_latency_millis.p50) == (2, 3, 13.5)
    assert counted.window.since.isoformat() == "2026-11-01T14:00:00+00:00"
    for platform in platforms:
        first, second = platform.requests
        assert dict(first.url.params) == {"limit": "100", "symbol": "AAPL", "client_reference_id": "r"}
        assert (second.url.path, dict(second.url.params)) == (
            "/v1/accounts/a/intents/stats",
            {"time_window": "last_hour"},
        )


def test_wait_returns_the_final_execution(record: dict[str, Any], pauses: list[float]) -> None:
    ended = record | {"execution": record["execution"] | {"status": "CANCELED"}}
    platform = Platform(httpx.Response(200, json=record), httpx.Response(200, json=ended))
    action = platform.client().wait("i", 30)
    assert action.execution is not None
    assert action.execution.status == "CANCELED"
    assert len(pauses) == 1


async def test_the_async_client_sends_and_reads_the_same(record: dict[str, Any]) -> None:
    ended = record | {"execution": record["execution"] | {"status": "FILLED"}}
    sync_platform, async_platform = (
        Platform(httpx.Response(202, json=record), httpx.Response(200, json=ended)) for _ in range(2)
    )
    with sync_platform.client() as client:
        expected = client.buy("AAPL", Market(10), idempotency_key="k"), client.wait("i", 5)
    async with async_platform.async_client() as async_client:
        given = await async_client.buy("AAPL", Market(10), idempotency_key="k"), await async_client.wait("i", 5)
    assert given == expected
    for mine, other in zip(sync_platform.requests, async_platform.requests, strict=True):
        assert (mine.method, mine.url, mine.content) == (other.method, other.url, other.content)
        for name in ("x-api-key", "idempotency-key", "content-type"):
            assert mine.headers.get(name) == other.headers.get(name)


async def test_the_async_client_retries_and_lists_the_same(record: dict[str, Any], pauses: list[float]) -> None:
    page = httpx.Response(200, json={"data": [record, record], "next_cursor": None, "last_cursor": None})
    platform = Platform(httpx.ConnectError("refused"), page)
    actions: list[Action] = [action async for action in platform.async_client().intents()]
    assert len(actions) == 2
    assert len(pauses) == 1
    with pytest.raises(OutcomeUnknown):
        await Platform(httpx.ReadTimeout("slow")).async_client().sell("AAPL", Market(1))


def test_both_clients_offer_the_same_calls() -> None:
    def calls(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    assert calls(Client) == calls(AsyncClient)
    assert asyncio.iscoroutinefunction(AsyncClient.buy)
