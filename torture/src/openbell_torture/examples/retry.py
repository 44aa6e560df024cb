"""Sends an order again until there is an answer. So does every client with automatic retries."""

import time
from typing import Any

from openbell_torture.examples.broker import QUANTITIES, NoAnswer, Refused, call, market_buy, state_what_is_held, stop


def place(order: dict[str, Any]) -> None:
    while True:
        try:
            call("POST", "/v2/orders", order)
        except (NoAnswer, Refused):
            time.sleep(0.05)
        else:
            return


def main() -> None:
    held = 0
    for quantity in QUANTITIES:
        place(market_buy(quantity))
        held += quantity
        place(stop(quantity))
        state_what_is_held(held)


if __name__ == "__main__":
    main()
