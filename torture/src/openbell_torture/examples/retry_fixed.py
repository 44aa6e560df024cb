"""Gives every order an id before sending it, looks it up without an answer, and sends it again under that id."""

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
    order_with_id,
    place,
    state_what_is_held,
    stop,
)


def send(order: dict[str, Any]) -> dict[str, Any]:
    """The order as the broker has it. The broker refuses a second order with the same id."""
    named = {**order, "client_order_id": str(uuid.uuid4())}
    while True:
        try:
            placed: dict[str, Any] = call("POST", "/v2/orders", named)
        except (NoAnswer, Refused):
            found = find(named["client_order_id"])
            if found is not None:
                return found
            time.sleep(0.05)
        else:
            return placed


def find(client_order_id: str) -> dict[str, Any] | None:
    while True:
        try:
            return order_with_id(client_order_id)
        except (NoAnswer, Refused):
            time.sleep(0.05)


def main() -> None:
    held = 0
    for quantity in QUANTITIES:
        held += int(place(market_buy(quantity), ENDS, send, find)["filled_qty"])
        place(stop(quantity), WORKING, send, find)
        state_what_is_held(held)


if __name__ == "__main__":
    main()
