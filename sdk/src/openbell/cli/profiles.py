"""Profiles: named sets of connection settings, in a file that only its owner can read."""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from openbell.cli.options import group
from openbell.cli.outcomes import errors_as_messages
from openbell.cli.plain_text import printable

app = group("Store addresses, accounts and keys under a name.")

# Each setting of a profile, and the environment variable that it replaces.
SETTINGS: Final = {
    "url": "OPENBELL_URL",
    "stream": "OPENBELL_STREAM",
    "account": "OPENBELL_ACCOUNT",
    "api_key": "OPENBELL_API_KEY",
    "access_token": "OPENBELL_ACCESS_TOKEN",
}
# Of a sign-in: see `openbell login`.
LOGIN_SETTINGS: Final = ("issuer", "client_id", "audience", "scope", "token_expires_at", "refresh_token")
_SECRET: Final = frozenset({"api_key", "access_token", "refresh_token"})
_GROUP_AND_OTHERS: Final = 0o077
Name = Annotated[str, typer.Argument(metavar="NAME", help="The profile's name.")]


def apply_profile(name: str | None) -> None:
    """Set the environment variables of a profile; the default profile only if the environment has no key or token.

    A named profile replaces all five variables, so that a key is never sent to the address of another profile.
    """
    if name is None and any(os.environ.get(SETTINGS[secret]) for secret in ("api_key", "access_token")):
        return
    stored = read_profiles()
    chosen = name or stored["default"]
    if chosen is None:
        return
    if chosen not in stored["profiles"]:
        known = ", ".join(sorted(stored["profiles"])) or "none"
        raise ValueError(f"There is no profile {chosen}; there are: {known}.")
    settings = stored["profiles"][chosen]
    for setting, variable in SETTINGS.items():
        if setting in settings:
            os.environ[variable] = settings[setting]
        elif name is not None:
            os.environ.pop(variable, None)


@app.command("set")
def set_profile(
    name: Name,
    url: Annotated[str | None, typer.Option("--url", help="The platform's address.")] = None,
    stream: Annotated[str | None, typer.Option("--stream", help="The event stream, host:port.")] = None,
    account: Annotated[str | None, typer.Option("--account", help="The trading account's id.")] = None,
    with_key: Annotated[
        bool, typer.Option("--key", help="Prompt for the API key, or read it from standard input.")
    ] = False,
) -> None:
    """Create a profile or change one. Options that are left out stay as they are."""
    with errors_as_messages(as_json=False):
        stored = read_profiles()
        given = {
            "url": url,
            "stream": stream,
            "account": account,
            "api_key": _prompted("API key") if with_key else None,
        }
        settings = stored["profiles"].setdefault(name, {})
        settings |= {setting: value for setting, value in given.items() if value is not None}
        stored["default"] = stored["default"] or name
        write_profiles(stored)
        typer.echo(printable(f"{name} is stored in {_path()}"))


@app.command("list")
def list_profiles() -> None:
    """List the profiles, without their keys."""
    with errors_as_messages(as_json=False):
        stored = read_profiles()
        for name, settings in sorted(stored["profiles"].items()):
            shown = (f"{key}={'…' if key in _SECRET else value}" for key, value in settings.items())
            typer.echo(printable(f"{'*' if name == stored['default'] else ' '} {name}  {'  '.join(shown)}"))


@app.command()
def use(name: Name) -> None:
    """Make this the default profile."""
    with errors_as_messages(as_json=False):
        stored = read_profiles()
        if name not in stored["profiles"]:
            raise ValueError(f"There is no profile {name}: create it with `openbell profiles set {name}`.")
        stored["default"] = name
        write_profiles(stored)


@app.command()
def remove(name: Name) -> None:
    """Delete a profile and its key."""
    with errors_as_messages(as_json=False):
        stored = read_profiles()
        stored["profiles"].pop(name, None)
        stored["default"] = None if stored["default"] == name else stored["default"]
        write_profiles(stored)


def _prompted(what: str) -> str:
    """A secret from a prompt or standard input; the command line would show it in the process list."""
    text = str(typer.prompt(what, hide_input=True, err=True)) if sys.stdin.isatty() else sys.stdin.readline()
    return text.strip()


def _path() -> Path:
    named = os.environ.get("OPENBELL_CONFIG")
    base = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return Path(named) if named else base / "openbell" / "profiles.json"


def read_profiles() -> dict[str, Any]:
    path = _path()
    try:
        mode = path.stat().st_mode
        if os.name == "posix" and mode & _GROUP_AND_OTHERS:
            raise ValueError(f"{path} holds keys and other users may read it: chmod 600 {path}")
        stored = json.loads(path.read_text())
        profiles = {
            name: {key: str(settings[key]) for key in (*SETTINGS, *LOGIN_SETTINGS) if key in settings}
            for name, settings in stored["profiles"].items()
        }
        return {"default": stored.get("default"), "profiles": profiles}
    except FileNotFoundError:
        return {"default": None, "profiles": {}}
    except (OSError, KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} cannot be read as profiles ({error}): correct or remove it.") from error


def write_profiles(stored: dict[str, Any]) -> None:
    """Replace the file atomically; mkstemp creates it readable by its owner only."""
    path = _path()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "w") as file:
        json.dump(stored, file, indent=2)
    Path(name).replace(path)
