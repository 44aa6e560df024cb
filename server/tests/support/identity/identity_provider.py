"""An identity provider for tests: its keys, its tokens, signed by hand so that they can be wrong, and its JWKS."""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any

import httpx
import jwt
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from openbell_server.adapters.identity.tokens import JwtAccessTokens
from openbell_server.domain.access.access_tokens import Issuer
from openbell_server.domain.access.principals import PrincipalKind

NOW = 1_800_000_000
PEOPLE = Issuer(
    name="https://people.test/",
    jwks_address="https://people.test/keys",
    audience="https://openbell.test",
    token_type="at+jwt",
    kind=PrincipalKind.USER,
    provider="dev",
)
MACHINES = Issuer(
    name="https://machines.test/",
    jwks_address="https://machines.test/keys",
    audience="openbell",
    token_type="JWT",
    kind=PrincipalKind.SERVICE,
    provider="dev",
)
PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
MAKE: dict[str, Callable[[], PrivateKey]] = {
    "RS256": lambda: rsa.generate_private_key(65537, 2048),
    "RSA-1024": lambda: rsa.generate_private_key(65537, 1024),
    "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "ES384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "ES256K": lambda: ec.generate_private_key(ec.SECP256K1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate,
}


@cache
def _owned_key(kind: str, owner: str) -> PrivateKey:
    return MAKE[kind]()


def private_key(kind: str, owner: str = "people") -> PrivateKey:
    """The one key of its kind that the owner has in this run."""
    return _owned_key(kind, owner)


def jwk(key: PrivateKey, kid: str, **members: Any) -> dict[str, Any]:
    """The public half as a JWKS lists it."""
    public: Any = key.public_key()
    algorithms: dict[type, Any] = {
        rsa.RSAPrivateKey: jwt.algorithms.RSAAlgorithm,
        ec.EllipticCurvePrivateKey: jwt.algorithms.ECAlgorithm,
        ed25519.Ed25519PrivateKey: jwt.algorithms.OKPAlgorithm,
    }
    kind = next(kind for kind in algorithms if isinstance(key, kind))
    described: dict[str, Any] = algorithms[kind].to_jwk(public, as_dict=True)
    described.pop("key_ops", None)
    return described | {"kid": kid, **members}


def private_jwk(kid: str) -> dict[str, Any]:
    """A key on P-256 with its private half, as no JWKS should list it."""
    key: Any = private_key("ES256", "spare")
    return jwk(key, kid, d=encode(key.private_numbers().private_value.to_bytes(32)))


def encode(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()


def text(part: Mapping[str, Any]) -> bytes:
    return json.dumps(part).encode()


def signature(key: PrivateKey, signed: bytes) -> bytes:
    """By RS256, ES256 or EdDSA, as the key is."""
    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(signed, padding.PKCS1v15(), hashes.SHA256())
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key.sign(signed)
    size = (key.curve.key_size + 7) // 8
    r, s = decode_dss_signature(key.sign(signed, ec.ECDSA(hashes.SHA256())))
    return r.to_bytes(size) + s.to_bytes(size)


def compact(header: bytes, payload: bytes, key: PrivateKey) -> str:
    signed = f"{encode(header)}.{encode(payload)}"
    return f"{signed}.{encode(signature(key, signed.encode()))}"


def good_header(algorithm: str = "RS256", issuer: Issuer = PEOPLE) -> dict[str, Any]:
    return {"typ": issuer.token_type, "alg": algorithm, "kid": algorithm}


def good_payload(issuer: Issuer = PEOPLE) -> dict[str, Any]:
    return {
        "iss": issuer.name,
        "aud": issuer.audience,
        "iat": NOW - 60,
        "nbf": NOW - 60,
        "exp": NOW + 600,
        "sub": "auth|7",
        "org_id": "org_9",
        "role": "member",
        "permissions": ["intent:edit"],
        "scope": "openid intent:read",
    }


def owner_of(issuer: Issuer) -> str:
    return "people" if issuer is PEOPLE else "machines"


def good_token(algorithm: str = "RS256", issuer: Issuer = PEOPLE, **claims: Any) -> str:
    key = private_key(algorithm, owner_of(issuer))
    return compact(text(good_header(algorithm, issuer)), text(good_payload(issuer) | claims), key)


@cache
def published_keys(owner: str) -> bytes:
    """A JWKS with a key for each algorithm, and with keys that must never be used."""
    keys = [jwk(private_key(kind, owner), kind, use="sig", alg=kind) for kind in ("RS256", "ES256", "EdDSA")]
    if owner == "people":
        spare = private_key("RS256", "spare")
        keys += [
            jwk(private_key("RSA-1024"), "weak"),
            jwk(private_key("ES384"), "p384"),
            jwk(private_key("ES256K"), "secp256k1"),
            jwk(spare, "encryption", use="enc"),
            jwk(spare, "wrapping", key_ops=["wrapKey"]),
            jwk(spare, "pss", alg="PS256"),
            jwk(spare, "hmac-by-name", alg="HS256"),
            jwk(spare, "twice"),
            jwk(private_key("ES256"), "twice"),
            private_jwk("published-private"),
            jwk(spare, "") | {"kid": 7},
            {"kty": "oct", "kid": "symmetric", "k": encode(b"k" * 32)},
            {"kty": "RSA", "kid": "broken", "n": "AQAB", "e": 3},
        ]
    return json.dumps({"keys": keys}).encode()


@dataclass(slots=True)
class Clock:
    """Both clocks of a process, moved by hand."""

    seconds: float = NOW

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, UTC)


@dataclass(slots=True)
class Verifier:
    """What verifies tokens, with providers that answer at once and count how often they were asked."""

    clock: Clock = field(default_factory=Clock)
    asked: dict[str, int] = field(default_factory=dict)
    published: dict[str, bytes] = field(default_factory=dict)
    issuers: tuple[Issuer, ...] = (PEOPLE, MACHINES)
    tokens: JwtAccessTokens = field(init=False)

    def __post_init__(self) -> None:
        client = httpx.AsyncClient(transport=httpx.MockTransport(self._answer))
        self.tokens = JwtAccessTokens(self.issuers, client, self.clock.monotonic, self.clock.now)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        owner = request.url.host.split(".")[0]
        self.asked[owner] = self.asked.get(owner, 0) + 1
        # A stream, as a provider would send it.
        body = self.published.get(owner, published_keys(owner))
        return httpx.Response(200, stream=httpx.ByteStream(body))
