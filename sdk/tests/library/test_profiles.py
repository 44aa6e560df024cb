"""Profiles: what is kept, what speaks when, and who may read it; and what is asked before something is live."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from openbell.cli import app

RUN = CliRunner()
INTENT = "0192f0c1-0000-7000-8000-000000000001"


@pytest.fixture(autouse=True)
def _environment_as_before() -> Iterator[None]:
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[httpx.Request]:
    """Every request; nothing is there but a live account."""
    requests: list[httpx.Request] = []
    inside = httpx.Client.__init__

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(404, json={"code": "not_found", "detail": "There is no such thing."})

    def outside(self: httpx.Client, **options: Any) -> None:
        inside(self, **options | {"transport": httpx.MockTransport(answer)})

    monkeypatch.setattr(httpx.Client, "__init__", outside)
    return requests


def keep(name: str, *words: str, key: str = "ob_paper_k") -> None:
    assert RUN.invoke(app, ["profiles", "set", name, "--key", *words], input=f"{key}\n").exit_code == 0


def test_the_default_profile_speaks_where_the_environment_has_no_key(asked: list[httpx.Request]) -> None:
    keep("paper", "--url", "https://paper.example", "--account", "a")
    keep("live", "--url", "https://live.example", "--account", "b", key="ob_live_k")
    RUN.invoke(app, ["positions", "list"])
    assert str(asked[0].url) == "https://paper.example/v1/accounts/a/positions"
    assert asked[0].headers["x-api-key"] == "ob_paper_k"


def test_a_profile_that_is_named_speaks_as_a_whole(asked: list[httpx.Request], monkeypatch: pytest.MonkeyPatch) -> None:
    keep("paper", "--url", "https://paper.example")
    monkeypatch.setenv("OPENBELL_API_KEY", "ob_live_k")
    monkeypatch.setenv("OPENBELL_ACCOUNT", "b")
    result = RUN.invoke(app, ["--profile", "paper", "positions", "list"])
    assert "No account was named" in result.output
    RUN.invoke(app, ["--profile", "paper", "positions", "list", "--account", "a"])
    assert asked[0].headers["x-api-key"] == "ob_paper_k"


def test_the_environment_speaks_before_the_default_profile(
    asked: list[httpx.Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    keep("paper", "--url", "https://paper.example", "--account", "a")
    monkeypatch.setenv("OPENBELL_API_KEY", "ob_paper_other")
    RUN.invoke(app, ["positions", "list", "--account", "a"])
    assert (asked[0].url.host, asked[0].headers["x-api-key"]) == ("127.0.0.1", "ob_paper_other")


def test_keys_are_kept_for_their_owner_only_and_never_shown() -> None:
    keep("paper", "--url", "https://paper.example", key="ob_paper_s3cret")
    path = Path(os.environ["OPENBELL_CONFIG"])
    assert path.stat().st_mode & 0o777 == 0o600
    shown = RUN.invoke(app, ["profiles", "list"]).output
    assert ("s3cret" in shown, "* paper" in shown) == (False, True)
    path.chmod(0o640)
    refused = RUN.invoke(app, ["positions", "list"])
    assert (refused.exit_code, "chmod 600" in refused.output) == (2, True)


def test_a_profile_is_changed_chosen_and_forgotten() -> None:
    keep("paper", "--url", "https://paper.example")
    keep("live", key="ob_live_k")
    assert RUN.invoke(app, ["profiles", "set", "paper", "--account", "a"]).exit_code == 0
    assert RUN.invoke(app, ["profiles", "use", "live"]).exit_code == 0
    kept = json.loads(Path(os.environ["OPENBELL_CONFIG"]).read_text())
    assert kept["default"] == "live"
    assert kept["profiles"]["paper"] == {"url": "https://paper.example", "account": "a", "api_key": "ob_paper_k"}
    assert RUN.invoke(app, ["profiles", "remove", "live"]).exit_code == 0
    assert RUN.invoke(app, ["--profile", "live", "brokers"]).exit_code == 2
    assert RUN.invoke(app, ["profiles", "use", "live"]).exit_code == 2


def test_what_is_no_profile_file_is_said_to_be_none() -> None:
    path = Path(os.environ["OPENBELL_CONFIG"])
    path.write_text("[")
    path.chmod(0o600)
    refused = RUN.invoke(app, ["brokers"])
    assert (refused.exit_code, "correct or remove it" in refused.output) == (2, True)


@pytest.mark.parametrize(
    "words",
    [
        ["intents", "create", "AAPL", "BUY", "1"],
        ["intents", "replace", INTENT, "--quantity", "2"],
        ["accounts", "close", "a"],
        ["credentials", "set", "--file", "-"],
        ["credentials", "remove"],
    ],
)
def test_nothing_live_is_done_where_nobody_can_be_asked_and_yes_was_not_said(
    asked: list[httpx.Request], words: list[str]
) -> None:
    environment = {"OPENBELL_API_KEY": "ob_live_k", "OPENBELL_ACCOUNT": "a"}
    refused = RUN.invoke(app, words, env=environment, input="{}")
    assert (refused.exit_code, "Add --yes" in refused.output, asked) == (2, True, [])
    RUN.invoke(app, [*words, "--yes"], env=environment, input="{}")
    assert len(asked) == 1
    RUN.invoke(app, words, env=environment | {"OPENBELL_API_KEY": "ob_paper_k"}, input="{}")
    assert len(asked) == 2


def test_a_cancel_is_never_asked_about(asked: list[httpx.Request]) -> None:
    RUN.invoke(app, ["intents", "cancel", INTENT], env={"OPENBELL_API_KEY": "ob_live_k", "OPENBELL_ACCOUNT": "a"})
    assert len(asked) == 1
