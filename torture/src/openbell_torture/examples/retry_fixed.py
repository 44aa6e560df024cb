"""Gives every order an id before sending it, looks it up without an answer, and sends it again under that id."""

import time
import uuid
from typing import Any

from openbell_torture.examples.broker import (
    ATTEMPTS,
    ENDS,
    QUANTITIES,
    WORKING,
    NoAnswer,
    Refused,
    Rejected,
    call,
    market_buy,
    order_with_id,
    state_what_is_held,
    stop,
)


def place(order: dict[str, Any], wanted: set[str]) -> dict[str, Any]:
    """The order in one of these states. Sent again if it is rejected."""
    for _ in range(ATTEMPTS):
        placed = send(order)
        while placed["status"] not in wanted | ENDS:
            time.sleep(0.2)
            placed = find(placed["client_order_id"]) or placed
        if placed["status"] != "rejected":
            return placed
    raise Rejected


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
        held += int(place(market_buy(quantity), ENDS)["filled_qty"])
        place(stop(quantity), WORKING)
        state_what_is_held(held)


if __name__ == "__main__":
    main()
