"""The commands under `openbell controls`."""

from typing import TYPE_CHECKING, Annotated

import typer

from openbell.cli import backtests, rules
from openbell.cli.options import Account, Json, Key, Url, client_for
from openbell.cli.outcomes import told_plainly
from openbell.cli.plain_text import printable
from openbell.errors import NotFound

if TYPE_CHECKING:
    from openbell.models import SymbolControl, SymbolTime

app = typer.Typer(
    help="Set rules, halt, switch symbols off, and set trading times.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(rules.rules_app, name="rules")
app.add_typer(rules.switch_app, name="switch")
app.command("backtest")(backtests.backtest)

Symbol = Annotated[str, typer.Argument(metavar="SYMBOL", help="Such as AAPL.")]


@app.command()
def disable(
    symbol: Symbol,
    reason: Annotated[str | None, typer.Option("--reason", help="Why, for whoever reads a refusal.")] = None,
    account: Account = None,
    url: Url = None,
    api_key: Key = None,
    as_json: Json = False,
) -> None:
    """Switch a symbol off: nothing but cancels is accepted or sent."""
    with told_plainly(as_json=as_json), client_for(url, api_key, account) as client:
        _show_switch(client.set_symbol_control(symbol, disabled=True, reason=reason), as_json=as_json)


@app.command()
def enable(
    symbol: Symbol, account: Account = None, url: Url = None, api_key: Key = None, as_json: Json = False
) -> None:
    """Switch a symbol on again."""
    with told_plainly(as_json=as_json), client_for(url, api_key, account) as client:
        _show_switch(client.set_symbol_control(symbol, disabled=False), as_json=as_json)


@app.command()
def window(
    symbol: Symbol,
    start: Annotated[str | None, typer.Option("--start", help="HH:MM:SS, inside the window.")] = None,
    end: Annotated[str | None, typer.Option("--end", help="HH:MM:SS, the first second outside.")] = None,
    timezone: Annotated[str | None, typer.Option("--timezone", help="Such as America/New_York.")] = None,
    days: Annotated[str | None, typer.Option("--days", help="Such as mon,tue,wed,thu,fri.")] = None,
    stale_millis: Annotated[int | None, typer.Option("--stale-millis", help="Oldest age of what is sent.")] = None,
    resting_millis: Annotated[
        int | None, typer.Option("--resting-millis", help="How long an order may work before it is cancelled.")
    ] = None,
    calendar: Annotated[str | None, typer.Option("--calendar", help="A market whose sessions apply: XNYS.")] = None,
    session: Annotated[str | None, typer.Option("--session", help="regular, extended, overnight or any.")] = None,
    on_close: Annotated[str | None, typer.Option("--on-close", help="leave or cancel working orders.")] = None,
    clear: Annotated[list[str] | None, typer.Option("--clear", help="A field to remove; may be repeated.")] = None,
    account: Account = None,
    url: Url = None,
    api_key: Key = None,
    as_json: Json = False,
) -> None:
    """Set when a symbol may be traded; what is left out stays as it is."""
    with told_plainly(as_json=as_json), client_for(url, api_key, account) as client:
        times = client.patch_symbol_time(
            symbol,
            trading_start=start,
            trading_end=end,
            timezone=timezone,
            days=None if days is None else days.split(","),
            stale_order_millis=stale_millis,
            max_resting_millis=resting_millis,
            calendar=calendar,
            session=session,
            on_close=on_close,
            clear=clear or [],
        )
        _show_times(times, as_json=as_json)


@app.command()
def show(symbol: Symbol, account: Account = None, url: Url = None, api_key: Key = None, as_json: Json = False) -> None:
    """Show what is set for a symbol."""
    with told_plainly(as_json=as_json), client_for(url, api_key, account) as client:
        missing = 0
        try:
            _show_switch(client.symbol_control(symbol), as_json=as_json)
        except NotFound:
            missing += 1
        try:
            _show_times(client.symbol_time(symbol), as_json=as_json)
        except NotFound:
            # Of an account that is not there both are missing; the platform's words say which it is.
            if missing:
                raise


def _show_switch(control: "SymbolControl", *, as_json: bool) -> None:
    state = "disabled" if control.manually_disabled else "enabled"
    reason = "" if control.manual_reason is None else f": {control.manual_reason}"
    text = f"{control.symbol} is {state}{reason} (version {control.version})"
    typer.echo(control.to_json() if as_json else printable(text))


def _show_times(times: "SymbolTime", *, as_json: bool) -> None:
    has_window = times.trading_start or times.trading_end or times.days
    parts = [
        f"from {times.trading_start}" if times.trading_start else "",
        f"until {times.trading_end}" if times.trading_end else "",
        # The zone is that of the window and its days; sessions are on the clock of their market.
        (times.timezone or "UTC") if has_window or not times.calendar else "",
        f"on {', '.join(times.days)}" if times.days else "",
        f"not older than {times.stale_order_millis} ms" if times.stale_order_millis else "",
        f"in orders of at most {times.max_resting_millis} ms" if times.max_resting_millis else "",
    ]
    if times.calendar:
        parts.append(f"in {times.session or 'regular'} sessions of {times.calendar}")
    if times.on_close == "cancel":
        parts.append("and cancels what works when that closes")
    text = f"{times.symbol} trades {' '.join(part for part in parts if part)}{_now(times)} (version {times.version})"
    typer.echo(times.to_json() if as_json else printable(text))


def _now(times: "SymbolTime") -> str:
    from openbell.cli.tables import told_at

    if times.window_open_now is None:
        return ""
    if times.window_open_now:
        return "; open now" + (f", until {told_at(times.next_close_at)}" if times.next_close_at else "")
    return "; closed now" + (f", opens {told_at(times.next_open_at)}" if times.next_open_at else "")
