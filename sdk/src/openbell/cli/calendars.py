"""The command `openbell calendars`."""

from typing import TYPE_CHECKING, Annotated

import typer

from openbell.cli.calls import Call, connected

if TYPE_CHECKING:
    from datetime import datetime


@connected()
def show_calendars(
    call: Call,
    calendar: Annotated[str | None, typer.Argument(metavar="CALENDAR", help="For example XNYS. Default: all.")] = None,
    since: Annotated[str | None, typer.Option("--from", help="The first trade date. Default: today there.")] = None,
    until: Annotated[str | None, typer.Option("--to", help="The last trade date. Default: a week later.")] = None,
) -> None:
    """List the market calendars, or the sessions of one."""
    if calendar is not None:
        call.show_table(
            call.client.market_sessions(calendar, since=since, until=until).data,
            ("trade date", "session", "opens", "closes", "changed"),
            lambda each: (
                each.trade_date,
                each.session,
                _minute(each.opens_at),
                _minute(each.closes_at),
                each.changed or "",
            ),
        )
        return
    call.show_table(
        call.client.calendars(),
        ("calendar", "timezone", "sessions", "open now", "next open", "next close", "known until"),
        lambda each: (
            each.calendar,
            each.timezone,
            ", ".join(each.sessions),
            "yes" if each.open_now else "no",
            _minute(each.next_open_at),
            _minute(each.next_close_at),
            each.valid_until or "",
        ),
    )


def _minute(moment: "datetime | None") -> str:
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M}Z"
