"""Tokens that must be refused, as data: a name, the reason that the log gives, and how a good token was made bad.

Each differs from a good one by one change, and is signed anew by the right key unless the signature is the change.
"""

import base64
import hmac
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from support.identity.identity_provider import (
    MACHINES,
    NOW,
    PEOPLE,
    compact,
    encode,
    good_header,
    good_payload,
    good_token,
    jwk,
    private_key,
    text,
)

DROPPED: Any = object()


@dataclass(frozen=True, slots=True)
class BadToken:
    """One bad token; it is made when a test asks for it, because keys take time to make."""

    name: str
    reason: str
    make: Callable[[], str]


def _changed(good: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in (good | change).items() if value is not DROPPED}


def claims(name: str, reason: str, **change: Any) -> BadToken:
    """A payload that says something else."""
    return BadToken(
        name, reason, lambda: compact(text(good_header()), text(_changed(good_payload(), change)), private_key("RS256"))
    )


def header(name: str, reason: str, **change: Any) -> BadToken:
    """A header that says something else."""
    return BadToken(
        name, reason, lambda: compact(text(_changed(good_header(), change)), text(good_payload()), private_key("RS256"))
    )


def raw(name: str, change: Callable[[bytes], bytes]) -> BadToken:
    """A header that is written otherwise."""
    return BadToken(
        name, "malformed", lambda: compact(change(text(good_header())), text(good_payload()), private_key("RS256"))
    )


def written(name: str, change: Callable[[str], str], reason: str = "malformed") -> BadToken:
    """A payload that is written otherwise."""

    def make() -> str:
        payload = change(json.dumps(good_payload())).encode("utf-8", "surrogatepass")
        return compact(text(good_header()), payload, private_key("RS256"))

    return BadToken(name, reason, make)


def spelled(name: str, change: Callable[[str], str], reason: str = "malformed") -> BadToken:
    """A good token whose text was changed after it was signed."""
    return BadToken(name, reason, lambda: change(good_token()))


def signed_by(name: str, reason: str, kind: str, owner: str, **change: Any) -> BadToken:
    """A token that another key signed than its header says."""

    def make() -> str:
        return compact(text(_changed(good_header(), change)), text(good_payload()), private_key(kind, owner))

    return BadToken(name, reason, make)


def _hmac_with_public_key(spelling: Encoding) -> str:
    key: Any = private_key("RS256").public_key()
    formatting = PublicFormat.PKCS1 if spelling is Encoding.DER else PublicFormat.SubjectPublicKeyInfo
    signed = f"{encode(text(good_header() | {'alg': 'HS256'}))}.{encode(text(good_payload()))}"
    return f"{signed}.{encode(hmac.digest(key.public_bytes(spelling, formatting), signed.encode(), 'sha256'))}"


def _other_issuers_token() -> str:
    payload = good_payload(MACHINES)
    return compact(text(good_header("RS256", MACHINES)), text(payload), private_key("RS256", "people"))


def _swapped(part: int, other: Callable[[], str]) -> Callable[[str], str]:
    def change(token: str) -> str:
        parts = token.split(".")
        parts[part] = other()
        return ".".join(parts)

    return change


def _with_padding(token: str) -> str:
    return ".".join(part + "=" * (-len(part) % 4 or 4) for part in token.split("."))


def _loose_bits(token: str) -> str:
    """The last sign of the signature (256 bytes, so four bits are left over) with other left-over bits."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return token[:-1] + alphabet[alphabet.index(token[-1]) ^ 1]


def _flipped(token: str) -> str:
    signed, _, last = token.rpartition(".")
    return f"{signed}.{'B' if last[0] == 'A' else 'A'}{last[1:]}"


def _cut_short(token: str) -> str:
    signed, _, last = token.rpartition(".")
    return f"{signed}.{encode(base64.urlsafe_b64decode(last + '==')[:-1])}"


def _der_signature() -> str:
    signed = f"{encode(text(good_header('ES256')))}.{encode(text(good_payload()))}"
    key: Any = private_key("ES256")
    return f"{signed}.{encode(key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))}"


def _constant_signature(algorithm: str, made: bytes) -> Callable[[], str]:
    return lambda: f"{encode(text(good_header(algorithm)))}.{encode(text(good_payload()))}.{encode(made)}"


def _own_key() -> str:
    key = private_key("RS256", "evil")
    return compact(text(good_header() | {"jwk": jwk(key, "RS256")}), text(good_payload()), key)


def _unsigned(algorithm: str) -> Callable[[], str]:
    return lambda: f"{encode(text(good_header() | {'alg': algorithm}))}.{encode(text(good_payload()))}."


def _in_time() -> Iterator[BadToken]:
    yield claims("expired", "expired", iat=NOW - 700, nbf=NOW - 700, exp=NOW - 30)
    yield claims("expired long ago", "expired", iat=1, nbf=1, exp=601)
    yield claims("not yet valid", "not_yet_valid", nbf=NOW + 31)
    yield claims("issued in the future", "issued_in_the_future", iat=NOW + 31)
    yield claims("lifetime too long", "bad_lifetime", iat=NOW - 60, exp=NOW - 60 + 3601)
    yield claims("expires before it was issued", "bad_lifetime", iat=NOW + 20, exp=NOW + 10)
    yield claims("expires as it is issued", "bad_lifetime", iat=NOW, exp=NOW)
    yield claims("expires in the year 10000", "bad_lifetime", exp=253_402_300_800)
    for claim in ("exp", "iat"):
        yield claims(f"{claim} missing", f"bad_{claim}", **{claim: DROPPED})
    for claim in ("exp", "iat", "nbf"):
        yield claims(f"{claim} as text", f"bad_{claim}", **{claim: str(NOW)})
        yield claims(f"{claim} as null", f"bad_{claim}", **{claim: None})
        yield claims(f"{claim} as true", f"bad_{claim}", **{claim: True})
        yield claims(f"{claim} as a list", f"bad_{claim}", **{claim: [NOW]})
        yield claims(f"{claim} negative", f"bad_{claim}", **{claim: -1})
        yield claims(f"{claim} beyond every float", f"bad_{claim}", **{claim: 10**400})


def _in_names() -> Iterator[BadToken]:
    yield claims("iss missing", "wrong_issuer", iss=DROPPED)
    yield claims("iss of a stranger", "wrong_issuer", iss="https://evil.test/")
    yield claims("iss without its slash", "wrong_issuer", iss="https://people.test")
    yield claims("iss in capitals", "wrong_issuer", iss="HTTPS://PEOPLE.TEST/")
    yield claims("iss as a list", "wrong_issuer", iss=[PEOPLE.name])
    yield BadToken("iss of another issuer in the table", "bad_signature", _other_issuers_token)
    yield claims("aud missing", "wrong_audience", aud=DROPPED)
    yield claims("aud of another", "wrong_audience", aud="https://other.test")
    yield claims("aud of the other issuer's row", "wrong_audience", aud=MACHINES.audience)
    yield claims("aud that begins with ours", "wrong_audience", aud=PEOPLE.audience + ".evil.test")
    yield claims("aud list without ours", "wrong_audience", aud=["https://other.test"])
    yield claims("aud list empty", "wrong_audience", aud=[])
    yield claims("aud list with a number", "wrong_audience", aud=[PEOPLE.audience, 7])
    yield claims("aud as an object", "wrong_audience", aud={PEOPLE.audience: True})
    yield claims("sub missing", "bad_subject", sub=DROPPED)
    for claim, reason in (("sub", "bad_subject"), ("org_id", "bad_organization")):
        yield claims(f"{claim} empty", reason, **{claim: ""})
        yield claims(f"{claim} as a number", reason, **{claim: 7})
        yield claims(f"{claim} too long", reason, **{claim: "x" * 256})
        yield claims(f"{claim} with a line break", reason, **{claim: "a\nb"})
        yield claims(f"{claim} with a sign that turns the text", reason, **{claim: "a\u202eb"})
    yield claims("role unknown", "bad_role", role="owner")
    yield claims("role in capitals", "bad_role", role="ADMIN")
    yield claims("role as a list", "bad_role", role=["admin"])
    yield claims("role empty", "bad_role", role="")
    yield claims("scope as a list", "bad_scope", scope=["intent:read"])
    yield claims("scope with two spaces", "bad_scope", scope="a  b")
    yield claims("scope with a tab", "bad_scope", scope="a\tb")
    yield claims("scope outside ASCII", "bad_scope", scope="intent:réad")
    yield claims("permissions as text", "bad_permissions", permissions="intent:edit")
    yield claims("permissions with a number", "bad_permissions", permissions=[1])
    yield claims("permissions with a space", "bad_permissions", permissions=["intent:edit intent:read"])
    yield claims("permissions as an object", "bad_permissions", permissions={"intent:edit": True})


def _in_headers() -> Iterator[BadToken]:
    for none in ("none", "None", "NONE", "nOnE"):
        yield header(f"alg {none} with a signature", "wrong_algorithm", alg=none)
        yield BadToken(f"alg {none} without one", "malformed", _unsigned(none))
    for other in ("HS256", "RS512", "PS256", "ES384", "ES256K", "rs256", "", None, 7, ["RS256"], DROPPED):
        name = "missing" if other is DROPPED else repr(other)
        yield header(f"alg {name}", "wrong_algorithm", alg=other)
    yield BadToken("HS256 with the public key as PEM", "wrong_algorithm", lambda: _hmac_with_public_key(Encoding.PEM))
    yield BadToken("HS256 with the public key as DER", "wrong_algorithm", lambda: _hmac_with_public_key(Encoding.DER))
    yield header("RS256 with the id of an ES256 key", "wrong_algorithm", kid="ES256")
    yield header("ES256 with the id of an RS256 key", "wrong_algorithm", alg="ES256")
    yield header("EdDSA with the id of an RS256 key", "wrong_algorithm", alg="EdDSA")
    yield header("kid missing", "bad_key_id", kid=DROPPED)
    yield header("kid empty", "bad_key_id", kid="")
    yield header("kid as a number", "bad_key_id", kid=7)
    yield header("kid as a list", "bad_key_id", kid=["RS256"])
    yield header("kid very long", "bad_key_id", kid="k" * 256)
    yield header("kid unknown", "unknown_key", kid="nobody")
    yield header("kid like a path", "unknown_key", kid="../../../../dev/null")
    yield header("kid like a query", "unknown_key", kid="RS256' OR '1'='1")
    yield header("kid of the other issuer's liking", "unknown_key", kid="https://machines.test/keys#RS256")
    for kid in ("encryption", "wrapping", "pss", "hmac-by-name", "twice", "broken", "7"):
        yield signed_by(f"key {kid}", "unknown_key", "RS256", "spare", kid=kid)
    yield signed_by("key published-private", "unknown_key", "ES256", "spare", kid="published-private", alg="ES256")
    yield signed_by("key symmetric", "unknown_key", "RS256", "people", kid="symmetric")
    yield signed_by("key of 1024 bits", "unknown_key", "RSA-1024", "people", kid="weak")
    yield signed_by("key on P-384", "unknown_key", "ES384", "people", kid="p384", alg="ES256")
    yield signed_by("key on secp256k1", "unknown_key", "ES256K", "people", kid="secp256k1", alg="ES256")
    yield header("crit", "header_refused", crit=["exp"])
    yield header("crit empty", "header_refused", crit=[])
    yield header("jku", "header_refused", jku="https://evil.test/keys")
    yield header("x5u", "header_refused", x5u="https://evil.test/cert")
    yield header("x5c", "header_refused", x5c=["MIIB"])
    yield header("b64 false", "header_refused", b64=False)
    yield header("b64 false and critical", "header_refused", b64=False, crit=["b64"])
    yield header("packed", "header_refused", zip="DEF")
    yield header("encrypted by name", "header_refused", enc="A256GCM")
    yield header("nested by name", "header_refused", cty="JWT")
    yield BadToken("jwk with a key of its own", "header_refused", _own_key)
    for other in ("JWT", "id+jwt", "at+jwt; charset=utf-8", "", None, 7, DROPPED):
        name = "missing" if other is DROPPED else repr(other)
        yield header(f"typ {name}", "wrong_type", typ=other)


def _in_signatures() -> Iterator[BadToken]:
    yield signed_by("signed by a stranger", "bad_signature", "RS256", "evil")
    yield signed_by("ES256 signed by a stranger", "bad_signature", "ES256", "evil", alg="ES256", kid="ES256")
    yield signed_by("EdDSA signed by a stranger", "bad_signature", "EdDSA", "evil", alg="EdDSA", kid="EdDSA")
    yield signed_by("RS256 with an ES256 signature", "bad_signature", "ES256", "people")
    promoted = _swapped(1, lambda: encode(text(good_payload() | {"role": "admin"})))
    yield spelled("payload tampered with", promoted, "bad_signature")
    yield spelled("header tampered with", _swapped(0, lambda: encode(text(good_header() | {"x": 1}))), "bad_signature")
    yield spelled("signature tampered with", _flipped, "bad_signature")
    yield spelled("signature of another token", _swapped(2, lambda: good_token(sub="x").split(".")[2]), "bad_signature")
    yield spelled("signature cut short", _cut_short, "bad_signature")
    yield BadToken("ES256 signature in DER", "bad_signature", _der_signature)
    yield BadToken("ES256 signature of zeros", "bad_signature", _constant_signature("ES256", bytes(64)))
    yield BadToken("ES256 signature of one byte", "bad_signature", _constant_signature("ES256", b"\0"))
    yield BadToken("EdDSA signature of zeros", "bad_signature", _constant_signature("EdDSA", bytes(64)))
    yield BadToken("EdDSA signature of one byte", "bad_signature", _constant_signature("EdDSA", b"\0"))


def _in_spelling() -> Iterator[BadToken]:
    yield BadToken("empty", "malformed", str)
    yield BadToken("two dots", "malformed", lambda: "..")
    yield BadToken("not a token", "malformed", lambda: "ob_paper_000000000000")
    yield spelled("one segment", lambda token: token.split(".")[0])
    yield spelled("without its signature", lambda token: token.rsplit(".", 1)[0])
    yield spelled("with an empty signature", _swapped(2, str))
    yield spelled("with an empty payload", _swapped(1, str))
    yield spelled("with an empty header", _swapped(0, str))
    yield spelled("four segments", lambda token: f"{token}.AAAA")
    yield spelled("five segments, a JWE", lambda token: f"{token}.AAAA.AAAA")
    yield spelled("padded", _with_padding)
    yield spelled("space before", lambda token: " " + token)
    yield spelled("space after", lambda token: token + " ")
    yield spelled("line break after", lambda token: token + "\n")
    yield spelled("line break inside", lambda token: f"{token[:80]}\n{token[80:]}")
    yield spelled("NUL after", lambda token: token + "\0")
    yield spelled("with its scheme", lambda token: f"Bearer {token}")
    yield spelled("twice, by a comma", lambda token: f"{token},{token}")
    yield spelled("plain base64 signs", lambda token: token + "+/+/")
    yield spelled("left-over bits set", _loose_bits)
    yield spelled("one sign too many", lambda token: token + "AAA")
    yield spelled("outside ASCII", lambda token: token + "é")
    yield spelled("digits of another script", lambda token: token[:-1] + "\u0661")
    yield spelled("half a character", lambda token: token + "\ud800")
    yield BadToken("oversize", "malformed", lambda: good_token(extra="x" * 8192))
    yield raw("header is no object", lambda good: b'["RS256"]')
    yield raw("header is no JSON", lambda good: b"{")
    yield raw("header names alg twice", lambda good: b'{"alg":"none",' + good[1:])
    yield written("claim twice", lambda good: good[:-1] + ', "role": "admin"}')
    yield written("claim twice, once escaped", lambda good: good[:-1] + ', "r\\u006fle": "admin"}')
    yield written("claim twice inside another", lambda good: good[:-1] + ', "x": {"a": 1, "a": 2}}')
    yield written("a list", lambda good: f"[{good}]")
    yield written("a text", lambda good: '"sub"')
    yield written("NaN", lambda good: good.replace(str(NOW + 600), "NaN"))
    yield written("Infinity", lambda good: good.replace(str(NOW + 600), "Infinity"))
    yield written("a number of 5000 digits", lambda good: good.replace(str(NOW + 600), "9" * 5000))
    yield written("deeply nested", lambda good: good[:-1] + ', "x": ' + "[" * 33 + "]" * 33 + "}")
    yield written("very deeply nested", lambda good: good[:-1] + ', "x": ' + "[" * 2500 + "]" * 2500 + "}")
    yield written("NUL in the subject", lambda good: good.replace("auth|7", "auth\\u00007"))
    yield written("half a character in the subject", lambda good: good.replace("auth|7", "\\ud800"))
    yield written("half a character, not escaped", lambda good: good.replace("auth|7", "\ud800"))
    yield written("a byte order mark", lambda good: "\ufeff" + good)
    yield written("two objects", lambda good: good + "{}")
    yield written("nested, a token as payload", lambda good: good_token())
    yield written("exp of 1e999", lambda good: good.replace(str(NOW + 600), "1e999"), "bad_exp")


BAD_TOKENS = (*_in_time(), *_in_names(), *_in_headers(), *_in_signatures(), *_in_spelling())
assert len({bad.name for bad in BAD_TOKENS}) == len(BAD_TOKENS), "a bad token's name occurs twice"
