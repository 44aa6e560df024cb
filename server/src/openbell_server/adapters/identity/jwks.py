"""The public keys of an issuer, fetched from its JWKS address.

Keys are refreshed after ten minutes. While the provider is unavailable, its last keys remain valid until they are an
hour old. Whatever callers send, the provider gets at most one request in thirty seconds.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import httpx
import jwt
import structlog
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from openbell_server.domain import strict_json
from openbell_server.domain.access.access_tokens import Issuer
from openbell_server.domain.errors import Problem

FETCH_SECONDS: Final = 2.0
BYTES_MAX: Final = 256 * 1024
FRESH_SECONDS: Final = 600.0
STALE_SECONDS: Final = 3600.0
REFRESH_SECONDS: Final = 30.0
# Shorter keys are weak; longer ones only cost time.
RSA_BITS: Final = range(2048, 8192 + 1)
# (kty, crv) → the only algorithm allowed for such a key, and its required members
_ALGORITHMS: Final = {
    ("RSA", None): ("RS256", ("n", "e")),
    ("EC", "P-256"): ("ES256", ("x", "y")),
    ("OKP", "Ed25519"): ("EdDSA", ("x",)),
}


class IssuerKeys:
    """The keys of one issuer by id, fetched on first use."""

    def __init__(self, issuer: Issuer, client: httpx.AsyncClient, monotonic: Callable[[], float]) -> None:
        self._issuer = issuer
        self._client = client
        self._monotonic = monotonic
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fetched_at: float | None = None
        # Whether the last fetch failed.
        self._is_away = False
        self._asked_at = 0.0
        self._fetching: asyncio.Task[None] | None = None

    async def find(self, key_id: str) -> jwt.PyJWK | None:
        """None if the issuer has no such key; Problem if it may have one, but does not answer."""
        if key_id not in self._keys or not self._younger_than(FRESH_SECONDS):
            await self._refresh()
        is_known = key_id in self._keys or not self._is_away
        if not is_known or not self._younger_than(STALE_SECONDS):
            raise Problem("unavailable", "the keys of the identity provider cannot be fetched; try again")
        return self._keys.get(key_id)

    def _younger_than(self, seconds: float) -> bool:
        return self._fetched_at is not None and self._monotonic() - self._fetched_at < seconds

    async def _refresh(self) -> None:
        now = self._monotonic()
        if self._fetching is None or (self._fetching.done() and now - self._asked_at >= REFRESH_SECONDS):
            self._asked_at = now
            self._fetching = asyncio.create_task(self._fetch())
        # A caller that disconnects must not cancel the fetch: others wait for it, and the next one is only allowed
        # later.
        await asyncio.shield(self._fetching)

    async def _fetch(self) -> None:
        try:
            # One deadline for the whole fetch: with a timeout per read a slow provider could take forever.
            async with asyncio.timeout(FETCH_SECONDS):
                self._keys = read_keys(await self._download())
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, ValueError) as trouble:
            structlog.get_logger().warning("keys_not_fetched", issuer=self._issuer.name, error=repr(trouble))
            self._is_away = True
            return
        self._is_away = False
        # Use the time before the fetch, because the keys may already be that old.
        self._fetched_at = self._asked_at

    async def _download(self) -> bytes:
        # No compression: a small body could expand to a large one.
        headers = {"accept": "application/json", "accept-encoding": "identity"}
        body = bytearray()
        async with self._client.stream(
            "GET", self._issuer.jwks_address, headers=headers, timeout=None, follow_redirects=False
        ) as response:
            if response.status_code != httpx.codes.OK:
                raise ValueError(f"the provider answered {response.status_code}")
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > BYTES_MAX:
                    raise ValueError(f"the key set is larger than {BYTES_MAX} bytes")
        return bytes(body)


def read_keys(body: bytes) -> dict[str, jwt.PyJWK]:
    """The usable keys of a JWKS document by id; ValueError if it is not one.

    Skips keys that we cannot use, and every key whose id occurs twice, because the id would be ambiguous.
    """
    document = strict_json.decode(body)
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise ValueError("the document is no key set")
    named = [each for each in listed if isinstance(each.get("kid"), str)]
    times = Counter(each["kid"] for each in named)
    usable = {each["kid"]: _usable(each) for each in named if times[each["kid"]] == 1}
    return {key_id: key for key_id, key in usable.items() if key is not None}


def _usable(described: dict[str, Any]) -> jwt.PyJWK | None:
    kind, curve = described.get("kty"), described.get("crv")
    if not isinstance(kind, str) or not isinstance(curve, str | None):
        return None
    algorithm, members = _ALGORITHMS.get((kind, curve), (None, ()))
    if (
        algorithm is None
        or described.get("alg", algorithm) != algorithm
        or described.get("use", "sig") != "sig"
        or "verify" not in _listed(described.get("key_ops", ["verify"]))
        # A published private key is compromised.
        or "d" in described
        or not all(isinstance(described.get(member), str) for member in members)
    ):
        return None
    try:
        key = jwt.PyJWK(described, algorithm)
    except (jwt.PyJWTError, UnsupportedAlgorithm, ValueError):
        return None
    if isinstance(key.key, RSAPublicKey) and key.key.key_size not in RSA_BITS:
        return None
    return key


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []
