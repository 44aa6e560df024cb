"""The configuration of AI clients: it names a profile, and never shows a key."""

import json
import os
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from openbell.cli import app
from openbell.cli.profiles import read_profiles, write_profiles

RUN = CliRunner()
KEY = "ob_paper_secret"
WHOLE = {"url": "https://openbell.example.com", "account": "a", "api_key": KEY}


def stored(**profiles: dict[str, str]) -> None:
    write_profiles({"default": next(iter(profiles)), "profiles": profiles})


def installed(*options: str, profile: str | None = None) -> Result:
    return RUN.invoke(app, [*(["--profile", profile] if profile else []), "mcp", "install", *options])


def server_of(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    assert KEY not in result.output
    printed = json.loads(result.stdout)
    for name in ("mcpServers", "servers"):
        printed = printed[name]["openbell"] if name in printed else printed
    return dict(printed)


@pytest.mark.parametrize("client", ["claude-desktop", "claude-code", "cursor", "vscode", "json"])
def test_every_client_starts_openbell_mcp_with_the_profile_and_without_the_key(client: str) -> None:
    stored(desk=WHOLE, agent=WHOLE)
    server = server_of(installed("--client", client, profile="agent"))
    assert server["command"].endswith("openbell-mcp")
    assert server["args"] == ["--profile", "agent"]
    assert server["env"] == {"OPENBELL_CONFIG": os.environ["OPENBELL_CONFIG"]}
    assert server_of(installed("--client", client))["args"] == ["--profile", "desk"]


@pytest.mark.parametrize("missing", sorted(WHOLE))
def test_a_profile_with_which_no_agent_can_trade_is_refused(missing: str) -> None:
    stored(desk={name: value for name, value in WHOLE.items() if name != missing} | {"access_token": "t"})
    refused = installed()
    assert refused.exit_code == 2
    assert f"lacks {missing}" in refused.output


def test_without_a_profile_the_command_states_how_to_create_one() -> None:
    assert read_profiles()["profiles"] == {}
    refused = installed()
    assert refused.exit_code == 2
    assert "openbell profiles set" in refused.output
