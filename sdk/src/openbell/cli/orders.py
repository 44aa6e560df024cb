"""The commands under `openbell orders`, `openbell executions` and `openbell positions`."""

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from openbell.cli.calls import Call, connected
from openbell.cli.options import Account, AtMost, OnlySymbol, group, moment_of
from openbell.cli.plain_text import plain, time_text
from openbell.intents.orders import Side

if TYPE_CHECKING:
    from collections.abc import Iterable

    from openbell.events.records import BrokerOrder, ExternalOrder
    from openbell.intents.order_lists import Order, OrderStatus

app = group("The current state of orders.")
executions_app = group("Executions of orders.")
positions_app = group("Positions of an account.")

_about_account = connected(account=Account)


@app.command(name="list")
@_about_account
def list_orders(
    call: Call,
    working: Annotated[bool, typer.Option("--working", help="Only orders that are not final.")] = False,
    closed: Annotated[bool, typer.Option("--closed", help="Only orders that are final.")] = False,
    symbol: OnlySymbol = None,
    side: Annotated[Side | None, typer.Option("--side", help="Only this side.", case_sensitive=False)] = None,
    limit: AtMost = None,
) -> None:
    """List the orders of the account, in the order of their intents."""
    if working and closed:
        raise ValueError("An order is either working or closed: leave out --working or --closed.")
    status: OrderStatus | None = "WORKING" if working else "CLOSED" if closed else None
    _show_orders(call, islice(call.client.orders(status=status, symbol=symbol, order_side=side), limit))


@app.command()
@_about_account
def show(call: Call, intent_id: Annotated[str, typer.Argument(metavar="INTENT", help="The intent's id.")]) -> None:
    """Show the order of an intent."""
    _show_orders(call, [call.client.order(intent_id)])


@app.command()
@_about_account
def external(call: Call, limit: AtMost = None) -> None:
    """List orders at the broker that were not submitted through Openbell."""
    call.show_table(
        islice(call.client.external_orders(), limit),
        ("accepted", "at the broker", "order", "status", "filled"),
        lambda order: (
            time_text(order.accepted_at),
            order.broker_order_id,
            order_text(order),
            order.status,
            plain(order.filled_quantity),
        ),
    )


@executions_app.command(name="list")
@_about_account
def list_executions(
    call: Call,
    intent: Annotated[str | None, typer.Option("--intent", help="Only this intent.")] = None,
    symbol: OnlySymbol = None,
    since: Annotated[str | None, typer.Option("--since", help="Only recorded then or later.")] = None,
    until: Annotated[str | None, typer.Option("--until", help="Only recorded before then.")] = None,
    limit: AtMost = None,
) -> None:
    """List the current state of executions, in the order they were recorded; a bust has quantity 0."""
    first, last = moment_of("--since", since), moment_of("--until", until)
    call.show_table(
        islice(call.client.executions(intent_id=intent, symbol=symbol, since=first, until=last), limit),
        ("executed", "intent", "execution", "side", "quantity", "symbol", "price", "kind"),
        lambda each: (
            time_text(each.executed_at),
            each.intent_id,
            each.execution_id,
            each.order_side,
            plain(each.quantity),
            each.symbol,
            plain(each.price),
            each.kind,
        ),
    )


@positions_app.command(name="list")
@_about_account
def list_positions(call: Call) -> None:
    """List the positions of the account, and their source."""
    held = call.client.positions()
    if call.as_json:
        typer.echo(held.to_json())
        return
    call.show_table(
        held.data,
        ("symbol", "quantity", "since"),
        lambda each: (each.symbol, plain(each.quantity), time_text(each.updated_at)),
    )
    source = (
        f"the broker's positions of {time_text(held.as_of)} plus later executions"
        if held.as_of
        else "the sum of executions"
    )
    typer.echo(f"After event {held.account_seq}; {source}.{'' if held.complete else ' There are more.'}")


def order_text(order: "BrokerOrder | ExternalOrder") -> str:
    return f"{order.order_side} {plain(order.quantity)} {order.symbol} {order.order_type}"


def _show_orders(call: Call, orders: "Iterable[Order]") -> None:
    call.show_table(
        orders,
        ("asked for", "intent", "order", "status", "filled", "average", "reason"),
        lambda order: (
            time_text(order.created_at),
            order.intent_id,
            order_text(order),
            order.status,
            plain(order.filled_quantity),
            plain(order.average_price),
            order.reason.code if order.reason else "",
        ),
    )
