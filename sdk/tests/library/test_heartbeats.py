"""Heartbeats with both clients and by command: what is sent, when it stops, and what stays armed."""

import asyncio
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from openbell import AsyncClient, AsyncHeartbeats, Client, Conflict, Heartbeats, Unhealthy
from openbell.cli import app

# An account in the environment must not make a promise of a key one of the account.
RUN = CliRunner(env={"OPENBELL_API_KEY": "key-1", "OPENBELL_ACCOUNT": "a", "NO_COLOR": None, "COLUMNS": "200"})
NOON = "2026-01-05T12:00:00Z"
WAIT_SECONDS = 60
HEARTBEAT: dict[str, Any] = {
    "organization_id": "o",
    "scope": "KEY",
    "api_key_id": "k",
    "status": "ARMED",
    "timeout_seconds": 30,
    "cancel_working": True,
    "required": False,
    "armed_at": NOON,
    "last_beat_at": NOON,
    "expires_at": NOON,
    "principal_type": "API_KEY",
    "principal_id": "k",
}
MISSED = {"code": "heartbeat_missed", "detail": "no heartbeat came until noon, so the key is halted"}


@dataclass(slots=True)
class Platform:
    """Answers heartbeats, by script first."""

    script: list[httpx.Response] = field(default_factory=list)
    requests: list[httpx.Request] = field(default_factory=list)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if request.method == "DELETE":
            return httpx.Response(204)
        return self.script.pop(0) if self.script else httpx.Response(200, json=HEARTBEAT)

    @property
    def methods(self) -> list[str]:
        return [request.method for request in self.requests]

    def client(self) -> Client:
        return Client("key-1", "http://platform.test", account_id="a", transport=httpx.MockTransport(self))

    def async_client(self) -> AsyncClient:
        return AsyncClient("key-1", "http://platform.test", account_id="a", transport=httpx.MockTransport(self))


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)


def error_of(heartbeats: Heartbeats | AsyncHeartbeats) -> BaseException | None:
    try:
        heartbeats.last  # noqa: B018 - it raises
    except Exception as error:  # noqa: BLE001 - whatever ended them
        return error
    return None


@pytest.mark.parametrize(
    ("options", "query"),
    [
        ({}, {"scope": "KEY"}),
        ({"account_id": "b"}, {"scope": "ACCOUNT", "account_id": "b"}),
        ({"api_key_id": "k"}, {"scope": "KEY", "api_key_id": "k"}),
    ],
)
def test_a_heartbeat_names_its_scope_which_is_the_calling_key_by_default(
    options: dict[str, str], query: dict[str, str]
) -> None:
    platform = Platform()
    with platform.client() as client:
        armed = client.send_heartbeat(30, cancel_working=True, **options)
        client.disarm_heartbeats(**options)
    put, delete = platform.requests
    assert (armed.status, armed.place) == ("ARMED", "KEY k")
    assert json.loads(put.content) == {"timeout_seconds": 30, "cancel_working": True}
    assert [dict(request.url.params) for request in (put, delete)] == [query, query]


def test_two_scopes_are_refused() -> None:
    with Platform().client() as client, pytest.raises(ValueError, match="Name one scope"):
        client.send_heartbeat(30, account_id="a", api_key_id="k")


def test_a_block_sends_heartbeats_until_it_ends_and_then_disarms() -> None:
    platform = Platform()
    with platform.client() as client:
        with client.promise_heartbeats(1) as heartbeats:
            until(lambda: platform.methods.count("PUT") >= 3)
            assert heartbeats.last.status == "ARMED"
        assert platform.methods[-1] == "DELETE"


def test_a_block_that_raises_stays_armed_so_that_it_is_halted() -> None:
    platform = Platform()
    with platform.client() as client, pytest.raises(ZeroDivisionError), client.promise_heartbeats(1):
        raise ZeroDivisionError
    assert "DELETE" not in platform.methods


def test_heartbeats_stop_when_the_program_s_own_check_fails() -> None:
    platform, healthy = Platform(), threading.Event()
    healthy.set()
    with platform.client() as client, client.promise_heartbeats(1, is_healthy=healthy.is_set) as heartbeats:
        until(lambda: platform.methods.count("PUT") >= 2)
        healthy.clear()
        until(lambda: isinstance(error_of(heartbeats), Unhealthy))
        sent = len(platform.requests)
    assert len(platform.requests) == sent


def test_heartbeats_stop_when_one_was_missed_and_the_next_reader_learns_it() -> None:
    platform = Platform([httpx.Response(200, json=HEARTBEAT), httpx.Response(409, json=MISSED)])
    with platform.client() as client, client.promise_heartbeats(1) as heartbeats:
        until(lambda: isinstance(error_of(heartbeats), Conflict))
    assert platform.methods == ["PUT", "PUT"]


def test_a_platform_that_is_away_is_sent_the_heartbeat_again() -> None:
    unavailable = [httpx.Response(503, json={"code": "unavailable", "detail": "away"}) for _ in range(8)]
    platform = Platform([httpx.Response(200, json=HEARTBEAT), *unavailable])
    with platform.client() as client, client.promise_heartbeats(1) as heartbeats:
        until(lambda: not platform.script and platform.methods.count("PUT") > 9)
        assert heartbeats.last.status == "ARMED"


async def async_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():  # noqa: ASYNC110 - the client has no event for it
            await asyncio.sleep(0.01)


async def test_the_async_client_does_the_same_in_a_task() -> None:
    platform, healthy = Platform(), threading.Event()
    async with platform.async_client() as client:
        async with client.promise_heartbeats(1):
            await async_until(lambda: platform.methods.count("PUT") >= 3)
        assert platform.methods[-1] == "DELETE"
        async with client.promise_heartbeats(1, is_healthy=healthy.is_set) as heartbeats:
            await async_until(lambda: isinstance(error_of(heartbeats), Unhealthy))
        sent = len(platform.requests)
        with pytest.raises(ZeroDivisionError):
            async with client.promise_heartbeats(1):
                raise ZeroDivisionError
    assert platform.methods[sent:] == ["PUT"]


def printed(monkeypatch: pytest.MonkeyPatch, platform: Callable[[httpx.Request], httpx.Response], *given: str) -> str:
    def connected(*_: Any, **__: Any) -> Client:
        return Client("key-1", "http://platform.test", account_id="a", transport=httpx.MockTransport(platform))

    monkeypatch.setattr("openbell.cli.calls.client_for", connected)
    result = RUN.invoke(app, ["heartbeat", *given])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_command_arms_shows_and_disarms(monkeypatch: pytest.MonkeyPatch) -> None:
    platform = Platform()
    armed = printed(monkeypatch, platform, "arm", "30", "--cancel-working")
    assert "KEY k" in armed
    assert "ARMED" in armed
    assert dict(platform.requests[-1].url.params) == {"scope": "KEY"}
    assert json.loads(platform.requests[-1].content) == {"timeout_seconds": 30, "cancel_working": True}
    platform.script.append(httpx.Response(200, json={"data": [HEARTBEAT], "next_cursor": None}))
    assert "KEY k" in printed(monkeypatch, platform, "show")
    assert printed(monkeypatch, platform, "disarm", "--account", "b") == "the promise is disarmed\n"
    assert dict(platform.requests[-1].url.params) == {"scope": "ACCOUNT", "account_id": "b"}
