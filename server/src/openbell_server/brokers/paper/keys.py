"""Which keys the paper broker accepts: the key id determines the result, so that each can be tested."""

import base64
import binascii
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import quote, unquote

KEY_REFUSED: Final = "key_refused"
KEY_EXPIRED: Final = "key_expired"
_OF_ACCOUNT: Final = re.compile(r"ACCT-([0-9A-Za-z]{1,32})(-.*)?", re.DOTALL)
_UNTIL: Final = re.compile(r"UNTIL-([0-9]{4}-[0-9]{2}-[0-9]{2})(-.*)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Key:
    key_id: str
    secret: str

    def __repr__(self) -> str:
        return f"Key({self.key_id!r}, ***)"


@dataclass(frozen=True, slots=True)
class KeyTerms:
    """What an accepted key is valid for."""

    external_account_id: str | None = None
    expires_at: datetime | None = None


def judge(key: Key, now: datetime) -> KeyTerms | str:
    """The terms of the key, or the code of the refusal."""
    if key.key_id.startswith("WRONG") or key.secret.lower() == "wrong":
        return KEY_REFUSED
    if key.key_id.startswith("EXPIRED"):
        return KEY_EXPIRED
    if found := _OF_ACCOUNT.fullmatch(key.key_id):
        return KeyTerms(external_account_id=found[1])
    if found := _UNTIL.fullmatch(key.key_id):
        try:
            # Valid until the end of that day.
            expires_at = datetime.fromisoformat(found[1]).replace(tzinfo=UTC) + timedelta(days=1)
        except (ValueError, OverflowError):
            return KEY_REFUSED
        return KeyTerms(expires_at=expires_at) if now < expires_at else KEY_EXPIRED
    return KeyTerms()


def signature(key: Key) -> str:
    """The Authorization header; the key id may contain a colon, so it is percent-encoded."""
    return "Basic " + base64.b64encode(f"{quote(key.key_id, safe='')}:{key.secret}".encode()).decode()


def key_of(header: str) -> Key | None:
    """None if the header cannot be parsed."""
    scheme, _, encoded = header.partition(" ")
    try:
        key_id, colon, secret = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return None
    key = Key(unquote(key_id), secret)
    return key if scheme == "Basic" and colon and key.key_id.isprintable() and key.key_id else None
