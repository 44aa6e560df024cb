"""Strict JSON: UTF-8, unique keys, no NUL, no NaN, at most 32 levels, so that all parsers read the same value."""

import json
import re
from typing import Any, Final

DEPTH_MAX: Final = 32
# From here on a float cannot represent every whole number.
_WHOLE_MAX: Final = 2**53
# NUL, which PostgreSQL cannot store, and lone surrogates, which have no UTF-8 encoding.
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
    """A whole number is an int however it is written: JSON has one number type, so 1.0 equals 1."""
    number = float(text)
    return int(number) if number.is_integer() and abs(number) < _WHOLE_MAX else number


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def decode(body: bytes) -> object:
    """Raises ValueError with the reason if the body is not strict JSON."""
    try:
        decoded = json.loads(
            body.decode(), object_pairs_hook=_once, parse_constant=_refuse_constant, parse_float=_number
        )
    except RecursionError:
        raise ValueError(f"it is more than {DEPTH_MAX} levels deep") from None
    # A text can hold NUL or a surrogate only after an escape, and depth needs as many brackets: skip the walk
    # otherwise.
    if b"\\u" in body or body.count(b"{") + body.count(b"[") > DEPTH_MAX:
        _refuse_unstorable(decoded)
    return decoded
