"""Shared parts of the operator commands: who acts, which database, and how results are printed."""

import asyncio
import getpass
import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from openbell_server.domain.errors import OperatorError
from openbell_server.domain.names import NAME_LENGTH_MAX

if TYPE_CHECKING:
    from openbell_server.adapters.postgres.operators.operators import PostgresOperatorStore

T = TypeVar("T")
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
RowLimit = Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of rows.")]
ActingAs = Annotated[
    str,
    typer.Option(
        "--as", help="Who acts, for the audit log, which also records the database login. Default: the system user."
    ),
]


def operate(act: Callable[["PostgresOperatorStore"], Awaitable[T]], acting_as: str = "") -> T:
    """Run act on the database at OPENBELL_DATABASE_URL; the audit log records acting_as or the system user."""
    from openbell_server.adapters.postgres.operators.operators import operator_store
    from openbell_server.settings import Settings

    url = Settings().require("database_url")

    async def run() -> T:
        async with operator_store(url, acting_operator(acting_as)) as store:
            return await act(store)

    return asyncio.run(run())


def acting_operator(acting_as: str) -> str:
    return plain_name(acting_as or _system_user(), "--as")


def _system_user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError) as error:
        raise OperatorError("This system has no name for its user: name yourself with --as NAME.") from error


def plain_name(text: str, what: str) -> str:
    """The text, if it is a valid name; otherwise raises an OperatorError that names `what`."""
    if not text.strip() or len(text) > NAME_LENGTH_MAX or not text.isprintable():
        raise OperatorError(f"{what} takes 1 to {NAME_LENGTH_MAX} printable characters, not only spaces.")
    return text


def known(values: Iterable[str], choices: Iterable[str], what: str) -> list[str]:
    """The values, sorted and without duplicates, if all are among the choices; otherwise raises an OperatorError."""
    wanted, allowed = set(values), set(choices)
    if not wanted or wanted - allowed:
        unknown = ", ".join(sorted(wanted - allowed)) or "nothing"
        raise OperatorError(f"There is no {what} called {unknown}: choose from {', '.join(sorted(allowed))}.")
    return sorted(wanted)


def show_list(name: str, rows: Sequence[dict[str, Any]], columns: Sequence[str], *, as_json: bool) -> None:
    """Print one JSON object with all rows, or a table."""
    if as_json:
        typer.echo(json.dumps({name: rows}))
    else:
        _print_table(rows, columns)


def show_one(row: dict[str, Any], columns: Sequence[str], *, as_json: bool) -> None:
    """Print one JSON object, or a table with one row."""
    if as_json:
        typer.echo(json.dumps(row))
    else:
        _print_table([row], columns)


def show_facts(row: dict[str, Any], *, as_json: bool) -> None:
    """Print one JSON object, or one fact per line without those that are None."""
    from rich.table import Table
    from rich.text import Text

    from openbell.cli.plain_text import printable
    from openbell.cli.tables import console

    if as_json:
        typer.echo(json.dumps(row))
        return
    table = Table(box=None, show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in row.items():
        if value is not None:
            table.add_row(name.replace("_", " "), Text(printable(_cell(value))))
    console().print(table)


def short_time(moment: str) -> str:
    """An ISO time in UTC, to the second."""
    return datetime.fromisoformat(moment).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def short_age(seconds: float) -> str:
    """Such as 42s, 12m, 3h or 5d, rounded down."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f}{unit}"
    return f"{max(0.0, seconds):.0f}s"


def _print_table(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> None:
    from rich.table import Table
    from rich.text import Text

    from openbell.cli.plain_text import printable
    from openbell.cli.tables import console

    table = Table(box=None, header_style="bold")
    for name in columns:
        numbers = any(isinstance(row[name], int) and not isinstance(row[name], bool) for row in rows)
        table.add_column(name.replace("_", " "), justify="right" if numbers else "left")
    for row in rows:
        # An id must not be split over two lines, or it cannot be copied.
        table.add_row(*(Text(printable(_cell(row[name])), no_wrap=name.endswith("_id")) for name in columns))
    console().print(table)


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, list) else "" if value is None else str(value)
