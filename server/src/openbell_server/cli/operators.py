"""What the commands of operators have in common: who acts, on which database, and how the answer is shown."""

import asyncio
import getpass
import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from openbell_server.domain.errors import OperatorError

if TYPE_CHECKING:
    from openbell_server.adapters.postgres.operators import PostgresOperatorStore

T = TypeVar("T")
NAME_LENGTH_MAX: Final = 128
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
ActingAs = Annotated[str, typer.Option("--as", help="Who acts, for the audit log. Default: the user of this system.")]


def operate(act: Callable[["PostgresOperatorStore"], Awaitable[T]], acting_as: str = "") -> T:
    """Act on the database at OPENBELL_DATABASE_URL in the name of whoever runs the command."""
    from openbell_server.adapters.postgres.operators import operator_store
    from openbell_server.settings import Settings

    url = Settings().require("database_url")

    async def run() -> T:
        async with operator_store(url, plain_name(acting_as or _system_user(), "--as")) as store:
            return await act(store)

    return asyncio.run(run())


def _system_user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError) as error:
        raise OperatorError("This system has no name for its user: say who you are with --as NAME.") from error


def plain_name(text: str, what: str) -> str:
    """The text if it will do as a name."""
    if not text.strip() or len(text) > NAME_LENGTH_MAX or not text.isprintable():
        raise OperatorError(f"{what} takes 1 to {NAME_LENGTH_MAX} printable characters, not only spaces.")
    return text


def known(words: Iterable[str], all_words: Iterable[str], what: str) -> list[str]:
    """The words if all of them are ours."""
    wanted, allowed = set(words), set(all_words)
    if not wanted or wanted - allowed:
        said = ", ".join(sorted(wanted - allowed)) or "nothing"
        raise OperatorError(f"There is no {what} called {said}: choose from {', '.join(sorted(allowed))}.")
    return sorted(wanted)


def show_list(name: str, rows: Sequence[dict[str, Any]], columns: Sequence[str], *, as_json: bool) -> None:
    """One JSON object with all of them, or a table."""
    if as_json:
        typer.echo(json.dumps({name: rows}))
    else:
        _print_table(rows, columns)


def show_one(row: dict[str, Any], columns: Sequence[str], *, as_json: bool) -> None:
    """One JSON object, or a table of one line."""
    if as_json:
        typer.echo(json.dumps(row))
    else:
        _print_table([row], columns)


def _print_table(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> None:
    from rich.table import Table
    from rich.text import Text

    from openbell.cli.plain_text import printable
    from openbell.cli.tables import console

    table = Table(*(column.replace("_", " ") for column in columns), box=None, header_style="bold")
    for row in rows:
        # A Text is shown as it is; an id that is broken in two cannot be copied.
        table.add_row(*(Text(printable(_said(row[name])), no_wrap=name.endswith("_id")) for name in columns))
    console().print(table)


def _said(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, list) else str(value or "")
