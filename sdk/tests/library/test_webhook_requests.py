"""Webhooks with both clients and by command: what goes out, and what is shown."""

import asyncio
import json
from functools import partial
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from openbell import AsyncClient, Client, Unreachable
from openbell.cli import app

RUN = CliRunner(env={"OPENBELL_API_KEY": "key-1", "NO_COLOR": None})
WEBHOOK = {
    "id": "w",
    "organization_id": "o",
    "url": "https://example.com/",
    "types": ["BROKER_TRADE"],
    "status": "ACTIVE",
    "version": 1,
    "created_at": "2026-11-02T14:30:00Z",
    "updated_at": "2026-11-02T14:30:00Z",
    "principal_type": "USER",
    "principal_id": "olga",
}
LANE = {
    "account_id": "a",
    "position": 1,
    "newest_seq": 2,
    "delivered": 1,
    "failures": 0,
    "next_attempt_at": "2026-11-02T14:30:00Z",
}


TESTS = {
    "w": {
        "message_id": "test_1",
        "delivered": False,
        "duration_millis": 12,
        "status": 500,
        "error": "NOT_TAKEN",
        "message": "it answered 500",
    },
    "good": {"message_id": "test_2", "delivered": True, "duration_millis": 7, "status": 204},
}

ATTEMPT = {
    "account_id": "a",
    "account_seq": 7,
    "message_id": "a.7",
    "attempted_at": "2026-01-05T12:00:00Z",
    "delivered": False,
    "duration_millis": 12,
    "status": 503,
    "error": "NOT_TAKEN",
    "message": "it answered 503",
}


class Platform:
    """Answers as the path says, and keeps what it was sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, Any, str | None]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content) if request.content else None
        path = request.url.raw_path.decode()
        self.sent.append((request.method, path, body, request.headers.get("if-match")))
        if request.method == "DELETE":
            return httpx.Response(204)
        if "/lanes" in path:
            more = "next_cursor" not in path
            return httpx.Response(200, json={"data": [LANE], "next_cursor": "c" if more else None})
        if "/attempts" in path:
            return httpx.Response(200, json={"data": [ATTEMPT], "next_cursor": None})
        if path.endswith("/replay"):
            return httpx.Response(200, json={"lanes": 3})
        if path.endswith("/test"):
            return httpx.Response(200, json=TESTS[path.split("/")[-2]])
        if request.method == "GET" and path == "/v1/webhooks":
            return httpx.Response(200, json={"data": [WEBHOOK]})
        secret = {"secret": "whsec_x"} if request.method == "POST" else {}
        return httpx.Response(200, json=WEBHOOK | secret)


EXPECTED = [
    ("POST", "/v1/webhooks", {"url": "https://e.com/", "types": ["BROKER_TRADE"], "account_ids": ["a"]}, None),
    ("GET", "/v1/webhooks", None, None),
    ("GET", "/v1/webhooks/w%2F", None, None),
    ("PATCH", "/v1/webhooks/w", {"status": "PAUSED", "account_ids": None}, '"1"'),
    ("POST", "/v1/webhooks/w/rotate-secret", None, None),
    ("POST", "/v1/webhooks/w/test", None, None),
    ("GET", "/v1/webhooks/w/lanes?limit=100&parked=true", None, None),
    ("GET", "/v1/webhooks/w/lanes?limit=100&parked=true&next_cursor=c", None, None),
    ("POST", "/v1/webhooks/w/replay", {"after_seq": 4, "account_id": "a"}, None),
    ("GET", "/v1/webhooks/w/attempts?limit=100", None, None),
    ("PATCH", "/v1/webhooks/w", {"status": "ACTIVE"}, None),
    ("DELETE", "/v1/webhooks/w", None, None),
]


def test_both_clients_ask_for_the_same() -> None:
    plain, awaited = Platform(), Platform()
    with Client("key-1", transport=httpx.MockTransport(plain)) as client:
        made = client.webhooks.create("https://e.com/", ["BROKER_TRADE"], account_ids=["a"])
        assert (made.secret, "whsec" in repr(made)) == ("whsec_x", False)
        assert [each.id for each in client.webhooks.list()] == ["w"]
        client.webhooks.show("w/")
        client.webhooks.change("w", status="PAUSED", account_ids=None, if_version=1)
        assert client.webhooks.rotate_secret("w").secret == "whsec_x"
        tried = client.webhooks.test("w")
        assert (tried.delivered, tried.status, tried.error, tried.duration_millis) == (False, 500, "NOT_TAKEN", 12)
        assert [lane.newest_seq for lane in client.webhooks.lanes("w", parked=True)] == [2, 2]
        assert client.webhooks.replay("w", 4, account_id="a") == 3
        assert [each.account_seq for each in client.webhooks.attempts("w")] == [7]
        assert client.webhooks.resume("w").status == "ACTIVE"
        client.webhooks.delete("w")

    async def all_awaited() -> None:
        async with AsyncClient("key-1", transport=httpx.MockTransport(awaited)) as client:
            await client.webhooks.create("https://e.com/", ["BROKER_TRADE"], account_ids=["a"])
            await client.webhooks.list()
            await client.webhooks.show("w/")
            await client.webhooks.change("w", status="PAUSED", account_ids=None, if_version=1)
            await client.webhooks.rotate_secret("w")
            assert (await client.webhooks.test("w")).message == "it answered 500"
            assert len([lane async for lane in client.webhooks.lanes("w", parked=True)]) == 2
            assert await client.webhooks.replay("w", 4, account_id="a") == 3
            assert [each.status async for each in client.webhooks.attempts("w")] == [503]
            assert (await client.webhooks.resume("w")).id == "w"
            await client.webhooks.delete("w")

    asyncio.run(all_awaited())
    assert plain.sent == awaited.sent == EXPECTED


@pytest.mark.parametrize("path", ["/v1/webhooks", "/v1/webhooks/w/rotate-secret"])
def test_what_makes_a_secret_is_asked_for_once_even_if_no_answer_comes(path: str) -> None:
    sent: list[str] = []

    def lose(request: httpx.Request) -> httpx.Response:
        sent.append(request.url.path)
        raise httpx.ReadError("gone")

    with Client("key-1", transport=httpx.MockTransport(lose)) as client:
        create = partial(client.webhooks.create, "https://e.com/", ["broker_trade"])
        ask = partial(client.webhooks.rotate_secret, "w") if "rotate" in path else create
        with pytest.raises(Unreachable, match="may have taken effect"):
            ask()
    assert sent == [path]


@pytest.fixture
def platform(monkeypatch: pytest.MonkeyPatch) -> None:
    def client_for(url: str | None, key: str | None, *_: object, **__: object) -> Client:
        return Client(key, url, transport=httpx.MockTransport(Platform()))

    monkeypatch.setattr("openbell.cli.calls.client_for", client_for)


@pytest.mark.usefixtures("platform")
@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["create", "https://e.com/", "broker_trade"], "secret whsec_x, shown this once"),
        (["list"], "w  ACTIVE  https://example.com/  BROKER_TRADE"),
        (["show", "w"], "w  ACTIVE"),
        (["pause", "w"], "w  ACTIVE"),
        (["rotate", "w"], "secret whsec_x"),
        (["test", "good"], "taken  204 after 7 ms"),
        (["lanes", "w"], "newest"),
        (["replay", "w", "--after", "4"], "accounts that continue after 4: 3"),
        (["attempts", "w"], "it answered 503"),
        (["resume", "w"], "w  ACTIVE"),
        (["delete", "w"], "deleted"),
    ],
)
def test_each_command_shows_what_came_of_it(words: list[str], shown: str) -> None:
    result = RUN.invoke(app, ["webhooks", *words])
    assert (result.exit_code, shown in result.output) == (0, True), result.output


@pytest.mark.usefixtures("platform")
def test_a_test_message_that_was_not_taken_ends_the_command_with_1() -> None:
    result = RUN.invoke(app, ["webhooks", "test", "w"])
    assert (result.exit_code, result.output) == (1, "not taken  NOT_TAKEN: it answered 500\n")
