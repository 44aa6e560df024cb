"""Strict JSON: UTF-8, each key once, no NUL, no NaN, 32 levels; two readers of one text can never disagree."""

import json
import re
from typing import Any, Final

DEPTH_MAX: Final = 32
# Beyond it a float no longer tells whole numbers apart.
_WHOLE_MAX: Final = 2**53
# NUL, which PostgreSQL cannot store, and halves of characters, which nobody can encode.
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    decoded: dict[str, Any] = {}
    for name, value in pairs:
        if name in decoded:
            raise ValueError(f"the key {json.dumps(name[:64])} occurs twice in one object")
        decoded[name] = value
    return decoded


def _refuse_unstorable(decoded: object, level: int = 1) -> None:
    if isinstance(decoded, str):
        if _UNSTORABLE.search(decoded):
            raise ValueError("a text contains NUL or half a character")
    elif isinstance(decoded, dict | list):
        if level > DEPTH_MAX:
            raise ValueError(f"it is more than {DEPTH_MAX} levels deep")
        inside = [*decoded, *decoded.values()] if isinstance(decoded, dict) else decoded
        for each in inside:
            _refuse_unstorable(each, level + 1)


def _number(text: str) -> int | float:
    """A whole number is whole however it is written: 1.0 is 1 to every reader of JSON."""
    number = float(text)
    return int(number) if number.is_integer() and abs(number) < _WHOLE_MAX else number


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def decode(body: bytes) -> object:
    """What the text says, or a ValueError that says why it cannot be read."""
    try:
        decoded = json.loads(
            body.decode(), object_pairs_hook=_once, parse_constant=_refuse_constant, parse_float=_number
        )
    except RecursionError:
        raise ValueError(f"it is more than {DEPTH_MAX} levels deep") from None
    # Without an escape no text can have what is looked for, and without so many brackets none is so deep.
    if b"\\u" in body or body.count(b"{") + body.count(b"[") > DEPTH_MAX:
        _refuse_unstorable(decoded)
    return decoded
