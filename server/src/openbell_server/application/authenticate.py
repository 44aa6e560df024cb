"""API key → principal."""

import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from openbell_server.application.ports.stores import KeyStore
from openbell_server.domain import api_keys
from openbell_server.domain.errors import Problem
from openbell_server.domain.principals import Principal

CACHE_SECONDS: Final = 0.9
CACHE_KEYS_MAX: Final = 10_000


@dataclass(slots=True)
class Authenticate:
    """Turns a presented key into a principal; keys are cached for under a second, so that a change acts within one."""

    keys: KeyStore
    monotonic: Callable[[], float]
    now: Callable[[], datetime]
    _cache: dict[str, tuple[float, api_keys.ApiKey | None]] = field(default_factory=dict)

    async def __call__(self, presented_text: str | None) -> Principal:
        """The caller, or 401 with the same answer for every way a key can be wrong."""
        presented = api_keys.read(presented_text) if presented_text else None
        if presented is None:
            raise Problem("unauthenticated", "no valid API key was sent")
        key = await self._find(presented.key_id)
        if (
            key is None
            or not hmac.compare_digest(key.secret_hash, presented.secret_hash)
            or key.revoked_at is not None
            or (key.expires_at is not None and key.expires_at <= self.now())
        ):
            raise Problem("unauthenticated", "no valid API key was sent")
        if key.disabled:
            raise Problem("key_disabled", "this API key is disabled")
        return Principal(
            kind="API_KEY",
            id=key.id,
            organization_id=key.organization_id,
            environment=key.environment,
            permissions=key.permissions,
        )

    async def _find(self, key_id: str) -> api_keys.ApiKey | None:
        now = self.monotonic()
        cached = self._cache.get(key_id)
        if cached is not None and now - cached[0] < CACHE_SECONDS:
            return cached[1]
        key = await self.keys.find_key_across_organizations(key_id)
        if len(self._cache) >= CACHE_KEYS_MAX:
            self._cache.clear()
        # Stamped with the time before the look-up: what was read may be that old already.
        self._cache[key_id] = (now, key)
        return key
