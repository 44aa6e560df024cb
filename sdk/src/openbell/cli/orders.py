"""The commands under `openbell orders`, `openbell executions` and `openbell positions`."""

from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from openbell.cli.options import Account, Json, Key, Url, client_for, moment_of
from openbell.cli.outcomes import told_plainly
from openbell.cli.plain_text import plain
from openbell.orders import Side

if TYPE_CHECKING:
    from collections.abc import Iterable

    from openbell.order_lists import Order, OrderStatus

app = typer.Typer(help="Orders of intents as they stand.", no_args_is_help=True, rich_markup_mode=None)
executions_app = typer.Typer(help="What was executed.", no_args_is_help=True, rich_markup_mode=None)
positions_app = typer.Typer(help="What an account holds.", no_args_is_help=True, rich_markup_mode=None)

Symbol = Annotated[str | None, typer.Option("--symbol", help="Only of this symbol.")]
AtMost = Annotated[int | None, typer.Option("--limit", min=1, help="At most so many.")]


@app.command(name="list")
def list_orders(
    working: Annotated[bool, typer.Option("--working", help="Only those that are not over.")] = False,
    closed: Annotated[bool, typer.Option("--closed", help="Only those that are over.")] = False,
    symbol: Symbol = None,
    side: Annotated[Side | None, typer.Option("--side", help="Only of this side.", case_sensitive=False)] = None,
    limit: AtMost = None,
    account: Account = None,
    url: Url = None,
    api_key: Key = None,
    as_json: Json = False,
) -> None:
    """List the orders of the account, in the order they were asked for."""
    with told_plainly(as_json=as_json), client_for(url, api_key, account) as client:
        if working and closed:
            raise ValueError("An order is either working or closed: leave one of them out.")
        status: OrderStatus | None = "WORKING" if working else "CLOSED" if closed else None
        found = islice(client.orders(status=status, symbol=symbol, order_side=side), limit)
        _show_orders(found, as_json=as_json)


@app.command()
def show(
    intent_id: Annotated[str, typer.Argument(metavar="INTENT", help="The intent's id.")],
    account: Account = None,
    url: Url = None,
    api_key: Key = None,
    as_json: Json = False,
) -> None:
    """Show the order of an intent."""
    with told_plainly(as_json=as_json), client_for(url, api_key, account) as client:
        _show_orders([client.order(intent_id)], as_json=as_json)


@app.command()
def external(
    limit: AtMost = None, account: Account = None, url: Url = None, api_key: Key = None, as_json: Json = False
) -> None:
    """List orders at the broker that nobody asked for here."""
    with told_plainly(as_json=as_json), client_for(url, api_key, account) as client:
        found = islice(client.external_orders(), limit)
        if as_json:
            for order in found:
                typer.echo(order.to_json())
            return
        from openbell.cli.tables import show_rows

        show_rows(
            ("accepted", "at the broker", "order", "status", "filled"),
            (
                (
                    _at(order.accepted_at),
                    order.broker_order_id,
                    f"{order.order_side} {plain(order.quantity)} {order.symbol} {order.order_type}",
                    order.status,
                    plain(order.filled_quantity),
                )
                for order in found
            ),
        )


@executions_app.command(name="list")
def list_executions(
    intent: Annotated[str | None, typer.Option("--intent", help="Only of this intent.")] = None,
    symbol: Symbol = None,
    since: Annotated[str | None, typer.Option("--since", help="Only recorded then or later.")] = None,
    until: Annotated[str | None, typer.Option("--until", help="Only recorded before then.")] = None,
    limit: AtMost = None,
    account: Account = None,
    url: Url = None,
    api_key: Key = None,
    as_json: Json = False,
) -> None:
    """List executions as they stand, in the order they were recorded; a bust has the quantity 0."""
    with told_plainly(as_json=as_json), client_for(url, api_key, account) as client:
        bounds = {"since": moment_of("--since", since), "until": moment_of("--until", until)}
        found = islice(
            client.executions(intent_id=intent, symbol=symbol, since=bounds["since"], until=bounds["until"]), limit
        )
        if as_json:
            for execution in found:
                typer.echo(execution.to_json())
            return
        from openbell.cli.tables import show_rows

        show_rows(
            ("executed", "intent", "execution", "side", "quantity", "symbol", "price", "kind"),
            (
                (
                    _at(each.executed_at),
                    each.intent_id,
                    each.execution_id,
                    each.order_side,
                    plain(each.quantity),
                    each.symbol,
                    plain(each.price),
                    each.kind,
                )
                for each in found
            ),
        )


@positions_app.command(name="list")
def list_positions(account: Account = None, url: Url = None, api_key: Key = None, as_json: Json = False) -> None:
    """List what the account holds, and whose word that is."""
    with told_plainly(as_json=as_json), client_for(url, api_key, account) as client:
        held = client.positions()
        if as_json:
            typer.echo(held.to_json())
            return
        from openbell.cli.tables import show_rows

        rows = [(each.symbol, plain(each.quantity), _at(each.updated_at)) for each in held.data]
        show_rows(("symbol", "quantity", "since"), rows)
        whose = (
            f"the broker's word of {_at(held.as_of)}, moved by executions" if held.as_of else "counted from executions"
        )
        typer.echo(f"After event {held.account_seq}; {whose}.{'' if held.is_complete else ' There are more.'}")


def _show_orders(orders: "Iterable[Order]", *, as_json: bool) -> None:
    if as_json:
        for order in orders:
            typer.echo(order.to_json())
        return
    from openbell.cli.tables import show_rows

    show_rows(
        ("asked for", "intent", "order", "status", "filled", "average", "reason"),
        (
            (
                _at(order.created_at),
                order.intent_id,
                f"{order.order_side} {plain(order.quantity)} {order.symbol} {order.order_type}",
                order.status,
                plain(order.filled_quantity),
                plain(order.average_price),
                order.reason.code if order.reason else "",
            )
            for order in orders
        ),
    )


def _at(moment: datetime) -> str:
    from openbell.cli.tables import told_at

    return told_at(moment)
