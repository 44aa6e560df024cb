"""The command `openbell watch`: open orders, positions and the last trades of an account, as they change."""

import contextlib
import json
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import typer

from openbell.cli.calls import Call, connected
from openbell.cli.events import OverSse
from openbell.cli.options import Account
from openbell.json_lines import json_line

if TYPE_CHECKING:
    from openbell.events.mirror import Book
    from openbell.events.records import BrokerTrade, Event
    from openbell.events.subscriptions import EventOptions

TRADES_SHOWN: Final = 8


@connected(account=Account, stream=True)
def watch(call: Call, over_sse: OverSse = False) -> None:
    """Show an account's open orders and positions, and update them until Ctrl-C."""
    from openbell.cli.tables import console

    options: EventOptions = {"start": "PRIMED", "transport": "sse" if over_sse else None}
    screen = console()
    with contextlib.suppress(KeyboardInterrupt):
        if call.as_json:
            for book, _ in _books(call.client.events(**options)):
                typer.echo(_line(book))
        elif not screen.is_terminal:
            raise ValueError("This needs a terminal: add --json, or use `openbell events tail --from primed`.")
        else:
            from rich.live import Live

            from openbell.cli.blotter import blotter

            with Live(console=screen, screen=True) as live:
                for book, trades in _books(call.client.events(**options)):
                    live.update(blotter(book, trades))


def _books(events: "Iterator[Event]") -> "Iterator[tuple[Book, Iterable[BrokerTrade]]]":
    """The book after each event, once it is complete, and the last trades, the newest first."""
    from openbell.events.mirror import Book

    book, trades = Book(), deque["BrokerTrade"](maxlen=TRADES_SHOWN)
    for event in events:
        book.apply(event)
        if event.broker_trade is not None:
            trades.appendleft(event.broker_trade)
        if book.is_primed:
            yield book, trades


def _line(book: "Book") -> str:
    orders = [json.loads(order.to_json()) for order in book.orders.values()]
    others = [json.loads(order.to_json()) for order in book.external_orders.values()]
    held = {symbol: format(quantity, "f") for symbol, quantity in book.positions.items()}
    return json_line({"account_seq": book.account_seq, "orders": orders, "external_orders": others, "positions": held})
