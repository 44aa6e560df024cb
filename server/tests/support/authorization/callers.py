"""Who calls in the authorization table: every kind of principal, sound or with a flaw."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a caller turns out to be; who brings no good credential is nobody."""

    NOBODY = "nobody"
    TWO = "two credentials"
    USER = "user"
    SERVICE = "service account"
    API_KEY = "API key"


class Home(StrEnum):
    """The organization that a caller belongs to."""

    PLAIN = "an organization"
    INTERNAL = "an internal organization"
    SHUT = "a disabled organization"
    NONE = "none"
    UNKNOWN = "an organization that is not known here"


# Who has a token for none of our organizations.
HOMELESS = frozenset({Home.NONE, Home.UNKNOWN})


class Header(StrEnum):
    """What a caller sends as x-organization-id."""

    ABSENT = "absent"
    OWN = "its own organization"
    FOREIGN = "another organization"
    UNKNOWN = "an organization that is not there"
    MALFORMED = "no id at all"


PAPER, LIVE = "paper", "live"
ADMIN, MEMBER, READ_ONLY = "admin", "member", "read_only"
ROLES = frozenset({ADMIN, MEMBER, READ_ONLY})
EVERY_SCOPE = frozenset(
    {"credential:read", "intent:read", "account:read", "control:read", "event:read", "reference:edit", "webhook:read"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """One principal; `flaw` names what is wrong with its credential, if anything is."""

    name: str
    kind: Kind
    flaw: str = ""
    home: Home = Home.PLAIN
    environment: str = PAPER
    holds: frozenset[str] = frozenset()
    role: str | None = None
    header: Header = Header.ABSENT
    in_two: bool = False


def _user(name: str, role: str | None, **more: object) -> Caller:
    return Caller(name=f"user: {name}", kind=Kind.USER, role=role, **more)  # type: ignore[arg-type]


def _service(name: str, *holds: str, header: Header = Header.OWN) -> Caller:
    return Caller(name=f"service: {name}", kind=Kind.SERVICE, holds=frozenset(holds), header=header)


def _key(environment: str, name: str, *holds: str, **more: object) -> Caller:
    return Caller(
        name=f"{environment} key: {name}",
        kind=Kind.API_KEY,
        environment=environment,
        holds=frozenset(holds),
        **more,  # type: ignore[arg-type]
    )


def _every_permission(environment: str) -> tuple[str, ...]:
    plain = ("intent:read", "intent:edit", "event:read", "account:read", "account:edit", "credential:edit")
    return (*plain, "control:read", f"control:edit:{environment}", "control:loosen", "webhook:edit")


def _keys(environment: str) -> Iterator[Caller]:
    yield _key(environment, "no permission")
    yield _key(environment, "intent read", "intent:read")
    yield _key(environment, "intent edit", "intent:edit")
    # Some calls of the table loosen; keys that may only tighten have a proof of their own.
    yield _key(environment, "control edit", f"control:edit:{environment}", "control:loosen")
    yield _key(environment, "every permission", *_every_permission(environment))


CALLERS = (
    Caller(name="none", kind=Kind.NOBODY),
    *(
        Caller(name=f"bad token: {flaw}", kind=Kind.NOBODY, flaw=flaw)
        for flaw in (
            "expired",
            "iss of a stranger",
            "aud of another",
            "alg 'HS256'",
            "signed by a stranger",
            "typ 'JWT'",
        )
    ),
    # A role without an organization is worth nothing.
    _user("no organization", ADMIN, home=Home.NONE),
    _user("unknown organization", ADMIN, home=Home.UNKNOWN),
    _user("admin", ADMIN),
    _user("member", MEMBER),
    _user("read-only", READ_ONLY),
    _user("no role", None),
    _user("admin of an internal organization", ADMIN, home=Home.INTERNAL),
    Caller(name="user: disabled", kind=Kind.NOBODY, flaw="denied", role=ADMIN),
    _user("member of two organizations", MEMBER, in_two=True),
    _user("admin, own header", ADMIN, header=Header.OWN),
    _user("admin, another's header", ADMIN, header=Header.FOREIGN),
    _service("no scope"),
    _service("credential:read", "credential:read"),
    _service("intent:read", "intent:read"),
    _service("both", "credential:read", "intent:read"),
    _service("every scope", *EVERY_SCOPE),
    _service("without header", *EVERY_SCOPE, header=Header.ABSENT),
    _service("wrong header", *EVERY_SCOPE, header=Header.UNKNOWN),
    _service("malformed header", *EVERY_SCOPE, header=Header.MALFORMED),
    *_keys(PAPER),
    *_keys(LIVE),
    _key(PAPER, "own header", *_every_permission(PAPER), header=Header.OWN),
    _key(PAPER, "another's header", *_every_permission(PAPER), header=Header.FOREIGN),
    _key(PAPER, "disabled", *_every_permission(PAPER), flaw="disabled"),
    _key(PAPER, "revoked", *_every_permission(PAPER), flaw="revoked"),
    _key(PAPER, "expired", *_every_permission(PAPER), flaw="expired"),
    _key(PAPER, "of a disabled organization", *_every_permission(PAPER), home=Home.SHUT),
    Caller(name="two credentials", kind=Kind.TWO, holds=frozenset(_every_permission(PAPER))),
)
