"""Access tokens: the table of trusted issuers, and the checks of a token's header and claims.

Nothing here checks a signature: `read_claims` receives a payload whose signature was already verified.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit

from openbell_server.domain.access.principals import PrincipalKind, Role
from openbell_server.domain.errors import OpenbellError, OperatorError

ALGORITHMS: Final = frozenset({"RS256", "ES256", "EdDSA"})
LEEWAY_SECONDS: Final = 30
LIFETIME_SECONDS: Final = 3600
NAME_LENGTH_MAX: Final = 255
# Headers that supply a key, change how the token is read, or wrap another token.
_REFUSED_HEADERS: Final = frozenset({"b64", "crit", "cty", "enc", "jku", "jwk", "x5c", "x5u", "zip"})
LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_SCOPE = re.compile(r"[!#-\[\]-~]+")
_WHOLE_NUMBERS_MAX: Final = 2**53


class TokenRefused(OpenbellError):
    """Why a token is not valid: a code for the log, which is never sent to the caller.

    `reason` never contains text from the token.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def is_safe_address(address: str) -> bool:
    """Whether secrets may be sent there: https, or http on this machine."""
    parts = urlsplit(address)
    return bool(parts.hostname) and (parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimNames:
    subject: str = "sub"
    organization: str = "org_id"
    role: str = "role"
    permissions: str = "permissions"
    scope: str = "scope"


@dataclass(frozen=True, slots=True, kw_only=True)
class Issuer:
    """One row of the table of trusted issuers. Raises OperatorError for unsafe settings."""

    name: str
    jwks_address: str
    audience: str
    # None: the provider sets no token type, and only the audience excludes its other tokens.
    token_type: str | None
    # Users or service accounts, never both.
    kind: PrincipalKind
    # The identity provider of the tokens' organizations and users.
    provider: str = "workos"
    algorithms: frozenset[str] = ALGORITHMS
    claim_names: ClaimNames = ClaimNames()
    lifetime_seconds: int = LIFETIME_SECONDS

    def __post_init__(self) -> None:
        if not is_safe_address(self.jwks_address):
            raise OperatorError(f"the JWKS address of issuer {self.name} must be https: {self.jwks_address}")
        if not self.algorithms or not self.algorithms <= ALGORITHMS:
            raise OperatorError(f"issuer {self.name} may use only {', '.join(sorted(ALGORITHMS))}")
        if self.kind is PrincipalKind.API_KEY:
            raise OperatorError(f"the tokens of issuer {self.name} are for USER or for SERVICE")
        if not (self.name and self.audience) or self.token_type == "" or self.lifetime_seconds <= 0:
            raise OperatorError(f"issuer {self.name!r} needs a name, an audience, a token type and a lifetime")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenClaims:
    """The claims of a verified token; `organization` is the issuer's name for it."""

    issuer: str
    provider: str
    subject: str
    kind: PrincipalKind
    organization: str | None
    role: Role | None
    permissions: frozenset[str]
    scopes: frozenset[str]
    expires_at: datetime


def read_header(issuer: Issuer, header: Mapping[str, object]) -> tuple[str, str]:
    """The id and the algorithm of the signing key; raises TokenRefused."""
    if not _REFUSED_HEADERS.isdisjoint(header):
        raise TokenRefused("header_refused")
    algorithm, key_id = header.get("alg"), header.get("kid")
    # RFC 7519, 5.1: a token of an untyped issuer may set the type JWT.
    token_type = header.get("typ", "JWT" if issuer.token_type is None else None)
    if not isinstance(token_type, str) or _media_type(token_type) != _media_type(issuer.token_type or "JWT"):
        raise TokenRefused("wrong_type")
    if not isinstance(algorithm, str) or algorithm not in issuer.algorithms:
        raise TokenRefused("wrong_algorithm")
    if not isinstance(key_id, str) or not 0 < len(key_id) <= NAME_LENGTH_MAX:
        raise TokenRefused("bad_key_id")
    return key_id, algorithm


def read_claims(issuer: Issuer, payload: Mapping[str, object], now: datetime) -> TokenClaims:
    """Raises TokenRefused if a claim is not valid."""
    if payload.get("iss") != issuer.name:
        raise TokenRefused("wrong_issuer")
    audience = payload.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    if issuer.audience not in audiences or not all(isinstance(each, str) for each in audiences):
        raise TokenRefused("wrong_audience")
    names = issuer.claim_names
    return TokenClaims(
        issuer=issuer.name,
        provider=issuer.provider,
        expires_at=_expiry(issuer, payload, now.timestamp()),
        subject=_name(payload.get(names.subject), "bad_subject"),
        kind=issuer.kind,
        organization=_organization(payload.get(names.organization)),
        role=_role(payload.get(names.role)),
        permissions=_permissions(payload.get(names.permissions)),
        scopes=_scopes(payload.get(names.scope)),
    )


def read_id_token(issuer: Issuer, payload: Mapping[str, object], nonce: str, now: datetime) -> str:
    """The subject of an id token for the client that is the issuer's audience; raises TokenRefused.

    OpenID Connect Core 1.0, 3.1.3.7. The caller has checked the signature.
    """
    if payload.get("iss") != issuer.name:
        raise TokenRefused("wrong_issuer")
    audience = payload.get("aud")
    # A token for several audiences could have been obtained by another of them.
    if audience not in (issuer.audience, [issuer.audience]) or payload.get("azp", issuer.audience) != issuer.audience:
        raise TokenRefused("wrong_audience")
    if payload.get("nonce") != nonce:
        raise TokenRefused("wrong_nonce")
    _expiry(issuer, payload, now.timestamp())
    return _name(payload.get("sub"), "bad_subject")


def _media_type(text: str) -> str:
    """RFC 7515, 4.1.9: case-insensitive, and `application/` may be left out."""
    return text.lower().removeprefix("application/")


def _seconds(payload: Mapping[str, object], claim: str) -> float:
    value = payload.get(claim)
    # In Python a bool is an int and 1e999 is infinite; neither is a time.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _WHOLE_NUMBERS_MAX:
        raise TokenRefused(f"bad_{claim}")
    return value


def _expiry(issuer: Issuer, payload: Mapping[str, object], now: float) -> datetime:
    expires, issued = _seconds(payload, "exp"), _seconds(payload, "iat")
    if now >= expires + LEEWAY_SECONDS:
        raise TokenRefused("expired")
    if issued > now + LEEWAY_SECONDS:
        raise TokenRefused("issued_in_the_future")
    if "nbf" in payload and _seconds(payload, "nbf") > now + LEEWAY_SECONDS:
        raise TokenRefused("not_yet_valid")
    if not 0 < expires - issued <= issuer.lifetime_seconds:
        raise TokenRefused("bad_lifetime")
    return datetime.fromtimestamp(expires, UTC)


def _name(value: object, reason: str) -> str:
    # Unprintable characters would make a name look like another one in a log.
    if not isinstance(value, str) or not 0 < len(value) <= NAME_LENGTH_MAX or not value.isprintable():
        raise TokenRefused(reason)
    return value


def _organization(value: object) -> str | None:
    return None if value is None else _name(value, "bad_organization")


def _role(value: object) -> Role | None:
    if value is None:
        return None
    if not isinstance(value, str) or value not in set(Role):
        raise TokenRefused("bad_role")
    return Role(value)


def _permissions(value: object) -> frozenset[str]:
    if value is None:
        return frozenset()
    if not isinstance(value, list) or not all(isinstance(each, str) and _SCOPE.fullmatch(each) for each in value):
        raise TokenRefused("bad_permissions")
    return frozenset(value)


def _scopes(value: object) -> frozenset[str]:
    """RFC 6749, 3.3: scopes separated by single spaces."""
    if value is None or value == "":
        return frozenset()
    if not isinstance(value, str) or not all(_SCOPE.fullmatch(scope) for scope in value.split(" ")):
        raise TokenRefused("bad_scope")
    return frozenset(value.split(" "))
