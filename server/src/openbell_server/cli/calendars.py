"""Commands about market calendars."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Any

import typer

from openbell_server.cli.operators import ActingAs, AsJson, operate, plain_name, show_list
from openbell_server.domain.errors import OperatorError
from openbell_server.domain.markets.calendars import CALENDARS, Market, Session, SessionChange

CALENDAR_COLUMNS = ("calendar", "timezone", "valid_until", "open_now", "next_open_at", "next_close_at", "changed_days")
SESSION_COLUMNS = ("trade_date", "session", "opens_at", "closes_at", "changed")
DAYS_SHOWN = 7
CalendarArgument = Annotated[str, typer.Argument(metavar="CALENDAR", help=f"One of {', '.join(CALENDARS)}.")]
DateArgument = Annotated[str, typer.Argument(metavar="DATE", help="The trade date, such as 2026-11-27.")]
Reason = Annotated[str, typer.Option(help="Why, for the receipts.")]
app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def show_all(as_json: AsJson = False) -> None:
    """List the calendars: the last day that each covers, and whether it is open now."""
    from openbell_server.adapters.calendars.table import load_calendars

    changes = operate(lambda store: store.calendars.session_changes())
    now = datetime.now(UTC)
    rows = [_calendar_row(market.changed(changes), changes, now) for market in load_calendars().markets.values()]
    show_list("calendars", rows, CALENDAR_COLUMNS, as_json=as_json)


@app.command()
def show(
    calendar: CalendarArgument,
    day: Annotated[str, typer.Option("--date", help="The first trade date. Default: today in the market's zone.")] = "",
    as_json: AsJson = False,
) -> None:
    """Show the sessions of a calendar: of one day, or of the next week."""
    market = _market(calendar)
    changes = operate(lambda store: store.calendars.session_changes())
    first = _date(day) if day else datetime.now(market.zone).date()
    last = first if day else first + timedelta(days=DAYS_SHOWN)
    changed = {(each.trade_date, each.session): each.reason for each in changes if each.calendar == market.name}
    rows: list[dict[str, Any]] = [
        {
            "trade_date": hours.trade_date.isoformat(),
            "session": kind,
            "opens_at": datetime.fromtimestamp(hours.opens, UTC).isoformat(),
            "closes_at": datetime.fromtimestamp(hours.closes, UTC).isoformat(),
            "changed": hours.reason,
        }
        for kind, hours in market.changed(changes).between(first, last)
    ]
    listed = {(row["trade_date"], row["session"]) for row in rows}
    rows += [
        {"trade_date": on.isoformat(), "session": kind, "opens_at": None, "closes_at": None, "changed": reason}
        for (on, kind), reason in changed.items()
        if first <= on <= last and (on.isoformat(), kind) not in listed
    ]
    show_list("sessions", sorted(rows, key=lambda row: row["trade_date"]), SESSION_COLUMNS, as_json=as_json)


@app.command()
def close(calendar: CalendarArgument, day: DateArgument, reason: Reason, acting_as: ActingAs = "") -> None:
    """Close a market for a day, including extended hours and the night before. It applies at once."""
    market = _changeable(calendar)
    trade_date = _date(day)
    changes = [_change(market, trade_date, session, None, plain_name(reason, "--reason")) for session in market.hours]
    operate(lambda store: store.calendars.change(changes), acting_as)
    typer.echo(f"{market.name} is closed on {trade_date}.")


@app.command("open")
def open_day(
    calendar: CalendarArgument,
    day: DateArgument,
    opens: Annotated[str, typer.Argument(metavar="HH:MM", help="Opening time in the market's time zone.")],
    closes: Annotated[str, typer.Argument(metavar="HH:MM", help="Closing time.")],
    reason: Reason,
    session: Annotated[
        Session, typer.Option(help="The session: regular, extended or overnight.", case_sensitive=False)
    ] = Session.REGULAR,
    acting_as: ActingAs = "",
) -> None:
    """Set a market's hours for a day. It applies at once; if the end is before the start, it starts the day before."""
    market = _changeable(calendar)
    if session is Session.ANY:
        raise OperatorError("Choose the session with these hours: --session regular, extended or overnight.")
    trade_date = _date(day)
    end = datetime.combine(trade_date, _time(closes), market.zone)
    start = datetime.combine(trade_date, _time(opens), market.zone)
    if start >= end:
        start = datetime.combine(trade_date - timedelta(days=1), start.time(), market.zone)
    change = _change(market, trade_date, session, (start, end), plain_name(reason, "--reason"))
    operate(lambda store: store.calendars.change([change]), acting_as)
    typer.echo(f"{market.name} is open from {start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} ({session}, {market.zone}).")


@app.command()
def reset(
    calendar: CalendarArgument,
    day: DateArgument,
    reason: Annotated[str, typer.Option(help="Why.")] = "reset",
    acting_as: ActingAs = "",
) -> None:
    """Restore the planned hours of a day."""
    market = _changeable(calendar)
    trade_date = _date(day)
    checked = plain_name(reason, "--reason")
    if not operate(lambda store: store.calendars.reset(market.name, trade_date, checked), acting_as):
        raise OperatorError(
            f"{market.name} has no changed hours on {trade_date}: see `openbell-server calendars show`."
        )
    typer.echo(f"{market.name} is open as planned on {trade_date}.")


def _calendar_row(market: Market, changes: tuple[SessionChange, ...], now: datetime) -> dict[str, Any]:
    opens, closes = market.next_changes(now, Session.REGULAR)
    return {
        "calendar": market.name,
        "timezone": str(market.zone),
        "valid_until": market.valid_until and market.valid_until.isoformat(),
        "open_now": market.open_at(now, Session.REGULAR) is not None,
        "next_open_at": opens and opens.isoformat(),
        "next_close_at": closes and closes.isoformat(),
        "changed_days": len({each.trade_date for each in changes if each.calendar == market.name}),
    }


def _change(
    market: Market, day: date, session: Session, hours: tuple[datetime, datetime] | None, reason: str
) -> SessionChange:
    opens_at, closes_at = hours or (None, None)
    return SessionChange(
        calendar=market.name, trade_date=day, session=session, opens_at=opens_at, closes_at=closes_at, reason=reason
    )


def _market(calendar: str) -> Market:
    from openbell_server.adapters.calendars.table import load_calendars

    market = load_calendars().find(calendar.upper())
    if market is None:
        raise OperatorError(f"There is no calendar called {calendar}: choose from {', '.join(CALENDARS)}.")
    return market


def _changeable(calendar: str) -> Market:
    market = _market(calendar)
    if market.valid_until is None:
        raise OperatorError(f"{market.name} never closes. To stop trading there, use `openbell-server halt`.")
    return market


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise OperatorError("A date is year, month and day, such as 2026-11-27.") from error


def _time(text: str) -> time:
    try:
        return time.fromisoformat(text) if len(text) == len("HH:MM") else time.fromisoformat("")
    except ValueError as error:
        raise OperatorError("A time is hours and minutes, such as 09:30.") from error
