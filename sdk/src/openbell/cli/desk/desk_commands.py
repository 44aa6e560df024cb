"""The commands that cancel all orders or close a position, under `openbell orders` and `openbell positions`."""

from itertools import islice
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

import typer

from openbell.cli.calls import Call, connected
from openbell.cli.options import Account, AtMost, IdempotencyKey, OnlySymbol, Symbol, Yes, intent_id
from openbell.cli.outcomes import OUTCOME_UNKNOWN, REFUSED, interrupted_as_unknown
from openbell.cli.plain_text import plain, time_text

if TYPE_CHECKING:
    from openbell.intents.desk_commands import DeskCommand

ForDesk = Annotated[bool, typer.Option("--wait", help="Wait for the end and print the outcome of each order.")]
DeskSeconds = Annotated[float, typer.Option("--wait-seconds", min=0, help="The longest time that --wait waits.")]


@connected(account=Account, token=True)
def cancel_all(
    call: Call,
    symbol: OnlySymbol = None,
    api_key_id: Annotated[
        str | None, typer.Option("--api-key-id", help="Only orders that this API key created, by its id.")
    ] = None,
    idempotency_key: IdempotencyKey = None,
    wait: ForDesk = False,
    wait_seconds: DeskSeconds = 30.0,
) -> None:
    """Cancel every open order of the account; controls never refuse it."""
    key = uuid4().hex if idempotency_key is None else idempotency_key
    with interrupted_as_unknown(key):
        command = call.client.cancel_all(symbol=symbol, api_key_id=api_key_id, idempotency_key=key)
    _end_desk_command(call, command, wait_seconds if wait else None)


@connected(account=Account, token=True)
def close_position(
    call: Call,
    symbol: Symbol,
    idempotency_key: IdempotencyKey = None,
    yes: Yes = False,
    wait: ForDesk = False,
    wait_seconds: DeskSeconds = 30.0,
) -> None:
    """Cancel the open orders of a symbol, then place one market order for the position that is left."""
    call.confirm_live(f"close the position in {symbol}", yes=yes)
    key = uuid4().hex if idempotency_key is None else idempotency_key
    with interrupted_as_unknown(key):
        command = call.client.close_position(symbol, idempotency_key=key)
    _end_desk_command(call, command, wait_seconds if wait else None)


@connected(account=Account, token=True)
def list_desk_commands(call: Call, limit: AtMost = None) -> None:
    """List commands that cancelled all orders or closed a position, the newest first."""
    call.show_table(
        islice(call.client.desk_commands(), limit),
        ("asked for", "command", "type", "symbol", "orders", "status", "reason"),
        lambda each: (
            time_text(each.created_at),
            each.id,
            each.type,
            each.symbol or "",
            str(each.orders),
            each.status,
            each.reason or "",
        ),
    )


@connected(account=Account, token=True)
def show_desk_command(
    call: Call, command_id: Annotated[str, typer.Argument(metavar="ID", help="The command's id.", parser=intent_id)]
) -> None:
    """Show a command that cancelled all orders or closed a position, with the outcome of each order."""
    command = call.client.desk_command(command_id)
    _show_desk_command(call, command)
    _show_desk_orders(call, command)


def _end_desk_command(call: Call, command: "DeskCommand", wait_seconds: float | None) -> None:
    """Print the command; after a wait, also the outcome per order. Exits with REFUSED if a position was not closed,
    and with OUTCOME_UNKNOWN if the command has not ended.
    """
    # The command is recorded, so its id is shown also if the wait fails.
    try:
        command = command if wait_seconds is None else call.client.wait_for_desk_command(command.id, wait_seconds)
    finally:
        _show_desk_command(call, command)
    if wait_seconds is None:
        return
    _show_desk_orders(call, command)
    if not command.is_ended:
        raise typer.Exit(OUTCOME_UNKNOWN)
    if command.status == "FAILED":
        raise typer.Exit(REFUSED)


def _show_desk_command(call: Call, command: "DeskCommand") -> None:
    closing = f"closing order {command.closing_intent_id}" if command.closing_intent_id else ""
    parts = (f"{command.type} {command.id}: {command.status}", f"{command.orders} orders", command.reason or "")
    call.show_line(command, ", ".join(part for part in (*parts, command.detail or "", closing) if part))


def _show_desk_orders(call: Call, command: "DeskCommand") -> None:
    call.show_table(
        call.client.desk_orders(command.id),
        ("intent", "symbol", "outcome", "filled", "cancels", "last cancel"),
        lambda each: (
            each.intent_id,
            each.symbol,
            each.outcome,
            plain(each.filled_quantity),
            str(each.cancels),
            each.cancel_reason or "",
        ),
    )
