"""Market calendars with both clients and by command: what goes out, and what is shown."""

import asyncio
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from openbell import AsyncClient, Client
from openbell.cli import app

RUN = CliRunner(env={"OPENBELL_API_KEY": "key-1", "OPENBELL_ACCOUNT": None, "NO_COLOR": None, "COLUMNS": "200"})
CALENDAR = {
    "calendar": "XNYS",
    "timezone": "America/New_York",
    "sessions": ["REGULAR", "extended"],
    "version": "made up",
    "open_now": False,
    "next_open_at": "2026-11-27T14:30:00Z",
    "next_close_at": None,
    "valid_until": "2028-11-30",
}
SESSION = {
    "session": "REGULAR",
    "session_date": "2026-11-27",
    "trade_date": "2026-11-27",
    "opens_at": "2026-11-27T14:30:00Z",
    "closes_at": "2026-11-27T18:00:00Z",
    "changed": "snow",
}
SESSIONS = {"calendar": "XNYS", "timezone": "America/New_York", "data": [SESSION], "valid_until": "2028-11-30"}


def answer(request: httpx.Request) -> httpx.Response:
    path = request.url.raw_path.decode()
    if path == "/v1/calendars":
        return httpx.Response(200, json={"data": [CALENDAR]})
    assert path in {
        "/v1/calendars/XNYS/sessions",
        "/v1/calendars/XNYS/sessions?since=2026-11-27&until=2026-11-30",
        "/v1/calendars/X%2FY/sessions",
    }
    return httpx.Response(200, json=SESSIONS)


def test_both_clients_ask_for_the_same() -> None:
    with Client("key-1", transport=httpx.MockTransport(answer)) as client:
        calendars = client.calendars()
        sessions = client.market_sessions("XNYS", since="2026-11-27", until="2026-11-30")
        assert client.market_sessions("X/Y") == sessions

    async def awaited() -> tuple[Any, Any]:
        async with AsyncClient("key-1", transport=httpx.MockTransport(answer)) as client:
            return await client.calendars(), await client.market_sessions("XNYS")

    assert asyncio.run(awaited()) == (calendars, sessions)
    assert calendars[0].next_close_at is None
    assert sessions.data[0].changed == "snow"


def test_the_command_lists_calendars_and_the_sessions_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def client(*_: object) -> Client:
        return Client("key-1", transport=httpx.MockTransport(answer))

    monkeypatch.setattr("openbell.cli.calls.client_for", client)
    every = RUN.invoke(app, ["calendars"])
    assert every.exit_code == 0
    assert "XNYS" in every.stdout
    assert "2026-11-27 14:30Z" in every.stdout
    one = RUN.invoke(app, ["calendars", "XNYS", "--from", "2026-11-27", "--to", "2026-11-30"])
    assert one.exit_code == 0
    assert "snow" in one.stdout
    assert RUN.invoke(app, ["calendars", "--json"]).stdout.startswith('{"calendar":"XNYS"')
    assert RUN.invoke(app, ["calendars", "XNYS", "--json"]).stdout.startswith('{"session":"REGULAR"')
