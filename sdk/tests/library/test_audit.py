"""The audit log: what the client asks for, and what the commands show and export."""

import json
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from openbell import Client
from openbell.cli import app

RUN = CliRunner(env={"OPENBELL_ACCESS_TOKEN": "t", "NO_COLOR": "1", "COLUMNS": "200"})
ENTRIES = [
    {
        "organization_id": "o",
        "number": number,
        "audit_id": f"a{number}",
        "occurred_at": "2026-01-05T12:00:00.000000Z",
        "login": "api",
        "principal_type": "USER",
        "principal_id": "olga",
        "operation": "keys create",
        "object_id": f"k{number}",
        "after": "{}",
        "hash": "0" * 64,
    }
    for number in (1, 2, 3)
]


class Platform:
    """Lists two entries in a page."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(dict(request.url.params))
        start = int(request.url.params.get("next_cursor", "0"))
        following = str(start + 2) if start + 2 < len(ENTRIES) else None
        return httpx.Response(200, json={"data": ENTRIES[start : start + 2], "next_cursor": following})


@pytest.fixture
def platform(monkeypatch: pytest.MonkeyPatch) -> Platform:
    found = Platform()

    def client_for(*_: Any, **__: Any) -> Client:
        return Client("key-1", transport=httpx.MockTransport(found))

    monkeypatch.setattr("openbell.cli.calls.client_for", client_for)
    return found


def test_the_client_asks_for_what_was_chosen_page_by_page(platform: Platform) -> None:
    with Client("key-1", transport=httpx.MockTransport(platform)) as client:
        since = datetime(2026, 1, 5, tzinfo=UTC)
        found = client.audit.list(since=since, operation="keys create", principal_id="olga", newest_first=True)
        assert [entry.number for entry in found] == [1, 2, 3]
    chosen = {"since": "2026-01-05T00:00:00+00:00", "operation": "keys create", "principal_id": "olga", "order": "desc"}
    assert platform.asked == [{"limit": "100", **chosen}, {"limit": "100", **chosen, "next_cursor": "2"}]


def test_the_command_lists_the_newest_first_and_no_more_than_it_was_asked_for(platform: Platform) -> None:
    result = RUN.invoke(app, ["audit", "list", "--limit", "2", "--operation", "keys create"])
    assert result.exit_code == 0, result.output
    assert "2026-01-05 12:00:00" in result.output
    assert ("USER olga" in result.output, "k2" in result.output, "k3" in result.output) == (True, True, False)
    assert platform.asked == [{"limit": "100", "operation": "keys create", "order": "desc"}]


@pytest.mark.usefixtures("platform")
def test_an_export_has_every_entry_the_head_and_how_many_there_are() -> None:
    result = RUN.invoke(app, ["audit", "export"])
    assert result.exit_code == 0, result.output
    first, *entries, head, end = map(json.loads, result.output.splitlines())
    assert first == {"kind": "audit_log", "format": 1}
    assert entries == [{"kind": "entry", "before": None, **entry} for entry in ENTRIES]
    assert head == {"kind": "head", "organization_id": "o", "number": 3, "hash": "0" * 64}
    assert end == {"kind": "end", "entries": 3, "heads": 1}
