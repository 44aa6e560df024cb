"""A bot that trades an account to its target positions. It may be killed at any moment.

    python examples/bot.py AAPL=30 MSFT=20

It waits until no order of these symbols is working, reads the positions, orders the difference, and checks again. It
stores no state of its own: after a restart it orders only what is still missing. It ends if an order rests.
"""

import sys
from decimal import Decimal

from openbell import Action, Client, Market, NotFinal

WAIT_SECONDS = 30.0


def missing(client: Client, target: dict[str, Decimal]) -> dict[str, Decimal]:
    """The quantity to buy of each symbol; negative: to sell."""
    # A bot that was killed may have left orders. The final positions are known only when those have ended.
    for order in client.orders(status="WORKING"):
        if order.symbol in target:
            end_of(client, order.intent_id, f"{order.order_side} {order.leaves_quantity} {order.symbol}")
    held = {position.symbol: position.quantity for position in client.positions().data}
    left = {symbol: wanted - held.get(symbol, Decimal(0)) for symbol, wanted in target.items()}
    return {symbol: quantity for symbol, quantity in left.items() if quantity}


def end_of(client: Client, intent_id: str, name: str) -> Action:
    """Wait until the order has ended; end the program if it rests, because it may still change the position."""
    print(f"{name}: waiting up to {WAIT_SECONDS:g} s until it has ended", flush=True)
    try:
        return client.wait(intent_id, WAIT_SECONDS)
    except NotFinal:
        sys.exit(f"{name} still works. Start again when it has ended, or first: openbell intents cancel {intent_id}")


def run(client: Client, target: dict[str, Decimal]) -> None:
    """Order what is missing until the account holds the target."""
    while orders := missing(client, target):
        for symbol, quantity in orders.items():
            side = client.buy if quantity > 0 else client.sell
            intent = side(symbol, Market(abs(quantity)))
            done = end_of(client, intent.intent_id, f"{symbol} {quantity:+}")
            order = done.execution
            if order is None or order.status != "FILLED":
                sys.exit(f"{symbol} {quantity:+} was not filled: {done.reason}")
            print(f"{symbol} {quantity:+}: filled at {order.average_price}", flush=True)
    print("holds what it should", flush=True)


if __name__ == "__main__":
    wanted = (argument.split("=") for argument in sys.argv[1:])
    with Client() as connected:
        run(connected, {symbol.upper(): Decimal(quantity) for symbol, quantity in wanted})
