"""Records as tables for people."""

from collections.abc import Iterable
from typing import Final

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from openbell.cli.plain_text import plain, printable, time_text
from openbell.events.records import BrokerTrade, Event
from openbell.models import Action, Execution, Reason, Statistics

# Without a terminal rich cuts columns off at 80 characters; a pipe needs whole ids.
PIPE_WIDTH: Final = 240
_DOUBT: Final = "it is not known yet whether it reached the broker"
_ATTENTION: Final = "it did not settle by itself; an operator must check it"

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
    """Standard output; with colours only on a terminal."""
    screen = Console(highlight=False)
    return screen if screen.is_terminal else Console(highlight=False, width=PIPE_WIDTH)


def facts_table() -> Table:
    """A table with one fact per row: its name and its value."""
    table = Table(box=None, show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def show_actions(actions: Iterable[Action]) -> None:
    table = Table("recorded", "intent", "seq", "action", "order", "status", "reference", box=None, header_style="bold")
    for action in actions:
        table.add_row(
            cell(time_text(action.created_at)),
            Text(printable(action.intent_id), no_wrap=True),
            cell(str(action.seq)),
            cell(action.action_type),
            cell(order_line(action)),
            state_of(action.status, action.reason),
            cell(action.client_reference_id or ""),
        )
    console().print(table)


def show_rows(names: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    """A long cell continues in the next line; it is never cut off."""
    table = Table(*(Column(name, overflow="fold") for name in names), box=None, header_style="bold")
    for row in rows:
        table.add_row(*(cell(text) for text in row))
    if not table.row_count:
        # On the error stream, so that a program that reads the table finds nothing in it.
        typer.echo("There is nothing to list.", err=True)
        return
    console().print(table)


def show_action(action: Action) -> None:
    table = facts_table()
    table.add_row("intent", cell(action.intent_id))
    table.add_row("order", cell(order_line(action)))
    table.add_row("action", cell(f"{action.seq} {action.action_type}, recorded {time_text(action.created_at)}"))
    table.add_row("status", state_of(action.status, action.reason))
    table.add_row("receipt", cell(action.receipt_id))
    if action.client_reference_id:
        table.add_row("reference", cell(action.client_reference_id))
    if action.replayed:
        table.add_row("replayed", "recorded by an earlier request with the same key; nothing new was sent")
    if action.execution is not None:
        _add_execution(table, action.execution)
    console().print(table)


def show_statistics(statistics: Statistics) -> None:
    window, latency = statistics.window, statistics.dispatch_latency_millis
    table = facts_table()
    table.add_row("window", cell(f"{time_text(window.since)} to {time_text(window.until)}"))
    table.add_row("intents", str(statistics.intents))
    for name, counts in (
        ("actions", statistics.actions),
        ("sides", statistics.sides),
        ("outcomes", statistics.outcomes),
        ("symbols", {entry.symbol: entry.actions for entry in statistics.symbols}),
    ):
        table.add_row(name, cell(", ".join(f"{key} {count}" for key, count in counts.items() if count) or "none"))
    table.add_row("refused by controls", str(statistics.control_refusals))
    waits = {"p50": latency.p50, "p95": latency.p95, "p99": latency.p99}
    shown = ", ".join(f"{name} {wait:g} ms" for name, wait in waits.items() if wait is not None)
    table.add_row("sent after", cell(shown or "nothing was sent"))
    console().print(table)


def show_event(event: Event) -> None:
    line = Text(f"{event.account_seq:>6}  {time_text(event.occurred_at)}  ")
    if event.broker_order is not None:
        order = event.broker_order
        line.append(f"order   {printable(order.intent_id)}  {printable(order.symbol)}  ")
        line.append_text(state_of(order.status, order.reason))
        line.append(f"  {plain(order.filled_quantity)} of {plain(order.quantity)} filled")
        line.append(f" at {plain(order.average_price)}" if order.average_price is not None else "")
    elif event.intent_action is not None:
        action = event.intent_action
        line.append(f"action  {printable(action.intent_id)}  {action.seq} {printable(action.action_type)}  ")
        line.append_text(state_of(action.status, action.reason))
        if action.unknown is not None:
            line.append(f"  since {time_text(action.unknown.since)}, written {action.unknown.writes}x")
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
    if event.intent_refused is not None:
        refused = event.intent_refused
        line.append(f"refused {printable(refused.action_type)} {printable(refused.order_side)} ")
        line.append(f"{plain(refused.quantity)} {printable(refused.symbol)} {printable(refused.order_type)}  ")
        line.append(f"by {printable(', '.join(refused.codes))}")
    elif event.account_changed is not None:
        account = event.account_changed
        line.append(f"account {printable(', '.join(account.changed) or 'notice')}  version {account.version}  ")
        line.append_text(state_of(f"credential {account.credential_status}", account.reason))
        line.append(f"  expires {time_text(account.expires_at)}" if account.expires_at is not None else "")
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
    elif event.balances_changed is not None:
        money = event.balances_changed
        amounts = {"cash": money.cash, "equity": money.equity, "buying power": money.buying_power}
        shown = [f"{name} {plain(amount)}" for name, amount in amounts.items() if amount is not None]
        line.append(f"money   {printable(money.currency)}  {', '.join(shown)}")
    elif event.broker_position is not None:
        line.append(f"holds   {printable(event.broker_position.symbol)}  {plain(event.broker_position.quantity)}")
    elif event.primed is not None:
        line.append("so far  this is the current state; later events follow")
    elif event.control_changed is not None:
        control = event.control_changed
        parts = (control.scope, control.subject, control.code, control.change, control.status)
        line.append(f"control {printable(' '.join(filter(None, parts)))}")
        who = " ".join(filter(None, (control.principal_type, control.principal_id)))
        line.append(f"  by {printable(who)}" if who else "")
        line.append(f": {printable(control.reason)}" if control.reason else "")


def order_line(action: Action) -> str:
    """The order in one phrase, such as BUY 10 AAPL LIMIT 187.50 DAY."""
    parts = [action.order_side, plain(action.quantity), action.symbol, action.order_type]
    parts += ["stop " + plain(action.stop_price)] if action.stop_price is not None else []
    parts += [plain(action.limit_price)] if action.limit_price is not None else []
    return " ".join([*parts, action.time_in_force])


def _add_execution(table: Table, execution: Execution) -> None:
    table.add_row("execution", state_of(execution.status, None))
    price = f" at {plain(execution.average_price)}" if execution.average_price is not None else ""
    table.add_row("filled", f"{plain(execution.filled_quantity)}{price}, {plain(execution.leaves_quantity)} open")
    if execution.broker_order_ids:
        table.add_row("broker order", cell(", ".join(execution.broker_order_ids)))
    table.add_row("updated", time_text(execution.updated_at))
    if execution.unknown is not None:
        unknown = execution.unknown
        table.add_row("unknown since", time_text(unknown.since))
        if unknown.flagged_at is not None:
            table.add_row("needs attention", cell(f"since {time_text(unknown.flagged_at)}: {_ATTENTION}"))
        table.add_row("written", "once" if unknown.writes == 1 else f"{unknown.writes} times, with the same id")
        for probe in unknown.probes:
            table.add_row("looked", cell(f"{time_text(probe.at)}, found: {_found(probe.found)}"))
        if unknown.settles_by:
            table.add_row("settles by", cell(unknown.settles_by))


def _found(found: bool | str | None) -> str:
    if isinstance(found, str):
        return found
    return "yes" if found else "nothing"


def state_of(state: str, reason: Reason | None) -> Text:
    """A state in its colour, with its reason."""
    text = Text(printable(state), style=_STYLES.get(state, ""))
    if state == "UNKNOWN":
        text.append(f": {_DOUBT}")
    if reason is not None:
        parts = (reason.code, reason.broker_code, reason.broker_text)
        text.append(f" ({printable(' '.join(filter(None, parts)))})", style="dim")
    return text


def cell(text: str) -> Text:
    # Rich reads [brackets] in a plain string as markup, but not in a Text.
    return Text(printable(text))
