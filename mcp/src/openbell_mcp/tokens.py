"""Verifies access tokens of one OpenID provider, whose keys are fetched from the address that it publishes."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

import httpx
import jwt
import msgspec
from mcp.server.auth.provider import AccessToken

from openbell_mcp.marking import plain

FETCH_SECONDS: Final = 5.0
BYTES_MAX: Final = 256 * 1024
KEYS_MAX: Final = 64
# Keys are fetched anew after ten minutes; while the provider is unavailable, they are used for an hour.
FRESH_SECONDS: Final = 600.0
STALE_SECONDS: Final = 3600.0
# Whatever callers send, the provider is called at most once in this time.
REFRESH_SECONDS: Final = 30.0
TOKEN_BYTES_MAX: Final = 8 * 1024
SUBJECT_MAX: Final = 255
# The only algorithm for a kind of key; never one that the token chooses.
_ALGORITHMS: Final = {("RSA", None): "RS256", ("EC", "P-256"): "ES256", ("OKP", "Ed25519"): "EdDSA"}
_LOG: Final = logging.getLogger(__name__)


class Unavailable(Exception):
    """What decides about the caller cannot be read now; the message is for the caller."""


class IssuerKeys:
    """The keys of an issuer by id, fetched on first use."""

    def __init__(self, issuer: str, http: httpx.AsyncClient, monotonic: Callable[[], float]) -> None:
        self._issuer, self._http, self._monotonic = issuer, http, monotonic
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fetched_at: float | None = None
        self._tried_at: float | None = None
        self._fetching = asyncio.Lock()

    async def find(self, key_id: str) -> jwt.PyJWK | None:
        """None if the issuer has no such key; raises Unavailable if its keys cannot be fetched."""
        if key_id not in self._keys or not self._is_younger(self._fetched_at, FRESH_SECONDS):
            # A caller that disconnects must not cancel the fetch, because others wait for it.
            await asyncio.shield(self._refresh())
        if not self._is_younger(self._fetched_at, STALE_SECONDS):
            raise Unavailable("The keys of the OpenID provider cannot be fetched; try again in a minute.")
        return self._keys.get(key_id)

    def _is_younger(self, moment: float | None, seconds: float) -> bool:
        return moment is not None and self._monotonic() - moment < seconds

    async def _refresh(self) -> None:
        async with self._fetching:
            if self._is_younger(self._tried_at, REFRESH_SECONDS):
                return
            started = self._tried_at = self._monotonic()
            try:
                # One deadline for both requests: with a timeout per read a slow provider could take forever.
                async with asyncio.timeout(FETCH_SECONDS):
                    self._keys = _usable(await self._download(await self._address()))
            except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, ValueError) as error:
                _LOG.warning("the keys of %s were not fetched: %r", self._issuer, error)
                return
            self._fetched_at = started

    async def _address(self) -> str:
        described = await self._download(f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
        address = described.get("jwks_uri")
        if described.get("issuer") != self._issuer or not isinstance(address, str):
            raise ValueError("the document of the provider names another issuer, or no address of its keys")
        if address.startswith("http:") and not self._issuer.startswith("http:"):
            raise ValueError("the address of the keys is not encrypted")
        return address

    async def _download(self, url: str) -> dict[str, Any]:
        # No compression: a small body could expand to a large one.
        headers = {"accept": "application/json", "accept-encoding": "identity"}
        body = bytearray()
        async with self._http.stream("GET", url, headers=headers, follow_redirects=False) as response:
            if response.status_code != httpx.codes.OK:
                raise ValueError(f"the provider answered {response.status_code}")
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > BYTES_MAX:
                    raise ValueError(f"the provider's document is larger than {BYTES_MAX} bytes")
        return msgspec.json.decode(bytes(body), type=dict[str, Any])


class Tokens:
    """Implements the SDK's TokenVerifier."""

    def __init__(self, issuer: str, audience: str, keys: IssuerKeys) -> None:
        self._issuer, self._audience, self._keys = issuer, audience, keys

    async def verify_token(self, token: str) -> AccessToken | None:
        """Whom the token is about, without the token itself: it is for nobody else. None if it is not valid."""
        if not token.isascii() or len(token) > TOKEN_BYTES_MAX:
            return None
        try:
            key_id = jwt.get_unverified_header(token).get("kid")
            key = await self._keys.find(key_id) if isinstance(key_id, str) else None
            if key is None:
                return None
            claims = jwt.decode(
                token,
                key,
                algorithms=[key.algorithm_name],
                audience=self._audience,
                issuer=self._issuer,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except jwt.PyJWTError as error:
            _LOG.info("a token was refused: %s", type(error).__name__)
            return None
        subject = claims["sub"]
        if not 0 < len(subject) <= SUBJECT_MAX or plain(subject) != subject:
            return None
        return AccessToken(
            token="",
            client_id=str(claims.get("client_id", subject)),
            scopes=[],
            expires_at=int(claims["exp"]),
            subject=subject,
            claims={"iss": self._issuer},
        )


def _usable(document: dict[str, Any]) -> dict[str, jwt.PyJWK]:
    """The keys that sign tokens; a key id that occurs twice is ambiguous, and neither key is used."""
    listed = document.get("keys")
    if not isinstance(listed, list) or len(listed) > KEYS_MAX or not all(isinstance(each, dict) for each in listed):
        raise ValueError(f"the document is no set of at most {KEYS_MAX} keys")
    ids = [each.get("kid") for each in listed]
    usable: dict[str, jwt.PyJWK] = {}
    for each in listed:
        algorithm = _ALGORITHMS.get((each.get("kty"), each.get("crv")))
        is_for_signing = each.get("use", "sig") == "sig" and each.get("alg", algorithm) == algorithm
        key_id = each.get("kid")
        if algorithm is None or not is_for_signing or not isinstance(key_id, str) or ids.count(key_id) > 1:
            continue
        try:
            usable[key_id] = jwt.PyJWK(each, algorithm)
        except (jwt.PyJWTError, ValueError) as error:
            _LOG.warning("a key of the provider cannot be used: %r", error)
    return usable
