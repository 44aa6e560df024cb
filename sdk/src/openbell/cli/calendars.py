"""The command `openbell calendars`."""

from typing import TYPE_CHECKING, Annotated

import typer

from openbell.cli.options import Json, Key, Url, client_for
from openbell.cli.outcomes import told_plainly
from openbell.cli.plain_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from openbell.calendars import Calendar, MarketSession


def show_calendars(
    calendar: Annotated[str | None, typer.Argument(metavar="CALENDAR", help="Such as XNYS. Default: all.")] = None,
    since: Annotated[str | None, typer.Option("--from", help="The first trade date. Default: today there.")] = None,
    until: Annotated[str | None, typer.Option("--to", help="The last trade date. Default: a week later.")] = None,
    url: Url = None,
    api_key: Key = None,
    as_json: Json = False,
) -> None:
    """List the market calendars, or the sessions of one."""
    with told_plainly(as_json=as_json), client_for(url, api_key, None) as client:
        if calendar is None:
            _show_calendars(client.calendars(), as_json=as_json)
        else:
            _show_sessions(client.market_sessions(calendar, since=since, until=until).data, as_json=as_json)


def _show_calendars(calendars: "Sequence[Calendar]", *, as_json: bool) -> None:
    if as_json:
        for calendar in calendars:
            typer.echo(calendar.to_json())
        return
    names = ("calendar", "timezone", "sessions", "open now", "next open", "next close", "known until")
    rows = (
        (
            each.calendar,
            each.timezone,
            ", ".join(each.sessions),
            "yes" if each.open_now else "no",
            _moment(each.next_open_at),
            _moment(each.next_close_at),
            each.valid_until or "",
        )
        for each in calendars
    )
    _show_table(names, rows)


def _show_sessions(sessions: "Sequence[MarketSession]", *, as_json: bool) -> None:
    if as_json:
        for session in sessions:
            typer.echo(session.to_json())
        return
    names = ("trade date", "session", "opens", "closes", "changed")
    rows = (
        (each.trade_date, each.session, _moment(each.opens_at), _moment(each.closes_at), each.changed or "")
        for each in sessions
    )
    _show_table(names, rows)


def _moment(moment: "datetime | None") -> str:
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M}Z"


def _show_table(names: "Sequence[str]", rows: "Iterable[Sequence[str]]") -> None:
    from rich.table import Table
    from rich.text import Text

    from openbell.cli.tables import console

    table = Table(*names, box=None, header_style="bold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console().print(table)
