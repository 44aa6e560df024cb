"""API keys that must be refused, as data: a name, and the headers that carry the key.

Each is made from a good key by one change, with a right checksum unless the checksum is the change.
"""

import base64
import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from openbell_server.domain.access import api_keys
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.identifiers import base62
from support.identity.identity_provider import good_token

Headers = list[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ring:
    """Keys to make bad ones of: two that are good, and some that were."""

    good: str
    other: str
    live: str
    revoked: str
    expired: str
    deleted: str


@dataclass(frozen=True, slots=True)
class BadKey:
    """One bad key; `known` says that its form and its checksum are right, so that it is looked up."""

    name: str
    make: Callable[[Ring], Headers]
    known: bool = False


def sent(name: str, text: Callable[[Ring], str], *, known: bool = False) -> BadKey:
    """In the header where a key belongs."""
    return BadKey(name, lambda ring: [("x-api-key", text(ring))], known)


def spelled(name: str, change: Callable[[str], str]) -> BadKey:
    """A good key that was written otherwise."""
    return sent(name, lambda ring: change(ring.good))


def parts_of(key: str) -> tuple[str, str, str]:
    """Environment, id and secret."""
    _, environment, _, key_id, secret, _ = key.split("_")
    return environment, key_id, secret


def joined(environment: str, key_id: str, secret: str, cell: str = "0_") -> str:
    """The key of these parts, with its checksum."""
    body = f"ob_{environment}_{cell}{key_id}_{secret}"
    return f"{body}_{base62(zlib.crc32(body.encode()), 6)}"


def _rebuilt(change: Callable[[str, str, str], tuple[str, str, str]]) -> Callable[[Ring], str]:
    return lambda ring: joined(*change(*parts_of(ring.good)))


def _next(sign: str) -> str:
    return "B" if sign == "A" else "A"


def _swapped_case(text: str) -> str:
    """One letter in the other case, so that the text differs."""
    at = next((at for at, sign in enumerate(text) if sign.isalpha()), 0)
    return text[:at] + text[at].swapcase() + text[at + 1 :]


def an_unknown_key(_: object = None) -> str:
    """Well-formed, and nobody's."""
    return api_keys.mint(Environment.PAPER, os.urandom(api_keys.ENTROPY_BYTES))[0]


def _looked_up() -> Iterator[BadKey]:
    yield sent("unknown", an_unknown_key, known=True)
    yield sent("revoked", lambda ring: ring.revoked, known=True)
    yield sent("expired", lambda ring: ring.expired, known=True)
    yield sent("deleted", lambda ring: ring.deleted, known=True)
    for name, change in (
        ("first sign of the secret changed", lambda e, i, s: (e, i, _next(s[0]) + s[1:])),
        ("last sign of the secret changed", lambda e, i, s: (e, i, s[:-1] + _next(s[-1]))),
        ("case of a letter of the secret changed", lambda e, i, s: (e, i, _swapped_case(s))),
        ("secret backwards", lambda e, i, s: (e, i, s[::-1])),
        ("secret of zeros", lambda e, i, s: (e, i, "0" * len(s))),
        ("case of a letter of the id changed", lambda e, i, s: (e, _swapped_case(i), s)),
        ("another id", lambda e, i, s: (e, i[:-1] + _next(i[-1]), s)),
        ("the other environment", lambda e, i, s: ("live", i, s)),
    ):
        yield sent(name, _rebuilt(change), known=True)
    yield sent(
        "secret of another key",
        lambda ring: joined(*parts_of(ring.good)[:2], parts_of(ring.other)[2]),
        known=True,
    )
    yield sent(
        "id of another key",
        lambda ring: joined("paper", parts_of(ring.other)[1], parts_of(ring.good)[2]),
        known=True,
    )
    yield sent("live key called paper", lambda ring: joined("paper", *parts_of(ring.live)[1:]), known=True)


def _in_form() -> Iterator[BadKey]:
    for name, change in (
        ("environment that is none", lambda e, i, s: ("test", i, s)),
        ("environment in capitals", lambda e, i, s: (e.upper(), i, s)),
        ("environment empty", lambda e, i, s: ("", i, s)),
        ("secret one short", lambda e, i, s: (e, i, s[:-1])),
        ("secret one long", lambda e, i, s: (e, i, s + "A")),
        ("secret empty", lambda e, i, s: (e, i, "")),
        ("id one short", lambda e, i, s: (e, i[:-1], s)),
        ("id one long", lambda e, i, s: (e, i + "A", s)),
        ("a sign that is not base62", lambda e, i, s: (e, i, s[:-1] + "-")),
    ):
        yield sent(name, _rebuilt(change))
    yield spelled("another cell", lambda key: joined(*parts_of(key), "1_"))
    yield spelled("two cells", lambda key: joined(*parts_of(key), "00_"))
    yield spelled("cell empty", lambda key: joined(*parts_of(key), "_"))
    yield spelled("no cell", lambda key: joined(*parts_of(key), ""))
    yield spelled("checksum off by one sign", lambda key: key[:-1] + _next(key[-1]))
    yield spelled("checksum of zeros", lambda key: key[:-6] + "000000")
    yield spelled("checksum missing", lambda key: key.rpartition("_")[0])
    yield spelled("checksum one short", lambda key: key[:-1])
    yield spelled("checksum one long", lambda key: key + "A")
    yield sent("checksum of another key", lambda ring: ring.good[:-6] + ring.other[-6:])
    yield spelled("environment swapped, checksum kept", lambda key: key.replace("paper", "live"))
    yield spelled("prefix only", lambda key: key[:9])
    yield spelled("first half", lambda key: key[: len(key) // 2])
    yield spelled("second half", lambda key: key[len(key) // 2 :])
    yield spelled("secret alone", lambda key: parts_of(key)[2])
    yield spelled("without its prefix", lambda key: key.removeprefix("ob_"))
    yield spelled("prefix in capitals", lambda key: "OB" + key[2:])
    yield spelled("all in capitals", str.upper)
    yield spelled("all in small letters", str.lower)
    yield spelled("hyphens for underscores", lambda key: key.replace("_", "-"))
    yield spelled("backwards", lambda key: key[::-1])
    yield spelled("twice", lambda key: key + key)
    yield spelled("twice by a comma", lambda key: f"{key},{key}")
    yield spelled("in base64", lambda key: base64.b64encode(key.encode()).decode())
    yield spelled("percent-encoded", lambda key: key.replace("_", "%5F"))


def _in_signs() -> Iterator[BadKey]:
    for name, around in (
        ("space", " "),
        ("tab", "\t"),
        ("line break", "\n"),
        ("carriage return", "\r"),
        ("NUL", "\0"),
        ("no-break space", "\u00a0"),
        ("zero-width space", "\u200b"),
        ("byte order mark", "\ufeff"),
        ("a sign that turns the text", "\u202e"),
        ("quotation mark", '"'),
        ("combining accent", "\u0301"),
    ):
        yield spelled(f"{name} before", lambda key, around=around: around + key)  # type: ignore[misc]
        yield spelled(f"{name} after", lambda key, around=around: key + around)  # type: ignore[misc]
        yield spelled(f"{name} inside", lambda key, around=around: key[:30] + around + key[30:])  # type: ignore[misc]
    yield spelled("Cyrillic o", lambda key: "\u043e" + key[1:])
    yield spelled("Greek omicron", lambda key: "\u03bf" + key[1:])
    yield spelled("full-width prefix", lambda key: "\uff4f\uff42" + key[2:])
    yield spelled("full-width underscores", lambda key: key.replace("_", "\uff3f"))
    yield spelled("Arabic digit", lambda key: key[:-1] + "\u0661")
    yield spelled("emoji after", lambda key: key + "\U0001f511")


def _in_place() -> Iterator[BadKey]:
    yield sent("empty", lambda _: "")
    yield sent("a placeholder", lambda _: "<API_KEY>")
    yield sent("null", lambda _: "null")
    yield sent("a query", lambda _: "' or '1'='1")
    yield sent("8 KiB", lambda ring: ring.good + "A" * 8192)
    yield sent("an access token", lambda _: good_token("EdDSA"))
    yield BadKey("as a bearer token", lambda ring: [("authorization", f"Bearer {ring.good}")])
    yield BadKey("as a bearer token in small letters", lambda ring: [("authorization", f"bearer {ring.good}")])
    yield BadKey("in Authorization alone", lambda ring: [("authorization", ring.good)])
    yield BadKey("by the scheme ApiKey", lambda ring: [("authorization", f"ApiKey {ring.good}")])
    yield BadKey("as basic user", lambda ring: [("authorization", _basic(f"{ring.good}:"))])
    yield BadKey("as basic password", lambda ring: [("authorization", _basic(f":{ring.good}"))])
    for header in ("api-key", "x-apikey", "x-api-key-id", "proxy-authorization", "x-access-token"):
        yield BadKey(f"in {header}", lambda ring, header=header: [(header, ring.good)])  # type: ignore[misc]
    yield BadKey("in a cookie", lambda ring: [("cookie", f"x-api-key={ring.good}")])
    yield BadKey("sent twice", lambda ring: [("x-api-key", ring.good)] * 2)
    yield BadKey("with another key", lambda ring: [("x-api-key", ring.good), ("x-api-key", ring.other)])
    yield BadKey("with an empty one", lambda ring: [("x-api-key", ring.good), ("x-api-key", "")])
    yield BadKey("with a good token", lambda ring: [("x-api-key", ring.good), ("authorization", _bearer())])
    yield BadKey("with a bad token", lambda ring: [("x-api-key", ring.good), ("authorization", "Bearer x")])
    yield BadKey("with an empty Authorization", lambda ring: [("x-api-key", ring.good), ("authorization", "")])


def _basic(text: str) -> str:
    return f"Basic {base64.b64encode(text.encode()).decode()}"


def _bearer() -> str:
    return f"Bearer {good_token('EdDSA')}"


BAD_KEYS = (*_looked_up(), *_in_form(), *_in_signs(), *_in_place())
assert len({bad.name for bad in BAD_KEYS}) == len(BAD_KEYS), "a bad key's name occurs twice"
