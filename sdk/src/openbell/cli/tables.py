"""Records as tables for a person."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from openbell.cli.plain_text import plain, printable
from openbell.event_records import BrokerTrade, Event
from openbell.models import Action, Execution, Reason, Statistics

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
            cell(told_at(action.created_at)),
            Text(printable(action.intent_id), no_wrap=True),
            cell(str(action.seq)),
            cell(action.action_type),
            cell(order_line(action)),
            state_of(action.state, action.reason),
            cell(action.client_reference_id or ""),
        )
    console().print(table)


def show_rows(names: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    """Rows of plain texts under their names; what is wide goes on in the next line, and is never cut."""
    table = Table(*(Column(name, overflow="fold") for name in names), box=None, header_style="bold")
    for row in rows:
        table.add_row(*(cell(text) for text in row))
    console().print(table)


def show_action(action: Action) -> None:
    """One action with its execution, one fact per line."""
    table = Table(box=None, show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("intent", cell(action.intent_id))
    table.add_row("order", cell(order_line(action)))
    table.add_row("action", cell(f"{action.seq} {action.action_type}, recorded {told_at(action.created_at)}"))
    table.add_row("state", state_of(action.state, action.reason))
    table.add_row("receipt", cell(action.receipt_id))
    if action.client_reference_id:
        table.add_row("reference", cell(action.client_reference_id))
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
    table.add_row("window", cell(f"{told_at(window.since)} to {told_at(window.until)}"))
    table.add_row("intents", str(statistics.intents))
    for name, counts in (
        ("actions", statistics.actions),
        ("sides", statistics.sides),
        ("outcomes", statistics.outcomes),
        ("symbols", {entry.symbol: entry.actions for entry in statistics.symbols}),
    ):
        table.add_row(name, cell(", ".join(f"{word} {count}" for word, count in counts.items() if count) or "none"))
    table.add_row("refused by controls", str(statistics.control_refusals))
    waits = {"p50": latency.p50, "p95": latency.p95, "p99": latency.p99}
    told = ", ".join(f"{name} {wait:g} ms" for name, wait in waits.items() if wait is not None)
    table.add_row("sent after", cell(told or "nothing was sent"))
    console().print(table)


def show_event(event: Event) -> None:
    """One event on one line."""
    line = Text(f"{event.account_seq:>6}  {told_at(event.occurred_at)}  ")
    if event.broker_order is not None:
        order = event.broker_order
        line.append(f"order   {printable(order.intent_id)}  {printable(order.symbol)}  ")
        line.append_text(state_of(order.status, order.reason))
        line.append(f"  {plain(order.filled_quantity)} of {plain(order.quantity)} filled")
        line.append(f" at {plain(order.average_price)}" if order.average_price is not None else "")
    elif event.intent_action is not None:
        action = event.intent_action
        line.append(f"action  {printable(action.intent_id)}  {action.seq} {printable(action.action_type)}  ")
        line.append_text(state_of(action.state, action.reason))
        if action.unknown is not None:
            line.append(f"  since {told_at(action.unknown.since)}, written {action.unknown.writes}x")
    elif event.broker_trade is not None:
        _add_trade(line, event.broker_trade)
    else:
        _add_account_event(line, event)
    console().print(line, soft_wrap=True)


def _add_trade(line: Text, trade: BrokerTrade) -> None:
    line.append(f"trade   {printable(trade.intent_id)}  {printable(trade.order_side)} {plain(trade.quantity)} ")
    line.append(f"{printable(trade.symbol)} at {plain(trade.price)}  ")
    line.append("" if trade.kind == "NORMAL" else f"{printable(trade.kind)}  ")
    line.append(f"{plain(trade.cumulative_quantity)} filled, {plain(trade.leaves_quantity)} open, ")
    line.append(f"holds {plain(trade.position)}")


def _add_account_event(line: Text, event: Event) -> None:
    """What is about no intent."""
    if event.account_changed is not None:
        account = event.account_changed
        line.append(f"account {printable(', '.join(account.changed) or 'notice')}  version {account.version}  ")
        line.append_text(state_of(f"credential {account.credential_status}", account.reason))
        line.append(f"  expires {told_at(account.expires_at)}" if account.expires_at is not None else "")
    elif event.external_order is not None:
        other = event.external_order
        line.append(f"not ours {printable(other.broker_order_id)}  {printable(other.order_side)} ")
        line.append(f"{printable(other.symbol)}  ")
        line.append_text(state_of(other.status, None))
        line.append(f"  {plain(other.filled_quantity)} filled")
    elif event.position_adjusted is not None:
        held = event.position_adjusted
        line.append(f"holds   {printable(held.symbol)}  {plain(held.after)} instead of {plain(held.before)}  ")
        line.append(printable(held.cause))
    elif event.broker_position is not None:
        line.append(f"holds   {printable(event.broker_position.symbol)}  {plain(event.broker_position.quantity)}")
    elif event.primed is not None:
        line.append("so far  this is what stands; what follows happened after it")
    elif event.control_changed is not None:
        control = event.control_changed
        words = (control.scope, control.subject, control.code, control.change, control.state)
        line.append(f"control {printable(' '.join(word for word in words if word))}")
        line.append(f"  by {printable(control.changed_by)}" if control.changed_by else "")
        line.append(f": {printable(control.reason)}" if control.reason else "")


def order_line(action: Action) -> str:
    """The order in one phrase, such as BUY 10 AAPL LIMIT 187.50 DAY."""
    parts = [action.order_side, plain(action.quantity), action.symbol, action.order_type]
    parts += ["stop " + plain(action.stop_price)] if action.stop_price is not None else []
    parts += [plain(action.limit_price)] if action.limit_price is not None else []
    return " ".join([*parts, action.time_in_force])


def _add_execution(table: Table, execution: Execution) -> None:
    table.add_row("execution", state_of(execution.state, None))
    price = f" at {plain(execution.average_price)}" if execution.average_price is not None else ""
    table.add_row("filled", f"{plain(execution.filled_quantity)}{price}, {plain(execution.leaves_quantity)} open")
    if execution.broker_order_ids:
        table.add_row("broker order", cell(", ".join(execution.broker_order_ids)))
    table.add_row("updated", told_at(execution.updated_at))
    if execution.unknown is not None:
        unknown = execution.unknown
        table.add_row("unknown since", told_at(unknown.since))
        if unknown.flagged_at is not None:
            table.add_row("needs attention", cell(f"since {told_at(unknown.flagged_at)}: {_ATTENTION}"))
        table.add_row("written", "once" if unknown.writes == 1 else f"{unknown.writes} times, with the same id")
        for probe in unknown.probes:
            table.add_row("looked", cell(f"{told_at(probe.at)}, found: {_found(probe.found)}"))
        if unknown.settles_by:
            table.add_row("settles by", cell(unknown.settles_by))


def _found(found: bool | str | None) -> str:
    if isinstance(found, str):
        return found
    return "yes" if found else "nothing"


def state_of(state: str, reason: Reason | None) -> Text:
    """A state, in its colour, with what is to be said about it."""
    text = Text(printable(state), style=_STYLES.get(state, ""))
    if state == "UNKNOWN":
        text.append(f": {_DOUBT}")
    if reason is not None:
        words = " ".join(word for word in (reason.code, reason.broker_code, reason.broker_text) if word)
        text.append(f" ({printable(words)})", style="dim")
    return text


def cell(text: str) -> Text:
    """A text in a table, as it is."""
    # A Text is shown as it is: in a plain string rich would read [brackets] as markup.
    return Text(printable(text))


def told_at(moment: datetime) -> str:
    """A time, in UTC to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")
