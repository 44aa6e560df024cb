"""The commands under `openbell orders`, `openbell executions` and `openbell positions`, and `openbell balances`."""

from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from openbell.cli.calls import Call, connected
from openbell.cli.options import (
    Account,
    AllAccounts,
    AtMost,
    OfIntent,
    OldestFirst,
    OnlySymbol,
    group,
    intent_id,
    list_order,
    moment_of,
)
from openbell.cli.outcomes import REFUSED
from openbell.cli.plain_text import plain, time_text
from openbell.intents.orders import Side

if TYPE_CHECKING:
    from openbell.events.records import BrokerOrder, ExternalOrder
    from openbell.intents.order_lists import Balances, OrderStatus

app = group("The current state of orders.")
executions_app = group("Executions of orders.")
positions_app = group("Positions of an account.")

_about_account = connected(account=Account)
OfCost = Annotated[
    Literal["AVERAGE", "FIFO"] | None,
    typer.Option(help="What closed units cost: as all on average (the default), or as the oldest."),
]


@connected(token=True)
def overview(call: Call) -> None:
    """Show what is going on in every account: open and unknown orders, executions of the last minute, halts."""
    call.show_table(
        call.client.overview(),
        ("account", "name", "switch", "open", "unknown", "executions a minute", "oldest waits since"),
        lambda each: (
            each.account_id,
            each.name,
            each.halt_code or ("DISABLED" if each.disabled else each.switch),
            str(each.open_orders),
            str(each.unknown_orders),
            str(each.executions_last_minute),
            time_text(each.oldest_queued_at) if each.oldest_queued_at else "",
        ),
    )


@app.command(name="list")
@_about_account
def list_orders(
    call: Call,
    working: Annotated[bool, typer.Option("--working", help="Only orders that are not final.")] = False,
    closed: Annotated[bool, typer.Option("--closed", help="Only orders that are final.")] = False,
    unknown: Annotated[bool, typer.Option("--unknown", help="Only orders whose state is unknown.")] = False,
    symbol: OnlySymbol = None,
    side: Annotated[Side | None, typer.Option("--side", help="Only this side.", case_sensitive=False)] = None,
    intent: OfIntent = None,
    all_accounts: AllAccounts = False,
    oldest_first: OldestFirst = False,
    limit: AtMost = None,
) -> None:
    """List orders of the account, by default the newest first."""
    if working and closed:
        raise ValueError("An order is either working or closed: leave out --working or --closed.")
    status: OrderStatus | None = "WORKING" if working else "CLOSED" if closed else None
    found = call.client.orders(
        status=status,
        certainty="UNKNOWN" if unknown else None,
        symbol=symbol,
        order_side=side,
        intent_id=intent,
        all_accounts=all_accounts,
        order=list_order(oldest_first=oldest_first),
    )
    call.show_table(
        islice(found, limit),
        (
            "asked for",
            *(["account"] if all_accounts else []),
            "intent",
            "order",
            "status",
            "filled",
            "average",
            "reason",
        ),
        lambda order: (
            time_text(order.created_at),
            *([order.account_id] if all_accounts else []),
            order.intent_id,
            order_text(order),
            order.status,
            plain(order.filled_quantity),
            plain(order.average_price),
            order.reason.code if order.reason else "",
        ),
    )


@app.command()
@connected(account=Account, key=False, token=True)
def cancel(
    call: Call,
    intents: Annotated[
        list[str], typer.Argument(metavar="INTENT...", help="The ids of the intents.", parser=intent_id)
    ],
) -> None:
    """Cancel orders with an access token; with an API key use `openbell intents cancel`."""
    results = call.client.cancel_orders(intents)
    call.show_table(
        results,
        ("intent", "recorded as", "not recorded because"),
        lambda each: (each.intent_id, each.action_id or "", each.detail or ""),
    )
    if any(each.action_id is None for each in results):
        raise typer.Exit(REFUSED)


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
    intent: OfIntent = None,
    symbol: OnlySymbol = None,
    since: Annotated[str | None, typer.Option("--since", help="Only recorded then or later.")] = None,
    until: Annotated[str | None, typer.Option("--until", help="Only recorded before then.")] = None,
    all_accounts: AllAccounts = False,
    oldest_first: OldestFirst = False,
    limit: AtMost = None,
) -> None:
    """List the current state of executions, by default the newest first; a bust has quantity 0."""
    found = call.client.executions(
        intent_id=intent,
        symbol=symbol,
        since=moment_of("--since", since),
        until=moment_of("--until", until),
        all_accounts=all_accounts,
        order=list_order(oldest_first=oldest_first),
    )
    call.show_table(
        islice(found, limit),
        (
            "executed",
            *(["account"] if all_accounts else []),
            "intent",
            "execution",
            "side",
            "quantity",
            "symbol",
            "price",
            "fee",
            "kind",
        ),
        lambda each: (
            time_text(each.executed_at),
            *([each.account_id] if all_accounts else []),
            each.intent_id,
            each.execution_id,
            each.order_side,
            plain(each.quantity),
            each.symbol,
            plain(each.price),
            plain(each.fee),
            each.kind,
        ),
    )


@positions_app.command(name="list")
@_about_account
def list_positions(call: Call, cost_method: OfCost = None) -> None:
    """List the positions of the account with their cost and value, and their source."""
    held = call.client.positions(cost_method=cost_method)
    if call.as_json:
        typer.echo(held.to_json())
        return
    call.show_table(
        held.data,
        ("symbol", "quantity", "average cost", "price", "value", "unrealized", "realized", "currency"),
        lambda each: (
            each.symbol,
            plain(each.quantity),
            plain(each.average_cost),
            plain(each.market_price),
            plain(each.market_value),
            plain(each.unrealized),
            _profit(each.realized, is_complete=each.profit_complete),
            each.currency or "",
        ),
    )
    source = (
        f"the broker's positions of {time_text(held.as_of)} plus later executions"
        if held.as_of
        else "the sum of executions"
    )
    typer.echo(f"After event {held.account_seq}; {source}.{'' if held.complete else ' There are more.'}")


@positions_app.command(name="profit")
@_about_account
def list_profit(
    call: Call,
    symbol: OnlySymbol = None,
    by: Annotated[
        Literal["SYMBOL_AND_DAY", "DAY", "SYMBOL"], typer.Option(help="What one row is about.")
    ] = "SYMBOL_AND_DAY",
    since: Annotated[str | None, typer.Option(help="A time of the first day; by default 30 days ago.")] = None,
    until: Annotated[str | None, typer.Option(help="A time of the last day; by default now.")] = None,
    timezone: Annotated[str | None, typer.Option(help="The zone of the days; by default the account's.")] = None,
    cost_method: OfCost = None,
    oldest_first: OldestFirst = False,
    limit: AtMost = None,
) -> None:
    """List what the trades of each day brought, before fees; a star marks sums that lack an unknown price or fee."""
    rows = call.client.profit(
        symbol=symbol,
        group_by=by,
        since=moment_of("--since", since),
        until=moment_of("--until", until),
        timezone=timezone,
        cost_method=cost_method,
        order=list_order(oldest_first=oldest_first),
    )
    call.show_table(
        islice(rows, limit),
        ("day", "symbol", "realized", "fees", "bought", "sold", "trades", "currency"),
        lambda each: (
            "" if each.day is None else each.day.isoformat(),
            each.symbol or "",
            _profit(each.realized, is_complete=each.profit_complete),
            plain(each.fees),
            plain(each.bought_value),
            plain(each.sold_value),
            str(each.trades),
            each.currency or "",
        ),
    )


@_about_account
def balances(call: Call) -> None:
    """Show the account's cash, equity, buying power and margin, as its broker reported them."""
    call.show(call.client.balances(), _print_balances)


def _print_balances(found: "Balances") -> None:
    from openbell.cli.tables import show_rows

    amounts = {
        "cash": found.cash,
        "equity": found.equity,
        "buying power": found.buying_power,
        "initial margin": found.initial_margin,
        "maintenance margin": found.maintenance_margin,
    }
    rows = [(name, "not reported" if amount is None else plain(amount)) for name, amount in amounts.items()]
    show_rows(("balance", found.currency or ""), rows)
    as_of = f"as of {time_text(found.as_of)}" if found.as_of else "not read from it yet: repeat this in a few seconds"
    typer.echo(f"At {found.broker}, {as_of}.")


@positions_app.command(name="changes")
@_about_account
def list_position_changes(
    call: Call, symbol: OnlySymbol = None, oldest_first: OldestFirst = False, limit: AtMost = None
) -> None:
    """List each change of the account's positions and its cause, by default the newest first."""
    call.show_table(
        islice(call.client.position_changes(symbol, order=list_order(oldest_first=oldest_first)), limit),
        ("changed", "symbol", "change", "position", "cause", "intent"),
        lambda each: (
            time_text(each.changed_at),
            each.symbol,
            plain(each.change),
            plain(each.quantity),
            each.cause,
            each.intent_id or "",
        ),
    )


def _profit(realized: Decimal | None, *, is_complete: bool) -> str:
    return plain(realized) + ("" if is_complete or realized is None else "*")


def order_text(order: "BrokerOrder | ExternalOrder") -> str:
    return f"{order.order_side} {plain(order.quantity)} {order.symbol} {order.order_type}"
