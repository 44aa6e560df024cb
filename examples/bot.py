"""A bot that trades an account to its target positions. It may be killed at any moment.

    python examples/bot.py AAPL=30 MSFT=20

It waits until no order is working, reads the positions, orders the difference, and checks again. It stores no state of
its own: after a restart it orders only what is still missing.
"""

import sys
from decimal import Decimal

from openbell import Client, Market


def missing(client: Client, target: dict[str, Decimal]) -> dict[str, Decimal]:
    """The quantity to buy of each symbol; negative: to sell."""
    # A bot that was killed may have left orders. The final positions are known only when those have ended.
    for order in client.orders(status="WORKING"):
        client.wait(order.intent_id)
    held = {position.symbol: position.quantity for position in client.positions().data}
    left = {symbol: wanted - held.get(symbol, Decimal(0)) for symbol, wanted in target.items()}
    return {symbol: quantity for symbol, quantity in left.items() if quantity}


def run(client: Client, target: dict[str, Decimal]) -> None:
    """Order what is missing until the account holds the target."""
    while orders := missing(client, target):
        for symbol, quantity in orders.items():
            side = client.buy if quantity > 0 else client.sell
            intent = side(symbol, Market(abs(quantity)))
            done = client.wait(intent.intent_id)
            order = done.execution
            if order is None or order.status != "FILLED":
                sys.exit(f"{symbol} {quantity:+} was not filled: {done.reason}")
            print(f"{symbol} {quantity:+}: filled at {order.average_price}", flush=True)
    print("holds what it should", flush=True)


if __name__ == "__main__":
    wanted = (argument.split("=") for argument in sys.argv[1:])
    with Client() as connected:
        run(connected, {symbol: Decimal(quantity) for symbol, quantity in wanted})
