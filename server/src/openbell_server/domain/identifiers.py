"""Typed ids, how they are generated, and the ids derived from them."""

import hashlib
import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final, NewType
from uuid import UUID

from openbell_exchange.terms import SYMBOL_PATTERN as SYMBOL_PATTERN
from openbell_exchange.terms import Symbol as Symbol
from openbell_exchange.terms import canonical_symbol as canonical_symbol

OrganizationId = NewType("OrganizationId", UUID)
AccountId = NewType("AccountId", UUID)
IntentId = NewType("IntentId", UUID)
ActionId = NewType("ActionId", UUID)
ReceiptId = NewType("ReceiptId", UUID)

SLOTS: Final = 64
BASE62: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
CLIENT_ORDER_ID_LENGTH: Final = 22
# An executor needs the id of an order several times within seconds.
IDS_CACHED_MAX: Final = 16_384
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Later times do not fit a datetime.
_MILLISECONDS_MAX: Final = 253_000_000_000_000
_PLAIN = re.compile(r"[A-Z0-9]+")
_CLASS = re.compile(r"([A-Z0-9]+)[./-]([A-Z]{1,2})")


def base62(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, digit = divmod(number, 62)
        digits.append(BASE62[digit])
    assert number == 0, "number does not fit the length"
    return "".join(reversed(digits))


def uuid7(milliseconds: int, entropy: bytes) -> UUID:
    """A UUIDv7: 48 bits of time first, so that index order is time order; entropy is 10 random bytes."""
    random = int.from_bytes(entropy[:10])
    value = (milliseconds & (1 << 48) - 1) << 80
    value |= 0x7 << 76 | (random >> 68) << 64
    value |= 0b10 << 62 | random & (1 << 62) - 1
    return UUID(int=value)


def created_at(uuid: UUID) -> datetime:
    """The time in a UUIDv7; of another UUID, some time."""
    return _EPOCH + timedelta(milliseconds=min(uuid.int >> 80, _MILLISECONDS_MAX))


def keyed_action_id(action_id: ActionId, account_id: AccountId, key: str, command_hash: bytes) -> ActionId:
    """The id with its random part replaced by a digest of the command and its Idempotency-Key.

    If a restored database lacks the command, the same command under the same key is recognised by this part of the id,
    because the broker has it in the client order id.
    """
    digest = hashlib.sha256(account_id.bytes + command_hash + key.encode()).digest()
    return ActionId(uuid7(action_id.int >> 80, digest))


@lru_cache(IDS_CACHED_MAX)
def client_order_id(action_id: ActionId) -> str:
    """The id sent to the broker. It is derived, so no process must store it."""
    return base62(action_id.int, CLIENT_ORDER_ID_LENGTH)


@lru_cache(IDS_CACHED_MAX)
def action_of(order_id: str) -> ActionId | None:
    """The action behind a client order id, or None for an id that Openbell did not make."""
    if len(order_id) != CLIENT_ORDER_ID_LENGTH or not all(digit in BASE62 for digit in order_id):
        return None
    number = 0
    for digit in order_id:
        number = number * 62 + BASE62.index(digit)
    return ActionId(UUID(int=number)) if number < 1 << 128 else None


def slot_of(account_id: AccountId) -> int:
    """The slot of an account; it never changes."""
    return int.from_bytes(hashlib.sha256(account_id.bytes).digest()[:8]) % SLOTS


def share_class_symbol(text: str, mark: str) -> Symbol | None:
    """The canonical spelling at a broker of shares only, which writes a share class with `mark`: BRK.B or BRK/B."""
    symbol = canonical_symbol(text)
    if symbol is None or _PLAIN.fullmatch(symbol):
        return symbol
    parts = _CLASS.fullmatch(symbol)
    return None if parts is None else Symbol(f"{parts[1]}{mark}{parts[2]}")
