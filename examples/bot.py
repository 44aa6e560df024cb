"""A bot that brings an account to what it should hold, and may be killed at any moment.

    python examples/bot.py AAPL=30 MSFT=-20

It waits until nothing works at the broker, looks at what the account holds, orders the difference, and looks again. It
keeps nothing of its own: started again, it orders what is still missing, and nothing twice.
"""

import sys
from decimal import Decimal

from openbell import Client, Market


def missing(client: Client, target: dict[str, Decimal]) -> dict[str, Decimal]:
    """What has to be bought of each symbol; sold where it is less than nothing."""
    # One that was killed may have left orders. Until they have ended, nobody can say what the account will hold.
    for order in client.orders(status="WORKING"):
        client.wait(order.intent_id)
    held = {position.symbol: position.quantity for position in client.positions().data}
    left = {symbol: wanted - held.get(symbol, Decimal(0)) for symbol, wanted in target.items()}
    return {symbol: quantity for symbol, quantity in left.items() if quantity}


def run(client: Client, target: dict[str, Decimal]) -> None:
    """Order what is missing until nothing is."""
    while orders := missing(client, target):
        for symbol, quantity in orders.items():
            side = client.buy if quantity > 0 else client.sell
            intent = side(symbol, Market(abs(quantity)))
            done = client.wait(intent.intent_id)
            order = done.execution
            if order is None or order.state != "FILLED":
                sys.exit(f"{symbol} {quantity:+} was not filled: {done.reason}")
            print(f"{symbol} {quantity:+}: filled at {order.average_price}", flush=True)
    print("holds what it should", flush=True)


if __name__ == "__main__":
    wanted = (word.split("=") for word in sys.argv[1:])
    with Client() as connected:
        run(connected, {symbol: Decimal(quantity) for symbol, quantity in wanted})
