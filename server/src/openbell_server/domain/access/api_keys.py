"""API keys: `ob_<environment>_<cell>_<12 id>_<43 secret>_<6 checksum>` in base62; only a hash is stored."""

import hashlib
import re
import zlib
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.principals import ACCOUNT_EDIT, PERMISSIONS, WEBHOOK_EDIT, WEBHOOK_READ
from openbell_server.domain.errors import InvalidCommand, Problem
from openbell_server.domain.identifiers import AccountId, OrganizationId, base62
from openbell_server.domain.names import check_name

# Names the installation that a key is for, so that a proxy before several can route by it. There is one.
CELL: Final = "0"
ENTROPY_BYTES: Final = 41
# How the text of every key begins.
PREFIX: Final = "ob_"
# Accounts that a key can be limited to, at most.
ACCOUNT_IDS_MAX: Final = 100
# What these permit is of every account of the environment.
_OF_ALL_ACCOUNTS: Final = frozenset({ACCOUNT_EDIT, WEBHOOK_READ, WEBHOOK_EDIT})
_KEY = re.compile(rf"{PREFIX}(paper|live)_{CELL}_([0-9A-Za-z]{{12}})_([0-9A-Za-z]{{43}})_([0-9A-Za-z]{{6}})", re.ASCII)


@dataclass(frozen=True, slots=True)
class PresentedKey:
    """A key from a request, well-formed and with a correct checksum."""

    environment: Environment
    key_id: str
    secret_hash: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    id: str
    key_id: str
    organization_id: OrganizationId
    environment: Environment
    permissions: frozenset[str]
    own_orders_only: bool
    account_ids: frozenset[AccountId] | None
    secret_hash: bytes = field(repr=False)
    disabled: bool
    revoked_at: datetime | None
    expires_at: datetime | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKeyRecord:
    """A key as its organization's admins see it."""

    id: UUID
    key_id: str
    name: str
    environment: Environment
    permissions: tuple[str, ...]
    # Whether it may cancel and replace only orders of intents that it created.
    own_orders_only: bool
    # The only accounts that it may use; None: all of its environment.
    account_ids: tuple[AccountId, ...] | None
    disabled: bool
    revoked_at: datetime | None
    expires_at: datetime | None
    created_at: datetime
    # Up to a minute earlier than the last use; None if it was never used.
    last_used_at: datetime | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewApiKey:
    name: str
    environment: Environment
    permissions: frozenset[str]
    expires_at: datetime | None
    own_orders_only: bool = False
    account_ids: frozenset[AccountId] | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        takes = permissions_for(self.environment)
        if not self.permissions or not self.permissions <= takes:
            message = f"must be one or more of {', '.join(sorted(takes))} for a key of {self.environment} accounts"
            raise InvalidCommand("permissions", message)
        if self.account_ids is None:
            return
        if not 0 < len(self.account_ids) <= ACCOUNT_IDS_MAX:
            raise InvalidCommand("account_ids", f"must be 1 to {ACCOUNT_IDS_MAX} accounts; leave it out for all")
        if wider := sorted(self.permissions & _OF_ALL_ACCOUNTS):
            message = f"must not have {', '.join(wider)}, which no key with account_ids can have"
            raise InvalidCommand("permissions", message)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChange:
    """Changes to a key; None keeps a value."""

    name: str | None = None
    disabled: bool | None = None
    own_orders_only: bool | None = None
    revoked: bool = False

    def __post_init__(self) -> None:
        if self.name is not None:
            check_name(self.name)

    def check(self, record: ApiKeyRecord) -> None:
        """Raises Problem if the key is revoked; revoking it again changes nothing."""
        if record.revoked_at is not None and not self.revoked:
            raise Problem("key_revoked", "the API key is revoked, which is for good")


def permissions_for(environment: Environment) -> frozenset[str]:
    """The permissions that a key may have: control edits only of its own environment."""
    others = tuple(f":{other}" for other in Environment if other is not environment)
    return frozenset(permission for permission in PERMISSIONS if not permission.endswith(others))


def _checksum(text: str) -> str:
    return base62(zlib.crc32(text.encode()), 6)


def mint(environment: Environment, entropy: bytes) -> tuple[str, PresentedKey]:
    """A new key from random bytes: its text, shown once, and the part that is stored."""
    assert len(entropy) == ENTROPY_BYTES
    key_id = base62(int.from_bytes(entropy[:9]) % 62**12, 12)
    secret = base62(int.from_bytes(entropy[9:]) % 62**43, 43)
    body = f"{PREFIX}{environment}_{CELL}_{key_id}_{secret}"
    return f"{body}_{_checksum(body)}", PresentedKey(environment, key_id, hashlib.sha256(secret.encode()).digest())


def read(text: str) -> PresentedKey | None:
    """The key in a header, or None if it is malformed; the checksum is checked before any look-up."""
    match = _KEY.fullmatch(text)
    if match is None or _checksum(text[:-7]) != match[4]:
        return None
    return PresentedKey(Environment(match[1]), match[2], hashlib.sha256(match[3].encode()).digest())
