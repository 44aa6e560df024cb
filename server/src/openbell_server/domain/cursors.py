"""Opaque signed positions: page cursors and resume tokens, bound to what they were given for."""

import base64
import binascii
import hashlib
import hmac
from typing import Final

_SIGNATURE_BYTES: Final = 12
_NUMBER_BYTES: Final = 8


def _signature(key: bytes, scope: str, number: bytes) -> bytes:
    return hmac.digest(key, scope.encode() + b"\0" + number, hashlib.sha256)[:_SIGNATURE_BYTES]


def seal(key: bytes, scope: str, number: int) -> str:
    """The number as a token that only opens with the same key and scope."""
    raw = number.to_bytes(_NUMBER_BYTES)
    return base64.urlsafe_b64encode(raw + _signature(key, scope, raw)).rstrip(b"=").decode()


def unseal(key: bytes, scope: str, token: str) -> int | None:
    """The number, or None for anything that is not ours or is for another scope."""
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    if len(raw) != _NUMBER_BYTES + _SIGNATURE_BYTES:
        return None
    number = int.from_bytes(raw[:_NUMBER_BYTES])
    # The whole text is compared: base64 has several spellings of the same bytes, and only ours is ours.
    return number if hmac.compare_digest(seal(key, scope, number).encode(), token.encode()) else None
