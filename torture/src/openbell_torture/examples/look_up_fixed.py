"""Looks at all orders, for the id that it gave, before it sends again under that id."""

import time
import uuid
from typing import Any

from openbell_torture.examples.broker import (
    ENDS,
    QUANTITIES,
    WORKING,
    NoAnswer,
    Refused,
    call,
    market_buy,
    orders,
    place,
    state_what_is_held,
    stop,
)


def find(client_order_id: str) -> dict[str, Any] | None:
    while True:
        try:
            return next((each for each in orders("all") if each["client_order_id"] == client_order_id), None)
        except (NoAnswer, Refused):
            time.sleep(0.05)


def send(order: dict[str, Any]) -> dict[str, Any]:
    named = {**order, "client_order_id": str(uuid.uuid4())}
    while True:
        try:
            call("POST", "/v2/orders", named)
        except (NoAnswer, Refused):
            time.sleep(0.05)
        found = find(named["client_order_id"])
        if found is not None:
            return found


def main() -> None:
    held = 0
    for quantity in QUANTITIES:
        held += int(place(market_buy(quantity), ENDS, send, find)["filled_qty"])
        place(stop(quantity), WORKING, send, find)
        state_what_is_held(held)


if __name__ == "__main__":
    main()
