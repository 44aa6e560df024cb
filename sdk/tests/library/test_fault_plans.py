"""Fault plans with both clients and by command: what goes out, and what is shown."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from openbell import AsyncClient, Client
from openbell.cli import app

RUN = CliRunner(env={"OPENBELL_API_KEY": "key-1", "OPENBELL_ACCOUNT": "a", "NO_COLOR": None})
PATH = "/v1/accounts/a/paper/faults"
PLAN = {"seed": 7, "faults": {"hang": 0.1, "late_ms": 2000}}
SENT: list[tuple[str, str, Any]] = []


def platform(request: httpx.Request) -> httpx.Response:
    body = json.loads(request.content) if request.content else PLAN
    SENT.append((request.method, request.url.path, body))
    return httpx.Response(200, json=body | {"set_at": "2026-01-05T12:00:00Z"})


def test_both_clients_set_and_read_a_plan() -> None:
    SENT.clear()
    with Client("key-1", account_id="a", transport=httpx.MockTransport(platform)) as client:
        kept = client.set_fault_plan({"hang": 0.1, "late_ms": 2000}, seed=7)
        assert client.fault_plan() == kept

    async def ask() -> None:
        async with AsyncClient("key-1", account_id="a", transport=httpx.MockTransport(platform)) as client:
            assert await client.set_fault_plan({"hang": 0.1, "late_ms": 2000}, seed=7) == kept
            assert await client.fault_plan() == kept

    asyncio.run(ask())
    assert (kept.seed, kept.faults) == (7, PLAN["faults"])
    assert SENT == [("PUT", PATH, PLAN), ("GET", PATH, PLAN)] * 2


@pytest.mark.parametrize(
    ("words", "sent", "shown"),
    [
        (["break", "hang=0.1", "late_ms=2000", "--seed", "7"], PLAN, "Faults with seed 7: hang=0.1, late_ms=2000"),
        (["show"], PLAN, "Faults with seed 7: hang=0.1, late_ms=2000"),
        (["mend"], PLAN, "No faults"),
    ],
)
def test_a_command_says_what_holds_now(
    monkeypatch: pytest.MonkeyPatch, words: list[str], sent: object, shown: str
) -> None:
    SENT.clear()
    inside = httpx.Client.__init__

    def outside(self: httpx.Client, **options: Any) -> None:
        inside(self, **options | {"transport": httpx.MockTransport(platform)})

    monkeypatch.setattr(httpx.Client, "__init__", outside)
    result = RUN.invoke(app, ["paper", *words])
    assert (result.exit_code, result.stdout.strip()) == (0, shown)
    assert [body for _, _, body in SENT] == [sent]


def test_what_is_no_number_is_wrong_usage() -> None:
    result = RUN.invoke(app, ["paper", "break", "hang=often"])
    assert result.exit_code == 2
    assert "hang=often must be a name and a number" in result.stderr
