"""The halt report with both clients and by command: what is asked for, and what is shown."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from openbell import AsyncClient, Client, NotFound
from openbell.cli import app

RUN = CliRunner(env={"OPENBELL_API_KEY": "key-1", "NO_COLOR": None, "COLUMNS": "200"})
NOON = "2026-01-05T12:00:00Z"
REPORT: dict[str, Any] = {
    "id": "r-1",
    "account_id": "a",
    "scope": "SYMBOL",
    "symbol": "AAPL",
    "status": "HALTED",
    "version": 3,
    "since": NOON,
    "until": None,
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
            "dispatched_at": NOON,
            "settled_at": None,
        }
    ],
    "cancels": {"asked": 5, "confirmed": 3, "ended_otherwise": 1, "waiting": 1, "last_confirmed_at": NOON},
    "no_working_orders": None,
    "why": "the broker's list was not read since noon",
    "compared_at": None,
    "account": {
        "as_of": NOON,
        "open_orders": 1,
        "in_doubt": 1,
        "queued": 1,
        "orders": [{"intent_id": "i-1", "symbol": "AAPL", "status": "UNKNOWN", "in_doubt": True, "updated_at": NOON}],
        "external_open_orders": 1,
        "external_orders": ["theirs-1"],
    },
}
ENDED = {name: value for name, value in REPORT.items() if name != "account"} | {
    "id": "r-0",
    "until": "2026-01-05T12:30:00Z",
    "why": "the halt has ended",
}


def platform(request: httpx.Request) -> httpx.Response:
    assert (request.method, request.url.path) == ("GET", "/v1/halt-reports")
    assert request.url.params["account_id"] == "a"
    if request.url.params["limit"] == "1":
        return httpx.Response(200, json={"data": [REPORT], "next_cursor": "c"})
    if "next_cursor" in request.url.params:
        return httpx.Response(200, json={"data": [ENDED]})
    return httpx.Response(200, json={"data": [REPORT], "next_cursor": "c"})


def test_both_clients_read_the_reports() -> None:
    with Client("key-1", account_id="a", transport=httpx.MockTransport(platform)) as client:
        told, ended = client.halt_reports()
        assert (client.halt_report(), client.halt_report(report_id="r-0")) == (told, ended)
        with pytest.raises(NotFound, match="no such halt report"):
            client.halt_report(report_id="r-7")

    async def ask() -> None:
        async with AsyncClient("key-1", transport=httpx.MockTransport(platform)) as client:
            assert [report async for report in client.halt_reports("a")] == [told, ended]
            assert (await client.halt_report("a"), await client.halt_report("a", report_id="r-0")) == (told, ended)

    asyncio.run(ask())
    assert (told.no_working_orders, told.doors_opened_after, told.cancels.confirmed) == (None, 0, 3)
    assert [command.status for command in told.in_flight_commands] == ["UNKNOWN"]
    assert (told.until, ended.account) == (None, None)


def test_an_account_that_was_never_halted_has_no_report() -> None:
    handler = httpx.MockTransport(lambda _: httpx.Response(200, json={"data": []}))
    with Client("key-1", account_id="a", transport=handler) as client, pytest.raises(NotFound, match="never halted"):
        client.halt_report()


def shown(monkeypatch: pytest.MonkeyPatch, handler: Callable[[httpx.Request], httpx.Response], *options: str) -> str:
    def connected(*given: Any, **_: Any) -> Client:
        return Client(given[1], account_id=given[2], transport=httpx.MockTransport(handler))

    monkeypatch.setattr("openbell.cli.calls.client_for", connected)
    result = RUN.invoke(app, ["halt-report", "a", *options])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize(("said", "words"), [(True, "yes"), (False, "no: "), (None, "not known: ")])
def test_the_command_says_first_whether_an_order_works(
    said: bool | None, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = REPORT | {"no_working_orders": said, "why": None if said else REPORT["why"]}

    def handler(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"data": [report]})

    output = shown(monkeypatch, handler, "--last")
    assert output.startswith(f"no working orders  {words}")
    for part in ("HALTED SYMBOL AAPL", "runaway strategy", "5 asked, 3 confirmed", "CREATE i-1 UNKNOWN", "theirs-1"):
        assert part in output
    assert "flat" not in output
    told = json.loads(shown(monkeypatch, handler, "--last", "--json"))
    assert told["no_working_orders"] == said


def test_the_command_lists_all_halts_and_shows_one_that_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = shown(monkeypatch, platform)
    assert ("r-1" in listed, "r-0" in listed, "in force" in listed) == (True, True, True)
    one = shown(monkeypatch, platform, "--id", "r-0")
    assert ("2026-01-05 12:30:00" in one, "orders open" in one) == (True, False)
