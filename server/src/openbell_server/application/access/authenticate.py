"""Turn an API key or an access token into a caller."""

import hmac
import re
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeVar

from openbell_server.application.access.ports.access_tokens import AccessTokens, TokenCaller, TokenCallerStore
from openbell_server.application.access.ports.api_key_records import KeyStore
from openbell_server.domain.access import api_keys
from openbell_server.domain.access.principals import Caller, PrincipalKind
from openbell_server.domain.errors import Problem

CACHE_SECONDS: Final = 0.9
CACHE_ROWS_MAX: Final = 10_000
_BEARER: Final = re.compile(r"bearer +([^ ]+)", re.IGNORECASE)
# The secret of an unknown key is compared with this, so that unknown and known keys take the same time.
_NO_HASH: Final = bytes(32)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Credential:
    """The one credential of a request; repr shows neither field."""

    api_key: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)


def read_credential(api_keys_sent: Sequence[str], authorizations: Sequence[str]) -> Credential:
    """Raises Problem if a request sends more than one."""
    if len(api_keys_sent) + len(authorizations) > 1:
        raise Problem("ambiguous_credentials", "more than one credential was sent")
    if api_keys_sent:
        return Credential(api_key=api_keys_sent[0])
    bearer = _BEARER.fullmatch(authorizations[0]) if authorizations else None
    return Credential(token=bearer[1]) if bearer else Credential()


@dataclass(slots=True)
class _Recent:
    """Caches rows by key for less than a second, so that a change takes effect within one."""

    monotonic: Callable[[], float]
    _rows: dict[Hashable, tuple[float, Any]] = field(default_factory=dict)

    async def get(self, key: Hashable, read: Callable[[], Awaitable[T]], age_seconds_max: float) -> T:
        now = self.monotonic()
        cached = self._rows.get(key)
        if cached is not None and now - cached[0] < age_seconds_max:
            row: T = cached[1]
            return row
        row = await read()
        if len(self._rows) >= CACHE_ROWS_MAX:
            self._rows.clear()
        # The time before the read: the row may be that old already.
        self._rows[key] = (now, row)
        return row


class Authenticate:
    """Raises the same 401 for every invalid credential, so that the answer does not show what is wrong with it."""

    def __init__(
        self,
        keys: KeyStore,
        token_callers: TokenCallerStore,
        tokens: AccessTokens,
        monotonic: Callable[[], float],
        now: Callable[[], datetime],
        note_use: Callable[[str], None],
    ) -> None:
        self._keys = keys
        self._token_callers = token_callers
        self._tokens = tokens
        self._now = now
        self._note_use = note_use
        self._recent = _Recent(monotonic)

    async def __call__(self, credential: Credential, age_seconds_max: float = CACHE_SECONDS) -> Caller:
        """The caller as the database had it at most age_seconds_max ago."""
        if credential.api_key is not None:
            return await self._by_key(credential.api_key, age_seconds_max)
        if credential.token is not None and credential.token.startswith(api_keys.PREFIX):
            raise Problem("unauthenticated", "an API key was sent as a bearer token; send it in the header x-api-key")
        if credential.token is not None:
            return await self._by_token(credential.token, age_seconds_max)
        raise _unauthenticated()

    async def find_key(self, text: str, age_seconds_max: float = CACHE_SECONDS) -> api_keys.ApiKey:
        """The key, also a disabled one; unknown, wrong, revoked and expired keys all raise 401 after the same steps."""
        presented = api_keys.read(text)
        if presented is None:
            raise _unauthenticated()
        key = await self._recent.get(
            presented.key_id, lambda: self._keys.find_key_across_organizations(presented.key_id), age_seconds_max
        )
        is_right = hmac.compare_digest(key.secret_hash if key else _NO_HASH, presented.secret_hash)
        if (
            key is None
            or not is_right
            or key.environment is not presented.environment
            or key.revoked_at is not None
            or (key.expires_at is not None and key.expires_at <= self._now())
        ):
            raise _unauthenticated()
        if not key.disabled:
            self._note_use(key.key_id)
        return key

    async def _by_key(self, text: str, age_seconds_max: float) -> Caller:
        key = await self.find_key(text, age_seconds_max)
        if key.disabled:
            raise Problem("key_disabled", "this API key is disabled")
        return Caller(
            kind=PrincipalKind.API_KEY,
            id=key.id,
            organization_id=key.organization_id,
            environment=key.environment,
            permissions=key.permissions,
            own_orders_only=key.own_orders_only,
            account_ids=key.account_ids,
        )

    async def _by_token(self, token: str, age_seconds_max: float) -> Caller:
        claims = await self._tokens.verify(token)
        if claims is None:
            raise _unauthenticated()
        who = (claims.provider, claims.subject, claims.organization)

        async def read() -> TokenCaller:
            return await self._token_callers.find_caller_across_organizations(*who)

        known = await self._recent.get(who, read, age_seconds_max)
        if known.is_denied:
            raise _unauthenticated()
        is_user = claims.kind is PrincipalKind.USER
        return Caller(
            kind=claims.kind,
            id=claims.subject,
            provider=claims.provider,
            # A service account acts in the organization that its request names; the token's one is ignored.
            organization_id=known.organization_id if is_user else None,
            external_organization_id=claims.organization if is_user else None,
            internal=is_user and known.is_internal,
            permissions=claims.scopes if not is_user else frozenset(),
            role=claims.role if is_user else None,
        )


def _unauthenticated() -> Problem:
    return Problem("unauthenticated", "no valid credential was sent")
