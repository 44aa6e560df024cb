"""The public keys of an issuer, fetched from its JWKS address.

Keys are fresh for ten minutes. While the provider is away its last keys serve on, until they are an hour old. Whatever
callers send, the provider is asked at most once in thirty seconds, and by one request at a time.
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
from openbell_server.domain.access_tokens import Issuer

FETCH_SECONDS: Final = 2.0
BYTES_MAX: Final = 256 * 1024
FRESH_SECONDS: Final = 600.0
STALE_SECONDS: Final = 3600.0
REFRESH_SECONDS: Final = 30.0
# Shorter ones are weak; longer ones only cost time.
RSA_BITS: Final = range(2048, 8192 + 1)
# (kty, crv) → the one algorithm that such a key may be used with, and the members it is made of
_ALGORITHMS: Final = {
    ("RSA", None): ("RS256", ("n", "e")),
    ("EC", "P-256"): ("ES256", ("x", "y")),
    ("OKP", "Ed25519"): ("EdDSA", ("x",)),
}


class IssuerKeys:
    """The keys of one issuer by their id."""

    def __init__(self, issuer: Issuer, client: httpx.AsyncClient, monotonic: Callable[[], float]) -> None:
        """Nothing is fetched before a key is looked for."""
        self._issuer = issuer
        self._client = client
        self._monotonic = monotonic
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fetched_at: float | None = None
        self._asked_at = 0.0
        self._fetching: asyncio.Task[None] | None = None

    async def find(self, key_id: str) -> jwt.PyJWK | None:
        """The key, or None if the issuer has no such key or was away for too long."""
        if key_id not in self._keys or not self._younger_than(FRESH_SECONDS):
            await self._refresh()
        return self._keys.get(key_id) if self._younger_than(STALE_SECONDS) else None

    def _younger_than(self, seconds: float) -> bool:
        return self._fetched_at is not None and self._monotonic() - self._fetched_at < seconds

    async def _refresh(self) -> None:
        now = self._monotonic()
        if self._fetching is None or (self._fetching.done() and now - self._asked_at >= REFRESH_SECONDS):
            self._asked_at = now
            self._fetching = asyncio.create_task(self._fetch())
        # A caller that leaves must not take the fetch with it: others wait for it, and the next one is far off.
        await asyncio.shield(self._fetching)

    async def _fetch(self) -> None:
        try:
            # One deadline for all of it: a timeout for each read would let a provider drip for ever.
            async with asyncio.timeout(FETCH_SECONDS):
                self._keys = read_keys(await self._download())
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, ValueError) as trouble:
            structlog.get_logger().warning("keys_not_fetched", issuer=self._issuer.name, error=repr(trouble))
            return
        # Stamped with the time before the fetch: what was read may be that old already.
        self._fetched_at = self._asked_at

    async def _download(self) -> bytes:
        # Nothing packed: a small body cannot unpack into a large one.
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
    """The usable keys of a JWKS document by id; ValueError if it is none.

    A key that we cannot use is left out. So is every key whose id occurs twice: nobody could say which one is meant.
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
        # A private key that was published is anyone's.
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
