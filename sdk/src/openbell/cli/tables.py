"""Records as tables for a person."""

from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from openbell.cli.plain_text import printable
from openbell.models import Action, Event, Execution, Reason, Statistics

# Rich cuts columns at 80 where there is no terminal; an id that is cut is of no use in a pipe.
PIPE_WIDTH: Final = 240
_DOUBT: Final = "nobody knows yet whether it reached the broker"
_ATTENTION: Final = "it did not settle by itself, and a person should look at it"

_STYLES: Final = {
    "FILLED": "green",
    "ACKED": "green",
    "PARTIALLY_FILLED": "cyan",
    "UNKNOWN": "bold yellow",
    "REJECTED": "red",
    "REFUSED": "red",
    "FAILED": "red",
    "SKIPPED": "red",
    "ABANDONED": "red",
}


def console() -> Console:
    """Standard output; colours only where it is a terminal."""
    screen = Console(highlight=False)
    return screen if screen.is_terminal else Console(highlight=False, width=PIPE_WIDTH)


def show_actions(actions: Iterable[Action]) -> None:
    """One line per action."""
    table = Table("recorded", "intent", "seq", "action", "order", "state", "reference", box=None, header_style="bold")
    for action in actions:
        table.add_row(
            _cell(told_at(action.created_at)),
            Text(printable(action.intent_id), no_wrap=True),
            _cell(str(action.seq)),
            _cell(action.action_type),
            _cell(order_line(action)),
            _state(action.state, action.reason),
            _cell(action.client_reference_id or ""),
        )
    console().print(table)


def show_rows(names: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    """Rows of plain texts under their names; what is wide goes on in the next line, and is never cut."""
    table = Table(*(Column(name, overflow="fold") for name in names), box=None, header_style="bold")
    for row in rows:
        table.add_row(*(_cell(text) for text in row))
    console().print(table)


def show_action(action: Action) -> None:
    """One action with its execution, one fact per line."""
    table = Table(box=None, show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("intent", _cell(action.intent_id))
    table.add_row("order", _cell(order_line(action)))
    table.add_row("action", _cell(f"{action.seq} {action.action_type}, recorded {told_at(action.created_at)}"))
    table.add_row("state", _state(action.state, action.reason))
    table.add_row("receipt", _cell(action.receipt_id))
    if action.client_reference_id:
        table.add_row("reference", _cell(action.client_reference_id))
    if action.replayed:
        table.add_row("replayed", "recorded by an earlier request with the same key; nothing new was sent")
    if action.execution is not None:
        _add_execution(table, action.execution)
    console().print(table)


def show_statistics(statistics: Statistics) -> None:
    """Counts, one kind per line."""
    window, latency = statistics.window, statistics.dispatch_latency_ms
    table = Table(box=None, show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("window", _cell(f"{told_at(window.since)} to {told_at(window.until)}"))
    table.add_row("intents", str(statistics.intents))
    for name, counts in (
        ("actions", statistics.actions),
        ("sides", statistics.sides),
        ("outcomes", statistics.outcomes),
        ("symbols", {entry.symbol: entry.actions for entry in statistics.symbols}),
    ):
        table.add_row(name, _cell(", ".join(f"{word} {count}" for word, count in counts.items() if count) or "none"))
    table.add_row("refused by controls", str(statistics.control_refusals))
    waits = {"p50": latency.p50, "p95": latency.p95, "p99": latency.p99}
    told = ", ".join(f"{name} {wait:g} ms" for name, wait in waits.items() if wait is not None)
    table.add_row("sent after", _cell(told or "nothing was sent"))
    console().print(table)


def show_event(event: Event) -> None:
    """One event on one line."""
    line = Text(f"{event.account_seq:>6}  {told_at(event.occurred_at)}  ")
    if event.broker_order is not None:
        order = event.broker_order
        line.append(f"order   {printable(order.intent_id)}  {printable(order.symbol)}  ")
        line.append_text(_state(order.status, order.reason))
        line.append(f"  {_plain(order.filled_quantity)} of {_plain(order.quantity)} filled")
        line.append(f" at {_plain(order.average_price)}" if order.average_price is not None else "")
    elif event.intent_action is not None:
        action = event.intent_action
        line.append(f"action  {printable(action.intent_id)}  {action.seq} {printable(action.action_type)}  ")
        line.append_text(_state(action.state, action.reason))
        if action.unknown is not None:
            line.append(f"  since {told_at(action.unknown.since)}, written {action.unknown.writes}x")
    elif event.account_changed is not None:
        account = event.account_changed
        line.append(f"account {printable(', '.join(account.changed) or 'notice')}  version {account.version}  ")
        line.append_text(_state(f"credential {account.credential_status}", account.reason))
        line.append(f"  expires {told_at(account.expires_at)}" if account.expires_at is not None else "")
    elif event.external_order is not None:
        other = event.external_order
        line.append(f"not ours {printable(other.broker_order_id)}  {printable(other.order_side)} ")
        line.append(f"{printable(other.symbol)}  ")
        line.append_text(_state(other.status, None))
        line.append(f"  {_plain(other.filled_quantity)} filled")
    elif event.position_adjusted is not None:
        held = event.position_adjusted
        line.append(f"holds   {printable(held.symbol)}  {_plain(held.after)} instead of {_plain(held.before)}  ")
        line.append(printable(held.cause))
    console().print(line, soft_wrap=True)


def order_line(action: Action) -> str:
    """The order in one phrase, such as BUY 10 AAPL LIMIT 187.50 DAY."""
    parts = [action.order_side, _plain(action.quantity), action.symbol, action.order_type]
    parts += ["stop " + _plain(action.stop_price)] if action.stop_price is not None else []
    parts += [_plain(action.limit_price)] if action.limit_price is not None else []
    return " ".join([*parts, action.time_in_force])


def _add_execution(table: Table, execution: Execution) -> None:
    table.add_row("execution", _state(execution.state, None))
    price = f" at {_plain(execution.average_price)}" if execution.average_price is not None else ""
    table.add_row("filled", f"{_plain(execution.filled_quantity)}{price}, {_plain(execution.leaves_quantity)} open")
    if execution.broker_order_ids:
        table.add_row("broker order", _cell(", ".join(execution.broker_order_ids)))
    table.add_row("updated", told_at(execution.updated_at))
    if execution.unknown is not None:
        unknown = execution.unknown
        table.add_row("unknown since", told_at(unknown.since))
        if unknown.flagged_at is not None:
            table.add_row("needs attention", _cell(f"since {told_at(unknown.flagged_at)}: {_ATTENTION}"))
        table.add_row("written", "once" if unknown.writes == 1 else f"{unknown.writes} times, with the same id")
        for probe in unknown.probes:
            table.add_row("looked", _cell(f"{told_at(probe.at)}, found: {_found(probe.found)}"))
        if unknown.settles_by:
            table.add_row("settles by", _cell(unknown.settles_by))


def _found(found: bool | str | None) -> str:
    if isinstance(found, str):
        return found
    return "yes" if found else "nothing"


def _state(state: str, reason: Reason | None) -> Text:
    text = Text(printable(state), style=_STYLES.get(state, ""))
    if state == "UNKNOWN":
        text.append(f": {_DOUBT}")
    if reason is not None:
        words = " ".join(word for word in (reason.code, reason.broker_code, reason.broker_text) if word)
        text.append(f" ({printable(words)})", style="dim")
    return text


def _cell(text: str) -> Text:
    # A Text is shown as it is: in a plain string rich would read [brackets] as markup.
    return Text(printable(text))


def _plain(number: Decimal) -> str:
    return format(number, "f")


def told_at(moment: datetime) -> str:
    """A time, in UTC to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")
