"""Profiles: named sets of what the environment else says, in a file that only its owner can read."""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from openbell.cli.outcomes import told_plainly
from openbell.cli.plain_text import printable

app = typer.Typer(help="Keep what to connect to, and with which key.", no_args_is_help=True, rich_markup_mode=None)

# What a profile may say, and the variable that says it else.
SETTINGS: Final = {
    "url": "OPENBELL_URL",
    "stream": "OPENBELL_STREAM",
    "account": "OPENBELL_ACCOUNT",
    "api_key": "OPENBELL_API_KEY",
    "access_token": "OPENBELL_ACCESS_TOKEN",
}
_SECRET: Final = frozenset({"api_key", "access_token"})
_OTHERS_MAY: Final = 0o077
Name = Annotated[str, typer.Argument(metavar="NAME", help="The profile's name.")]


def apply_profile(name: str | None) -> None:
    """Let a profile speak in place of the environment; the default one only where that has no key or token.

    A profile that is named speaks as a whole: the key of one place and the address of another must not meet.
    """
    if name is None and any(os.environ.get(SETTINGS[secret]) for secret in _SECRET):
        return
    kept = _read()
    chosen = name or kept["default"]
    if chosen is None:
        return
    if chosen not in kept["profiles"]:
        known = ", ".join(sorted(kept["profiles"])) or "none"
        raise ValueError(f"There is no profile {chosen}; there are: {known}.")
    said = kept["profiles"][chosen]
    for setting, variable in SETTINGS.items():
        if setting in said:
            os.environ[variable] = said[setting]
        elif name is not None:
            os.environ.pop(variable, None)


@app.command("set")
def set_profile(
    name: Name,
    url: Annotated[str | None, typer.Option("--url", help="The platform's address.")] = None,
    stream: Annotated[str | None, typer.Option("--stream", help="The event stream, host:port.")] = None,
    account: Annotated[str | None, typer.Option("--account", help="The trading account's id.")] = None,
    with_key: Annotated[bool, typer.Option("--key", help="Ask for the API key, or read it from a pipe.")] = False,
) -> None:
    """Make a profile or change one; what is left out stays."""
    with told_plainly(as_json=False):
        kept = _read()
        given = {"url": url, "stream": stream, "account": account, "api_key": _asked("API key") if with_key else None}
        said = kept["profiles"].setdefault(name, {})
        said |= {setting: value for setting, value in given.items() if value is not None}
        kept["default"] = kept["default"] or name
        _write(kept)
        typer.echo(printable(f"{name} is kept in {_path()}"))


@app.command("list")
def list_profiles() -> None:
    """List the profiles; keys are not shown."""
    with told_plainly(as_json=False):
        kept = _read()
        for name, said in sorted(kept["profiles"].items()):
            shown = (f"{key}={'…' if key in _SECRET else value}" for key, value in said.items())
            typer.echo(printable(f"{'*' if name == kept['default'] else ' '} {name}  {'  '.join(shown)}"))


@app.command()
def use(name: Name) -> None:
    """Let this one speak where none is named."""
    with told_plainly(as_json=False):
        kept = _read()
        if name not in kept["profiles"]:
            raise ValueError(f"There is no profile {name}: make it with `openbell profiles set {name}`.")
        kept["default"] = name
        _write(kept)


@app.command()
def remove(name: Name) -> None:
    """Forget a profile, and its key."""
    with told_plainly(as_json=False):
        kept = _read()
        kept["profiles"].pop(name, None)
        kept["default"] = None if kept["default"] == name else kept["default"]
        _write(kept)


def _asked(what: str) -> str:
    """A secret from whoever sits there, unseen, or from a pipe; never from the command line, which others can see."""
    text = str(typer.prompt(what, hide_input=True, err=True)) if sys.stdin.isatty() else sys.stdin.readline()
    return text.strip()


def _path() -> Path:
    named = os.environ.get("OPENBELL_CONFIG")
    base = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return Path(named) if named else base / "openbell" / "profiles.json"


def _read() -> dict[str, Any]:
    path = _path()
    try:
        mode = path.stat().st_mode
        if os.name == "posix" and mode & _OTHERS_MAY:
            raise ValueError(f"{path} holds keys and others may read it: chmod 600 {path}")
        kept = json.loads(path.read_text())
        profiles = {
            name: {key: str(said[key]) for key in SETTINGS if key in said} for name, said in kept["profiles"].items()
        }
        return {"default": kept.get("default"), "profiles": profiles}
    except FileNotFoundError:
        return {"default": None, "profiles": {}}
    except (OSError, KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} cannot be read as profiles ({error}): mend or remove it.") from error


def _write(kept: dict[str, Any]) -> None:
    """Whole or not at all, and readable by its owner only from its first byte on."""
    path = _path()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "w") as file:
        json.dump(kept, file, indent=2)
    Path(name).replace(path)
