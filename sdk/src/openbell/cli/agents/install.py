"""Prints what an AI client needs to start openbell-mcp."""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from openbell.cli.options import group
from openbell.cli.outcomes import errors_as_messages
from openbell.cli.profiles import read_profiles

app = group("Let an AI agent trade through openbell-mcp, with a key of its own.")

AiClient = Literal["claude-desktop", "claude-code", "cursor", "vscode", "json"]
COMMAND: Final = "openbell-mcp"
# Where each client reads its configuration.
_PLACES: Final[dict[AiClient, str]] = {
    "claude-desktop": "claude_desktop_config.json (Settings, Developer, Edit Config)",
    "claude-code": ".mcp.json in your project",
    "cursor": "~/.cursor/mcp.json, or .cursor/mcp.json in your project",
    "vscode": ".vscode/mcp.json in your project",
    "json": "the configuration of your client",
}


@app.command("install")
def install(
    context: typer.Context,
    client: Annotated[AiClient, typer.Option("--client", help="The AI client.")] = "json",
) -> None:
    """Print the configuration that starts openbell-mcp with a profile; the key stays in the profile."""
    with errors_as_messages(as_json=False):
        name = _profile_of_agent(context.find_root().params.get("profile"))
        sys.stderr.write(f"Put this into {_PLACES[client]}:\n")
        typer.echo(json.dumps(_configuration(client, name), indent=2))


def _profile_of_agent(name: str | None) -> str:
    """The named profile or the default one; raises ValueError unless an agent can trade with it."""
    stored = read_profiles()
    chosen = name or stored["default"]
    create = "openbell profiles set NAME --url URL --account ACCOUNT --key"
    if chosen is None:
        raise ValueError(f"There is no profile: create one with the agent's key: {create}")
    missing = [each for each in ("url", "account", "api_key") if each not in stored["profiles"][chosen]]
    if missing:
        raise ValueError(f"The profile {chosen} lacks {', '.join(missing)}: {create}")
    return str(chosen)


def _configuration(client: AiClient, profile: str) -> dict[str, Any]:
    server = {"command": _command(), "args": ["--profile", profile], "env": _environment()}
    if client == "json":
        return server
    if client in ("claude-code", "vscode"):
        server = {"type": "stdio", **server}
    return {"servers" if client == "vscode" else "mcpServers": {"openbell": server}}


def _command() -> str:
    """The whole path where it is known, because AI clients start without the PATH of a shell."""
    beside = Path(sys.executable).with_name(COMMAND)
    return str(beside) if beside.exists() else shutil.which(COMMAND) or COMMAND


def _environment() -> dict[str, str]:
    """Where the profiles are, if not in their usual place."""
    named = os.environ.get("OPENBELL_CONFIG")
    return {"OPENBELL_CONFIG": str(Path(named).absolute())} if named else {}
