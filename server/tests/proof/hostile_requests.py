"""Requests that no program should send: of any route, with wrong values, broken JSON and any bytes, by number."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from support.rest.alpaca_front import LIMIT

_TEXTS: Final = (
    "", " ", "0", "-1", "1e999", "-0", "NaN", "Infinity", "٣", "1_000", "0x10", "1,5", "null", "true", "a" * 5000,
    "\x00", "\ud800", "\u202e", "'; drop table orders; --", "../../etc/passwd", "%00", "AAPL\n", "🚀" * 50,
    "00000000-0000-0000-0000-000000000000", "2026-13-45T99:99:99Z", "9999-12-31T23:59:59.999999999Z",
)  # fmt: skip
_NUMBERS: Final = (0, -1, 1, 10**18, 10**40, 2**63, -(2**63), 0.1, 1e308, -1e-308, 5e-324, float("inf"), float("nan"))
_RAW: Final = (
    b"",
    b"{",
    b"[]",
    b"null",
    b'"x"',
    b"\xff\xfe",
    b'{"qty":1,"qty":2}',
    b"[" * 5000,
    b'{"a":' * 900,
    b"\x00",
)
_NAMES: Final = (
    "symbol", "qty", "side", "type", "time_in_force", "limit_price", "stop_price", "client_order_id",
    "extended_hours", "order_class", "notional", "legs", "trail_percent", "take_profit", "", "__proto__", "a" * 300,
)  # fmt: skip
_PARAMETERS: Final = (
    "status",
    "limit",
    "after",
    "until",
    "direction",
    "symbols",
    "side",
    "nested",
    "client_order_id",
    "x",
)
_ROUTES: Final = (
    *(("POST", "/orders"),) * 8,
    *(("PATCH", "/orders/{}"),) * 4,
    ("DELETE", "/orders/{}"),
    ("DELETE", "/orders"),
    *(("GET", "/orders"),) * 4,
    *(("GET", "/orders:by_client_order_id"),) * 2,
    ("GET", "/orders/{}"),
    ("GET", "/account"),
    ("GET", "/positions/{}"),
    ("DELETE", "/positions"),
    ("GET", "/assets/{}"),
    ("GET", "/clock"),
    ("PUT", "/orders"),
    ("GET", "/{}"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    params: dict[str, str]
    content: bytes


def request_of(number: int, order_ids: Sequence[UUID]) -> Request:
    """The same for the same number."""
    chance = random.Random(f"hostile request {number}")
    method, path = chance.choice(_ROUTES)
    params = {name: _text(chance) for name in chance.sample(_PARAMETERS, chance.choice((0, 0, 1, 2)))}
    return Request(method, path.format(_segment(chance, order_ids)), params, _content(chance))


def _segment(chance: random.Random, order_ids: Sequence[UUID]) -> str:
    if chance.random() < 0.6:
        return str(chance.choice(order_ids))
    return "".join(letter for letter in _text(chance)[:300] if letter.isascii() and letter.isalnum()) or "x"


def _content(chance: random.Random) -> bytes:
    if chance.random() < 0.2:
        return chance.choice(_RAW)
    body: dict[str, Any] = dict(LIMIT) if chance.random() < 0.8 else {}
    for name in chance.choices(_NAMES, k=chance.randint(1, 3)):
        body[name] = _value(chance, 0)
    for name in chance.choices(list(body), k=chance.randint(0, 2)):
        body.pop(name, None)
    content = json.dumps(body).encode()
    return content[: chance.randrange(len(content))] if chance.random() < 0.05 else content


def _value(chance: random.Random, depth: int) -> object:
    kind = chance.randrange(6 if depth < 3 else 4)
    if kind == 0:
        return chance.choice(_NUMBERS)
    if kind == 1:
        return chance.choice((True, False, None))
    if kind in (2, 3):
        return chance.choice(_TEXTS)
    if kind == 4:
        return [_value(chance, depth + 1) for _ in range(chance.randint(0, 3))]
    return {chance.choice(_NAMES): _value(chance, depth + 1)}


def _text(chance: random.Random) -> str:
    # A URL is UTF-8.
    return chance.choice(_TEXTS).encode("utf-8", "replace").decode()
