"""The tables of `openbell watch`."""

from collections.abc import Iterable, Mapping
from decimal import Decimal

from rich.console import Group
from rich.table import Table
from rich.text import Text

from openbell.cli.orders import order_text
from openbell.cli.plain_text import plain, printable
from openbell.cli.tables import cell, state_of
from openbell.events.mirror import Book
from openbell.events.records import BrokerOrder, BrokerTrade, ExternalOrder


def blotter(book: Book, trades: Iterable[BrokerTrade]) -> Group:
    parts = [("Open orders", _orders(book.orders.values())), ("Holds", _positions(book.positions))]
    if book.external_orders:
        parts.append(("Open orders that were not submitted here", _external(book.external_orders.values())))
    parts.append(("Last trades", _trades(trades)))
    shown = [each for title, table in parts for each in (Text(title, style="bold"), table, Text())]
    return Group(*shown, Text(f"After event {book.account_seq}. Press Ctrl-C to stop.", style="dim"))


def _orders(orders: Iterable[BrokerOrder]) -> Table:
    table = _table("intent", "order", "status", "filled", "average", "notices")
    for order in orders:
        prices = " ".join(plain(price) for price in (order.stop_price, order.limit_price) if price is not None)
        terms = f"{order_text(order)} {prices}"
        status = state_of(order.status, order.reason)
        if order.pending and order.pending != "NONE":
            status.append(f", {printable(order.pending)}", style="cyan")
        filled, average = plain(order.filled_quantity), plain(order.average_price)
        table.add_row(cell(order.intent_id), cell(terms), status, filled, average, cell(" ".join(order.notices)))
    return table


def _external(orders: Iterable[ExternalOrder]) -> Table:
    table = _table("at the broker", "order", "status", "filled")
    for order in orders:
        cells = (cell(order.broker_order_id), cell(order_text(order)), state_of(order.status, None))
        table.add_row(*cells, plain(order.filled_quantity))
    return table


def _positions(positions: Mapping[str, Decimal]) -> Table:
    table = _table("symbol", "quantity")
    for symbol, quantity in sorted(positions.items()):
        table.add_row(cell(symbol), Text(plain(quantity), style="red" if quantity < 0 else ""))
    return table


def _trades(trades: Iterable[BrokerTrade]) -> Table:
    table = _table("intent", "trade", "price", "holds")
    for trade in trades:
        done = f"{trade.order_side} {plain(trade.quantity)} {trade.symbol}"
        kind = "" if trade.kind == "NORMAL" else f" {trade.kind}"
        table.add_row(cell(trade.intent_id), cell(done + kind), plain(trade.price), plain(trade.position))
    return table


def _table(*names: str) -> Table:
    return Table(*names, box=None, header_style="dim", pad_edge=False)
