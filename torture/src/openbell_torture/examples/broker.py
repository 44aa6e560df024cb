"""The least that a bot needs of Alpaca, with nothing but the standard library."""

import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

TIMEOUT_SECONDS = 1.0
QUANTITIES = range(1, 11)
SYMBOL = "AAPL"
ENDS = {"filled", "canceled", "expired", "rejected"}
WORKING = {"new", "partially_filled"}
# A broker may take an order and reject it later: it is then sent again, as an order of its own.
ATTEMPTS = 20


Order = dict[str, Any]


class NoAnswer(Exception):
    """The request may have been done or not."""


class Rejected(Exception):
    """The broker rejected every attempt."""


class Refused(Exception):
    """It was not done."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status} {message}")
        self.status = status


def call(method: str, path: str, body: dict[str, Any] | None = None) -> Any:  # noqa: ANN401 - JSON
    request = urllib.request.Request(  # noqa: S310 - an address of this machine
        os.environ["APCA_API_BASE_URL"] + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "APCA-API-KEY-ID": os.environ["APCA_API_KEY_ID"],
            "APCA-API-SECRET-KEY": os.environ["APCA_API_SECRET_KEY"],
            "Content-Type": "application/json",
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310 - the same address
            return json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        if error.code >= 500:
            raise NoAnswer(f"{error.code}") from error
        raise Refused(error.code, error.read().decode()) from error
    except OSError as trouble:
        raise NoAnswer(str(trouble)) from trouble


def market_buy(quantity: int) -> dict[str, Any]:
    return {"symbol": SYMBOL, "qty": str(quantity), "side": "buy", "type": "market", "time_in_force": "day"}


def stop(quantity: int) -> dict[str, Any]:
    return {
        "symbol": SYMBOL,
        "qty": str(quantity),
        "side": "sell",
        "type": "stop",
        "stop_price": "5.00",
        "time_in_force": "gtc",
    }


def orders(status: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = call("GET", f"/v2/orders?{urllib.parse.urlencode({'status': status, 'limit': 500})}")
    return listed


def order_with_id(client_order_id: str) -> dict[str, Any] | None:
    query = urllib.parse.urlencode({"client_order_id": client_order_id})
    try:
        found: dict[str, Any] = call("GET", f"/v2/orders:by_client_order_id?{query}")
    except Refused as refused:
        if refused.status == 404:
            return None
        raise
    return found


def place(order: Order, wanted: set[str], send: Callable[[Order], Order], find: Callable[[str], Order | None]) -> Order:
    """The order in one of these states. Sent again if it is rejected."""
    for _ in range(ATTEMPTS):
        placed = send(order)
        while placed["status"] not in wanted | ENDS:
            time.sleep(0.2)
            placed = find(placed["client_order_id"]) or placed
        if placed["status"] != "rejected":
            return placed
    raise Rejected


def state_what_is_held(held: int) -> None:
    """For openbell-torture, which compares it with what the broker has."""
    path = os.environ.get("OPENBELL_TORTURE_BELIEF")
    if path:
        Path(path).write_text(json.dumps({SYMBOL: held}), encoding="utf-8")
