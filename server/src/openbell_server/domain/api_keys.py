"""API keys: `ob_<environment>_<12 id>_<43 secret>_<6 checksum>`, all base62; only a hash is ever stored."""

import hashlib
import re
import zlib
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from openbell_server.domain.accounts import Environment
from openbell_server.domain.identifiers import OrganizationId, base62

CELL: Final = "00"
ENTROPY_BYTES: Final = 40
_KEY = re.compile(r"ob_(paper|live)_([0-9A-Za-z]{12})_([0-9A-Za-z]{43})_([0-9A-Za-z]{6})", re.ASCII)


@dataclass(frozen=True, slots=True)
class PresentedKey:
    """A key as a caller sent it, well-formed and with a right checksum; the secret masks itself."""

    environment: Environment
    key_id: str
    secret_hash: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key as stored."""

    id: str
    key_id: str
    organization_id: OrganizationId
    environment: Environment
    permissions: frozenset[str]
    secret_hash: bytes = field(repr=False)
    disabled: bool
    revoked_at: datetime | None
    expires_at: datetime | None


def _checksum(text: str) -> str:
    return base62(zlib.crc32(text.encode()), 6)


def mint(environment: Environment, entropy: bytes) -> tuple[str, PresentedKey]:
    """A new key from 40 random bytes: its text, shown once, and what is stored of it."""
    assert len(entropy) == ENTROPY_BYTES
    key_id = CELL + base62(int.from_bytes(entropy[:8]) % 62**10, 10)
    secret = base62(int.from_bytes(entropy[8:]) % 62**43, 43)
    body = f"ob_{environment}_{key_id}_{secret}"
    return f"{body}_{_checksum(body)}", PresentedKey(environment, key_id, hashlib.sha256(secret.encode()).digest())


def read(text: str) -> PresentedKey | None:
    """The key in a header, or None if it cannot be one; the checksum is tried before any look-up."""
    match = _KEY.fullmatch(text)
    if match is None or _checksum(text[:-7]) != match[4]:
        return None
    return PresentedKey(Environment(match[1]), match[2], hashlib.sha256(match[3].encode()).digest())
