"""The command `openbell watch`: open orders, positions and the last trades of an account, as they change."""

import contextlib
import json
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Final

import typer

from openbell.cli.options import Account, Json, Key, Stream, Url, client_for
from openbell.cli.outcomes import told_plainly

if TYPE_CHECKING:
    from openbell.event_records import BrokerTrade, Event
    from openbell.mirror import Book
    from openbell.subscriptions import EventOptions

TRADES_SHOWN: Final = 8


def watch(
    over_sse: Annotated[bool, typer.Option("--sse", help="Over HTTP, also where gRPC is installed.")] = False,
    account: Account = None,
    stream: Stream = None,
    url: Url = None,
    api_key: Key = None,
    as_json: Json = False,
) -> None:
    """Show an account's open orders and what it holds, and keep them current until Ctrl-C."""
    options: EventOptions = {"start": "primed", "transport": "sse" if over_sse else None}
    with (
        told_plainly(as_json=as_json),
        client_for(url, api_key, account, stream) as client,
        contextlib.suppress(KeyboardInterrupt),
    ):
        from openbell.cli.tables import console

        screen = console()
        if as_json:
            for book, _ in _books(client.events(**options)):
                typer.echo(_line(book))
        elif not screen.is_terminal:
            raise ValueError("This needs a terminal: say --json, or follow with `openbell events tail --from primed`.")
        else:
            from rich.live import Live

            from openbell.cli.blotter import blotter

            with Live(console=screen, screen=True) as live:
                for book, trades in _books(client.events(**options)):
                    live.update(blotter(book, trades))


def _books(events: "Iterator[Event]") -> "Iterator[tuple[Book, Iterable[BrokerTrade]]]":
    """The book after every event from the moment on that it is whole, and the last trades, the newest first."""
    from openbell.mirror import Book

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
    return json.dumps({"account_seq": book.account_seq, "orders": orders, "external_orders": others, "positions": held})
