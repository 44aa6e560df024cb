"""Looks at the open orders before it sends again. A market order that has filled is not among them."""

import time
from typing import Any

from openbell_torture.examples.broker import (
    QUANTITIES,
    NoAnswer,
    Refused,
    call,
    market_buy,
    orders,
    state_what_is_held,
    stop,
)


def is_there(order: dict[str, Any]) -> bool:
    return any(
        all(listed[name] == order[name] for name in ("symbol", "qty", "side", "type")) for listed in orders("open")
    )


def place(order: dict[str, Any]) -> None:
    while True:
        try:
            call("POST", "/v2/orders", order)
        except NoAnswer:
            if is_there(order):
                return
        except Refused:
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
