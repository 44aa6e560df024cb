"""Commands about the key that wraps sealed credentials."""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from openbell_server.cli.operators import ActingAs, AsJson, acting_operator, show_list
from openbell_server.domain.errors import OperatorError

if TYPE_CHECKING:
    from openbell_server.adapters.postgres.access.vault_objects import PostgresVaultObjects
    from openbell_server.application.access.rotate_vault_keys import Rotation

T = TypeVar("T")
BROKEN_SHOWN_MAX = 5
_NOT_ALL = 1
Private = Annotated[Path, typer.Option("--private", help="The file for executors.")]
Public = Annotated[Path, typer.Option("--public", help="The file for the api, which can seal but not open.")]
app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.command()
def create_key(private: Private, public: Public, as_json: AsJson = False) -> None:
    """Create a key, in two new files that only their owner may read."""
    from openbell_server.adapters.vault import key_file

    key_id = _with_operator_errors(lambda: key_file.create_key_files(private, public))
    _show_key(
        key_id, f"Give executors {private} and the api {public}. Store a copy of {private} elsewhere.", as_json=as_json
    )


@app.command()
def add_key(private: Private, public: Public, as_json: AsJson = False) -> None:
    """Add a key to both files; new objects are wrapped with it, and the earlier keys still unwrap."""
    from openbell_server.adapters.vault import key_file

    key_id = _with_operator_errors(lambda: key_file.add_key(private, public))
    _show_key(
        key_id,
        "Give executors the private file first, then the api the public one; then `vault rotate`.",
        as_json=as_json,
    )


@app.command()
def rotate(acting_as: ActingAs = "", as_json: AsJson = False) -> None:
    """Wrap every object with the current key, while everything runs. If it is interrupted, run it again.

    It needs the settings of an executor: its login and its key. Exit code 1: some objects could not be unwrapped.
    """
    from openbell_server.adapters.postgres.connection import UNAVAILABLE
    from openbell_server.application.access.rotate_vault_keys import RotateVault
    from openbell_server.processes.vault import rewrapper
    from openbell_server.settings import Settings

    key = rewrapper(Settings())

    async def run(objects: "PostgresVaultObjects") -> "Rotation":
        with _progress(await key.current_key_id(), await objects.count_across_organizations()) as show:
            return await RotateVault(objects, key, UNAVAILABLE).run(show)

    rotation = _with_operator_errors(lambda: _with_objects(run, acting_as))
    if as_json:
        typer.echo(json.dumps(_as_json(rotation)))
    else:
        typer.echo(f"{rotation.rewrapped} objects were rewrapped with {rotation.key_id}; {rotation.left} are not.")
        for place in sorted(rotation.broken, key=str)[:BROKEN_SHOWN_MAX]:
            typer.echo(f"  cannot be unwrapped: account {place.account_id} credential {place.credential_id}", err=True)
    if rotation.left:
        raise typer.Exit(_NOT_ALL)


@app.command()
def status(as_json: AsJson = False) -> None:
    """Show how many objects each key wraps, and which key is the current one."""
    from openbell_server.processes.vault import rewrapper
    from openbell_server.settings import Settings

    key = rewrapper(Settings())
    current = _with_operator_errors(lambda: asyncio.run(key.current_key_id()))
    counts = _with_objects(lambda objects: objects.count_across_organizations())
    rows = [
        {"key_id": key_id, "objects": count, "current": key_id == current}
        for key_id, count in sorted({current: 0, **counts}.items())
    ]
    show_list("keys", rows, ("key_id", "objects", "current"), as_json=as_json)


def _with_objects(act: Callable[["PostgresVaultObjects"], Awaitable[T]], acting_as: str = "") -> T:
    from openbell_server.adapters.postgres.access.vault_objects import rotating_objects
    from openbell_server.settings import Settings

    async def run() -> T:
        async with rotating_objects(Settings().require("database_url"), acting_operator(acting_as)) as objects:
            return await act(objects)

    return asyncio.run(run())


def _with_operator_errors(act: Callable[[], T]) -> T:
    from openbell_server.application.access.ports.vault import VaultError

    try:
        return act()
    except VaultError as error:
        raise OperatorError(str(error)) from None


def _show_key(key_id: str, what_next: str, *, as_json: bool) -> None:
    typer.echo(json.dumps({"key_id": key_id}) if as_json else f"The key {key_id} wraps from now on. {what_next}")


def _as_json(rotation: "Rotation") -> dict[str, object]:
    return {
        "key_id": rotation.key_id,
        "rewrapped": rotation.rewrapped,
        "left": rotation.left,
        "broken": [
            {
                "organization_id": str(place.organization_id),
                "account_id": str(place.account_id),
                "credential_id": str(place.credential_id),
                "version": place.version,
            }
            for place in sorted(rotation.broken, key=str)
        ],
    }


@contextlib.contextmanager
def _progress(key_id: str, counts: dict[str, int]) -> Iterator[Callable[["Rotation"], None]]:
    """A progress bar on standard error, so that standard output contains only the result."""
    from rich.console import Console
    from rich.progress import Progress

    outdated = sum(counts.values()) - counts.get(key_id, 0)
    with Progress(console=Console(stderr=True)) as progress:
        bar = progress.add_task("Wrapping keys", total=outdated)

        def show(rotation: "Rotation") -> None:
            done = rotation.rewrapped + len(rotation.broken)
            progress.update(bar, completed=done, total=max(outdated, done))

        yield show
