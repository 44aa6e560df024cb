"""Signed opaque positions: page cursors and resume tokens, bound to a scope."""

import base64
import binascii
import hashlib
import hmac
import zlib
from collections.abc import Mapping
from typing import Final
from uuid import UUID

_SIGNATURE_BYTES: Final = 12
_NUMBER_BYTES: Final = 8
# A number that does not fit is a UUID.
_ID_BYTES: Final = 16
_ROW_BYTES: Final = _ID_BYTES + _NUMBER_BYTES


def _signature(key: bytes, scope: str, number: bytes) -> bytes:
    return hmac.digest(key, scope.encode() + b"\0" + number, hashlib.sha256)[:_SIGNATURE_BYTES]


def seal(key: bytes, scope: str, number: int) -> str:
    """The number as a token that opens only with the same key and scope."""
    raw = number.to_bytes(_NUMBER_BYTES if number.bit_length() <= 8 * _NUMBER_BYTES else _ID_BYTES)
    return base64.urlsafe_b64encode(raw + _signature(key, scope, raw)).rstrip(b"=").decode()


def unseal(key: bytes, scope: str, token: str) -> int | None:
    """The number, or None for a token that is not valid for this key and scope."""
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    if len(raw) - _SIGNATURE_BYTES not in (_NUMBER_BYTES, _ID_BYTES):
        return None
    number = int.from_bytes(raw[:-_SIGNATURE_BYTES])
    # Compare the whole text: base64 has several spellings of the same bytes, and only one is accepted.
    return number if hmac.compare_digest(seal(key, scope, number).encode(), token.encode()) else None


def seal_many(key: bytes, scope: str, numbers: Mapping[UUID, int]) -> str:
    """Numbers by id as a token that opens only with the same key and scope."""
    # All ids first, then all numbers: similar bytes side by side compress better.
    ids = b"".join(each.bytes for each in numbers)
    raw = zlib.compress(ids + b"".join(number.to_bytes(_NUMBER_BYTES) for number in numbers.values()))
    return base64.urlsafe_b64encode(_signature(key, scope, raw) + raw).rstrip(b"=").decode()


def unseal_many(key: bytes, scope: str, token: str, count_max: int) -> dict[UUID, int] | None:
    """The numbers, or None for a token that is not valid for this key and scope."""
    try:
        sealed = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    signature, raw = sealed[:_SIGNATURE_BYTES], sealed[_SIGNATURE_BYTES:]
    # Check the signature before decompressing.
    if not hmac.compare_digest(_signature(key, scope, raw), signature):
        return None
    rows = zlib.decompressobj().decompress(raw, count_max * _ROW_BYTES)
    count = len(rows) // _ROW_BYTES
    numbers = rows[count * 16 :]
    return {
        UUID(bytes=rows[at * 16 : at * 16 + 16]): int.from_bytes(numbers[at * _NUMBER_BYTES : (at + 1) * _NUMBER_BYTES])
        for at in range(count)
    }
