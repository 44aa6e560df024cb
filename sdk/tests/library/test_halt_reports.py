"""The halt report with both clients and by command: what is asked for, and what is shown."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from openbell import AsyncClient, Client
from openbell.cli import app

RUN = CliRunner(env={"OPENBELL_API_KEY": "key-1", "NO_COLOR": None, "COLUMNS": "200"})
NOON = "2026-01-05T12:00:00Z"
REPORT: dict[str, Any] = {
    "account_id": "a",
    "as_of": NOON,
    "no_working_orders": None,
    "why": "the broker's list was not read since noon",
    "compared_at": None,
    "halts": [
        {
            "scope": "SYMBOL",
            "symbol": "AAPL",
            "status": "HALTED",
            "version": 3,
            "since": NOON,
            "cancel_working": True,
            "principal_type": "API_KEY",
            "principal_id": "k",
            "reason": "runaway strategy",
            "noticed_at": NOON,
            "doors_opened_after": 0,
            "reducing_doors_after": 0,
            "queued": 1,
            "skipped": 12,
            "in_flight": 1,
            "in_flight_commands": [
                {
                    "intent_id": "i-1",
                    "seq": 1,
                    "action_id": "x",
                    "action_type": "CREATE",
                    "symbol": "AAPL",
                    "status": "UNKNOWN",
                    "door_opened_at": NOON,
                    "settled_at": None,
                }
            ],
            "cancels": {"asked": 5, "confirmed": 3, "ended_otherwise": 1, "waiting": 1, "last_confirmed_at": NOON},
        }
    ],
    "open_orders": 1,
    "in_doubt": 1,
    "queued": 1,
    "orders": [{"intent_id": "i-1", "symbol": "AAPL", "status": "UNKNOWN", "in_doubt": True, "updated_at": NOON}],
    "external_open_orders": 1,
    "external_orders": ["theirs-1"],
}


def platform(request: httpx.Request) -> httpx.Response:
    assert (request.method, request.url.path) == ("GET", "/v1/accounts/a/halt-report")
    return httpx.Response(200, json=REPORT)


def test_both_clients_read_the_report() -> None:
    with Client("key-1", account_id="a", transport=httpx.MockTransport(platform)) as client:
        told = client.halt_report()

    async def ask() -> None:
        async with AsyncClient("key-1", transport=httpx.MockTransport(platform)) as client:
            assert await client.halt_report("a") == told

    asyncio.run(ask())
    (halt,) = told.halts
    assert (told.no_working_orders, halt.doors_opened_after, halt.cancels.confirmed) == (None, 0, 3)
    assert [command.status for command in halt.in_flight_commands] == ["UNKNOWN"]


@pytest.mark.parametrize(("said", "shown"), [(True, "yes"), (False, "no: "), (None, "not known: ")])
def test_the_command_says_first_whether_an_order_works(
    said: bool | None, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = REPORT | {"no_working_orders": said, "why": None if said else REPORT["why"]}
    handler = httpx.MockTransport(lambda _: httpx.Response(200, json=report))
    monkeypatch.setattr(
        "openbell.cli.calls.client_for", lambda *given, **_: Client(given[1], account_id=given[2], transport=handler)
    )
    output = RUN.invoke(app, ["halt-report", "a"]).output
    assert output.startswith(f"no working orders  {shown}")
    for words in ("HALTED SYMBOL AAPL", "runaway strategy", "5 asked, 3 confirmed", "CREATE i-1 UNKNOWN", "theirs-1"):
        assert words in output
    assert "flat" not in output
    told = json.loads(RUN.invoke(app, ["halt-report", "a", "--json"]).output)
    assert told["no_working_orders"] == said
