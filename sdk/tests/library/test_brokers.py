"""The brokers with both clients and by command: what goes out, and what is shown."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from openbell import AsyncClient, Client
from openbell.cli import app

RUN = CliRunner(env={"OPENBELL_API_KEY": "key-1", "OPENBELL_ACCOUNT": None, "NO_COLOR": None})
PLAIN = {
    "name": "plain",
    "environments": ["paper"],
    "order_types": ["MARKET", "LIMIT"],
    "times_in_force": ["DAY"],
    "default_time_in_force": "DAY",
    "route_strategies": ["SMART"],
    "quantity_decimals": 0,
    "replace": "none",
    "in_flight_max": 4,
    "calls_at_once_max": 16,
    "calls_per_second_max": None,
    "look_up": "EVERY_ORDER",
    "cancels_by_client_id": False,
    "repeats_cancels": True,
    "enforces_valid_until": False,
    "settle_seconds": 10.0,
    "feed": {"by_account": True, "echo_seconds": 10.0, "names_executions": False, "tells_corrections": False},
    "commands": {
        "CREATE": {"id_class": "A", "settles_by": "A report."},
        "CANCEL": {"id_class": "C", "settles_by": "The end of the order."},
    },
    "credentials": None,
}
KEYED = {
    **PLAIN,
    "name": "keyed",
    # Of a later version of the platform.
    "speaks": "tongues",
    "calls_per_second_max": 3.0,
    "credentials": {
        "kind": "token",
        "required": True,
        "fields": [{"name": "token", "title": "[Token]", "secret": True, "length_max": 256}],
    },
}
ASKED: list[str] = []


def platform(request: httpx.Request) -> httpx.Response:
    ASKED.append(f"{request.method} {request.url.path}")
    return httpx.Response(200, json={"data": [KEYED, PLAIN]})


def test_both_clients_read_the_brokers_without_an_account() -> None:
    ASKED.clear()
    with Client("key-1", transport=httpx.MockTransport(platform)) as client:
        keyed, plain = client.brokers()

    async def ask() -> None:
        async with AsyncClient("key-1", transport=httpx.MockTransport(platform)) as other:
            assert await other.brokers() == (keyed, plain)

    asyncio.run(ask())
    assert ASKED == ["GET /v1/brokers"] * 2
    assert (plain.name, plain.credentials, plain.calls_per_second_max) == ("plain", None, None)
    assert keyed.credentials is not None
    assert [(field.name, field.secret) for field in keyed.credentials.fields] == [("token", True)]
    assert keyed.commands["CREATE"].settles_by == "A report."


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    inside = httpx.Client.__init__

    def mocked(self: httpx.Client, **options: Any) -> None:
        inside(self, **options | {"transport": httpx.MockTransport(platform)})

    monkeypatch.setattr(httpx.Client, "__init__", mocked)


@pytest.mark.usefixtures("outside")
def test_the_command_shows_a_line_for_each_broker() -> None:
    result = RUN.invoke(app, ["brokers"])
    assert result.exit_code == 0
    _, keyed, plain = result.stdout.splitlines()
    assert keyed.split()[0] == "keyed"
    assert "CREATE A, CANCEL C" in keyed
    assert keyed.rstrip().endswith("token")
    assert plain.rstrip().endswith("none")


@pytest.mark.usefixtures("outside")
def test_the_command_prints_all_of_it_as_json() -> None:
    result = RUN.invoke(app, ["brokers", "--json"])
    assert result.exit_code == 0
    told = [json.loads(line) for line in result.stdout.splitlines()]
    assert told == [
        {name: value for name, value in broker.items() if value is not None and name != "speaks"}
        for broker in (KEYED, PLAIN)
    ]
