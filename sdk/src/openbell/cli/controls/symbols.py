"""The commands under `openbell controls`."""

from typing import TYPE_CHECKING, Annotated

import typer

from openbell.cli.calls import Call, connected
from openbell.cli.controls import backtests, rules
from openbell.cli.options import Account, OfKey, OfOrganization, Symbol, group
from openbell.cli.plain_text import time_text

if TYPE_CHECKING:
    from openbell.models import SymbolControl, SymbolTime

app = group("Set rules, halt, disable symbols, and set trading times.")
app.add_typer(rules.rules_app, name="rules")
app.add_typer(rules.switch_app, name="switch")
app.command("changes")(rules.show_changes)
app.command("backtest")(backtests.backtest)

_about_account = connected(account=Account)


@app.command()
@_about_account
def disable(
    call: Call,
    symbol: Symbol,
    reason: Annotated[str | None, typer.Option("--reason", help="Shown in refusals.")] = None,
) -> None:
    """Disable a symbol: only cancels are accepted and sent."""
    _show_control(call, call.client.set_symbol_control(symbol, disabled=True, reason=reason))


@app.command()
@_about_account
def enable(call: Call, symbol: Symbol) -> None:
    """Enable a symbol again."""
    _show_control(call, call.client.set_symbol_control(symbol, disabled=False))


@app.command()
@_about_account
def window(
    call: Call,
    symbol: Symbol,
    start: Annotated[str | None, typer.Option("--start", help="HH:MM:SS, the first second inside.")] = None,
    end: Annotated[str | None, typer.Option("--end", help="HH:MM:SS, the first second outside.")] = None,
    timezone: Annotated[str | None, typer.Option("--timezone", help="For example America/New_York.")] = None,
    days: Annotated[str | None, typer.Option("--days", help="For example mon,tue,wed,thu,fri.")] = None,
    stale_millis: Annotated[
        int | None, typer.Option("--stale-millis", help="The largest age of a command when it is sent.")
    ] = None,
    resting_millis: Annotated[
        int | None, typer.Option("--resting-millis", help="How long an order may work before it is cancelled.")
    ] = None,
    calendar: Annotated[
        str | None, typer.Option("--calendar", help="The market whose sessions apply, for example XNYS.")
    ] = None,
    session: Annotated[str | None, typer.Option("--session", help="regular, extended, overnight or any.")] = None,
    on_close: Annotated[str | None, typer.Option("--on-close", help="leave or cancel working orders.")] = None,
    clear: Annotated[list[str] | None, typer.Option("--clear", help="A field to remove; may be repeated.")] = None,
) -> None:
    """Set when a symbol may be traded. Options that are left out stay as they are."""
    times = call.client.patch_symbol_time(
        symbol,
        trading_start=start,
        trading_end=end,
        timezone=timezone,
        days=None if days is None else days.upper().split(","),
        stale_order_millis=stale_millis,
        max_resting_millis=resting_millis,
        calendar=calendar,
        session=session and session.upper(),
        on_close=on_close and on_close.upper(),
        clear=clear or [],
    )
    _show_times(call, times)


@app.command()
@connected(account=Account, token=True)
def effective(
    call: Call,
    symbol: Annotated[str | None, typer.Argument(metavar="SYMBOL", help="For example AAPL.")] = None,
    api_key_id: OfKey = None,
    organization: OfOrganization = False,
) -> None:
    """Show every rule and switch in force for a symbol or an account, by scope, and which is the strictest."""
    found = call.client.effective_controls(symbol, api_key_id=api_key_id, organization=organization)
    if call.as_json:
        call.show_line(found, "")
        return
    rules.show_effective(call, found.data)
    if found.symbol_control is not None:
        _show_control(call, found.symbol_control)
    if found.symbol_times is not None:
        _show_times(call, found.symbol_times)
    if found.watched_only:
        typer.echo("Refusals are only recorded: the organization watches its rules on paper accounts.")


@app.command()
@connected(token=True)
def kinds(call: Call) -> None:
    """List the kinds of rules: what each refuses, its parameters (* if required), and where it can be set."""
    call.show_table(
        call.client.control_kinds(),
        ("code", "refuses", "parameters", "scopes", "unit"),
        lambda kind: (
            kind.code,
            kind.summary,
            ", ".join(
                f"{name}*" if name in kind.parameters["required"] else name for name in kind.parameters["properties"]
            ),
            ", ".join(kind.scopes),
            kind.unit or "",
        ),
    )


def _show_control(call: Call, control: "SymbolControl") -> None:
    state = "disabled" if control.manually_disabled else "enabled"
    reason = "" if control.manual_reason is None else f": {control.manual_reason}"
    call.show_line(control, f"{control.symbol} is {state}{reason} (version {control.version})")


def _show_times(call: Call, times: "SymbolTime") -> None:
    has_window = times.trading_start or times.trading_end or times.days
    parts = [
        f"from {times.trading_start}" if times.trading_start else "",
        f"until {times.trading_end}" if times.trading_end else "",
        # The zone is that of the window and its days; sessions are in the time of their market.
        (times.timezone or "UTC") if has_window or not times.calendar else "",
        f"on {', '.join(day.capitalize() for day in times.days)}" if times.days else "",
        f"not older than {times.stale_order_millis} ms" if times.stale_order_millis else "",
        f"in orders of at most {times.max_resting_millis} ms" if times.max_resting_millis else "",
    ]
    if times.calendar:
        parts.append(f"in {(times.session or 'REGULAR').lower()} sessions of {times.calendar}")
    if times.on_close == "CANCEL":
        parts.append("and cancels working orders at the close")
    text = f"{times.symbol} trades {' '.join(part for part in parts if part)}{_now(times)} (version {times.version})"
    call.show_line(times, text)


def _now(times: "SymbolTime") -> str:
    if times.window_open_now is None:
        return ""
    if times.window_open_now:
        return "; open now" + (f", until {time_text(times.next_close_at)}" if times.next_close_at else "")
    return "; closed now" + (f", opens {time_text(times.next_open_at)}" if times.next_open_at else "")
