"""Back-tests with both clients and by command: what goes out, and what is shown."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from openbell import AsyncClient, Client
from openbell.cli import app

RUN = CliRunner(env={"OPENBELL_API_KEY": "key-1", "NO_COLOR": None})
RULES = [{"scope": "ACCOUNT", "code": "QTY_MAX", "parameters": {"quantity": "500"}}]
SINCE = datetime(2026, 1, 2, 12, tzinfo=UTC)
FINDING = {"code": "QTY_MAX", "verdict": "REFUSED", "limit": "500", "observed": "800"}
ANSWER = {
    "account_id": "a",
    "window": {"since": "2026-01-02T12:00:00Z", "until": "2026-01-09T12:00:00Z"},
    "intents": 2_313,
    "judged": 2_310,
    "refused": 14,
    "undecided": 3,
    "newly_refused": 14,
    "newly_accepted": 0,
    "by_rule": [{"scope": "ACCOUNT", "code": "QTY_MAX", "refused": 14, "would_refuse": 0, "undecided": 0}],
    "examples": [
        {
            "at": "2026-01-05T12:00:00Z",
            "symbol": "AAPL",
            "action_type": "CREATE",
            "was_refused": False,
            "would_be_refused": True,
            "findings": [FINDING],
            "action_id": "one",
        }
    ],
}


def answering(sent: list[Any]) -> httpx.MockTransport:
    def answer(request: httpx.Request) -> httpx.Response:
        sent.append((request.method, request.url.path, json.loads(request.content), request.extensions["timeout"]))
        return httpx.Response(200, json=ANSWER)

    return httpx.MockTransport(answer)


def test_both_clients_ask_for_the_same_and_wait_for_it() -> None:
    sent: list[Any] = []
    with Client("key-1", account_id="a", transport=answering(sent)) as client:
        told = client.backtest(RULES, since=SINCE, replace=False, limit=5)

    async def ask() -> None:
        async with AsyncClient("key-1", account_id="a", transport=answering(sent)) as client:
            assert await client.backtest(RULES, since=SINCE, replace=False, limit=5) == told

    asyncio.run(ask())
    assert sent[0] == sent[1]
    method, path, body, timeout = sent[0]
    assert (method, path) == ("POST", "/v1/controls/backtest")
    assert body == {"account_id": "a", "rules": RULES, "replace": False, "limit": 5, "since": SINCE.isoformat()}
    assert timeout["read"] == 120
    assert str(told) == "would have refused 14 of 2,310; 3 undecided"


def test_the_command_says_in_a_sentence_what_would_have_been_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []
    monkeypatch.setattr(
        "openbell.cli.calls.client_for",
        lambda *_, **__: Client("key-1", account_id="a", transport=answering(sent)),
    )
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps(RULES))
    shown = RUN.invoke(app, ["controls", "backtest", "a", "--rules", str(rules), "--since", "12h"])
    assert shown.exit_code == 0, shown.output
    assert shown.output.splitlines() == [
        "would have refused 14 of 2,310; 3 undecided, since 2026-01-02 12:00 UTC",
        "14 were accepted then, 0 were refused and would pass",
        "  QTY_MAX (ACCOUNT): 14 refused",
        "  2026-01-05 12:00:00 CREATE AAPL action one: refused by QTY_MAX 800 against 500",
    ]
    asked_since = datetime.fromisoformat(sent[0][2]["since"])
    assert timedelta(hours=11) < datetime.now(UTC) - asked_since < timedelta(hours=13)


@pytest.mark.parametrize("text", ["{}", "[1]", "no json"])
def test_a_file_that_holds_no_rules_is_refused(tmp_path: Path, text: str) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text(text)
    assert RUN.invoke(app, ["controls", "backtest", "a", "--rules", str(rules)]).exit_code == 2


@pytest.mark.parametrize("since", ["7", "0d", "7w", "last week"])
def test_a_span_that_is_none_is_refused(tmp_path: Path, since: str) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text("[]")
    arguments = ["controls", "backtest", "a", "--rules", str(rules), "--since", since]
    assert RUN.invoke(app, arguments).exit_code == 2
