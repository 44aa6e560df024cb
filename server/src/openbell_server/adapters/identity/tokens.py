"""Verifies JWT access tokens (RFC 8725) against the table of issuers."""

import base64
import hashlib
import re
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final

import httpx
import jwt
import structlog

from openbell_server.adapters.identity.jwks import IssuerKeys
from openbell_server.domain import strict_json
from openbell_server.domain.access.access_tokens import (
    ALGORITHMS,
    Issuer,
    TokenClaims,
    TokenRefused,
    read_claims,
    read_header,
)
from openbell_server.domain.errors import OperatorError

TOKEN_BYTES_MAX: Final = 8 * 1024
CACHE_SECONDS: Final = 60.0
CACHE_TOKENS_MAX: Final = 10_000
_COMPACT = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)")
_JWS: Final = jwt.PyJWS(algorithms=sorted(ALGORITHMS))


class JwtAccessTokens:
    """Accepts tokens signed by a configured issuer, and caches each result for CACHE_SECONDS. The caller closes the
    client.
    """

    def __init__(
        self,
        issuers: Iterable[Issuer],
        client: httpx.AsyncClient,
        monotonic: Callable[[], float],
        now: Callable[[], datetime],
    ) -> None:
        self._issuers: dict[str, tuple[Issuer, IssuerKeys]] = {}
        for issuer in issuers:
            if issuer.name in self._issuers:
                raise OperatorError(f"issuer {issuer.name} is named twice")
            self._issuers[issuer.name] = issuer, IssuerKeys(issuer, client, monotonic)
        self._monotonic = monotonic
        self._now = now
        # Keyed by hash, so that a memory dump contains no tokens. All entries live equally long, so the first one is
        # the oldest.
        self._verified: dict[bytes, tuple[float, TokenClaims]] = {}

    async def verify(self, token: str) -> TokenClaims | None:
        """The claims of a valid token, else None."""
        if not token.isascii() or len(token) > TOKEN_BYTES_MAX:
            _log_refusal("malformed", None)
            return None
        digest = hashlib.sha256(token.encode()).digest()
        remembered = self._verified.get(digest)
        if remembered is not None:
            verified_at, claims = remembered
            if self._monotonic() - verified_at < CACHE_SECONDS and self._now() < claims.expires_at:
                return claims
            del self._verified[digest]
        issuer = None
        try:
            header, payload = read_compact(token)
            issuer, keys = self._issuer_of(payload)
            # Taken before the signature check, because the key may be replaced while we wait for it.
            verified_at = self._monotonic()
            await check_signature(token, issuer, header, keys)
            claims = read_claims(issuer, payload, self._now())
        except TokenRefused as refused:
            _log_refusal(refused.reason, issuer)
            return None
        if len(self._verified) >= CACHE_TOKENS_MAX:
            del self._verified[next(iter(self._verified))]
        self._verified[digest] = verified_at, claims
        return claims

    def _issuer_of(self, payload: dict[str, object]) -> tuple[Issuer, IssuerKeys]:
        name = payload.get("iss")
        found = self._issuers.get(name) if isinstance(name, str) else None
        if found is None:
            raise TokenRefused("wrong_issuer")
        return found


def _log_refusal(reason: str, issuer: Issuer | None) -> None:
    # Never log text that the caller sent.
    structlog.get_logger().info("token_refused", reason=reason, issuer=issuer.name if issuer else None)


def read_compact(token: str) -> tuple[dict[str, object], dict[str, object]]:
    """The unverified header and payload of a compact token."""
    parts = _COMPACT.fullmatch(token)
    if parts is None:
        raise TokenRefused("malformed")
    header, payload, _ = (_decoded(part) for part in parts.groups())
    return _object(header), _object(payload)


def _decoded(part: str) -> bytes:
    # Length 1 modulo 4 is not base64. Leftover bits at the end would allow several forms of one token.
    if len(part) % 4 == 1:
        raise TokenRefused("malformed")
    decoded = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    if base64.urlsafe_b64encode(decoded).rstrip(b"=") != part.encode():
        raise TokenRefused("malformed")
    return decoded


def _object(text: bytes) -> dict[str, object]:
    try:
        decoded = strict_json.decode(text)
    except ValueError:
        raise TokenRefused("malformed") from None
    if not isinstance(decoded, dict):
        raise TokenRefused("malformed")
    return decoded


async def check_signature(token: str, issuer: Issuer, header: dict[str, object], keys: IssuerKeys) -> None:
    key_id, algorithm = read_header(issuer, header)
    key = await keys.find(key_id)
    if key is None:
        raise TokenRefused("unknown_key")
    if key.algorithm_name != algorithm:
        raise TokenRefused("wrong_algorithm")
    try:
        _JWS.decode_complete(token, key, algorithms=[algorithm])
    except jwt.PyJWTError:
        raise TokenRefused("bad_signature") from None
