"""Looks at all orders, for the id that it gave, before it sends again under that id."""

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
    orders,
    state_what_is_held,
    stop,
)


def find(client_order_id: str) -> dict[str, Any] | None:
    while True:
        try:
            return next((each for each in orders("all") if each["client_order_id"] == client_order_id), None)
        except (NoAnswer, Refused):
            time.sleep(0.05)


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
        held += int(place(market_buy(quantity), ENDS)["filled_qty"])
        place(stop(quantity), WORKING)
        state_what_is_held(held)


if __name__ == "__main__":
    main()
