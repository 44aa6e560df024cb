"""Signs users in to the console of `dev`: the authorization code flow with PKCE, and a page to choose a role."""

import base64
import hashlib
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import escape
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final, Generic, TypeVar
from urllib.parse import urlencode

from openbell_server.domain.access.principals import Role

CONSOLE_CLIENT: Final = "openbell-console"
CODE_SECONDS: Final = 60.0
CHOICE_SECONDS: Final = 600.0
REFRESH_SECONDS: Final = 24 * 3600.0
KEPT_MAX: Final = 1000
_COOKIE: Final = "openbell-dev-issuer"
_ROLES: Final = {
    Role.ADMIN: "trades, changes controls, keys and accounts, and resumes after halts",
    Role.MEMBER: "trades and halts",
    Role.READ_ONLY: "reads",
}
_POLICY: Final = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_PAGE: Final = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>Openbell dev: sign in</title></head>
<body><h1>Sign in to the console of dev</h1>{body}</body>
</html>
"""
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: str


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the console asked for."""

    state: str
    nonce: str
    challenge: str


@dataclass(frozen=True, slots=True)
class _Chosen:
    asked: _Asked
    role: Role


@dataclass(slots=True)
class _Kept(Generic[Value]):
    """A limited number of values by a random name; each is taken once."""

    seconds: float
    _values: dict[str, tuple[float, Value]] = field(default_factory=dict)

    def add(self, value: Value) -> str:
        now, name = time.monotonic(), secrets.token_urlsafe(24)
        self._values = {key: each for key, each in self._values.items() if each[0] > now}
        while len(self._values) >= KEPT_MAX:
            del self._values[next(iter(self._values))]
        self._values[name] = now + self.seconds, value
        return name

    def take(self, name: str) -> Value | None:
        until, value = self._values.pop(name, (0.0, None))
        return value if until > time.monotonic() else None


class CodeFlow:
    """`issue_access` makes an access token of a role, `issue_id` an id token with a nonce.

    Every user of this machine reaches the issuer, so a sign-in needs the key, which only the terminal of `dev` shows.
    The browser that had it once keeps a cookie.
    """

    def __init__(
        self, issue_access: Callable[[Role], str], issue_id: Callable[[str, str], str], lifetime_seconds: int
    ) -> None:
        self.key = secrets.token_urlsafe(12)
        # The console's callback, known once its port is.
        self.redirect = ""
        self._remembered = secrets.token_urlsafe(24)
        self._issue_access = issue_access
        self._issue_id = issue_id
        self._lifetime_seconds = lifetime_seconds
        self._choices = _Kept[_Asked](CHOICE_SECONDS)
        self._codes = _Kept[_Chosen](CODE_SECONDS)
        self._refreshes = _Kept[Role](REFRESH_SECONDS)

    def authorize(self, query: Mapping[str, str], cookies: str) -> Reply:
        wanted = {
            "response_type": "code",
            "client_id": CONSOLE_CLIENT,
            "redirect_uri": self.redirect,
            "code_challenge_method": "S256",
        }
        if not self.redirect or any(query.get(name) != value for name, value in wanted.items()):
            return _page(400, "<p>This is not a sign-in of the console that dev started.</p>")
        has_key = _is_same(query.get("login_hint", ""), self.key)
        if not (has_key or _is_same(_cookie(cookies), self._remembered)):
            return _page(
                403,
                "<p>Open the address of the console that <code>openbell-server dev</code> printed: it has a key.</p>",
            )
        asked = _Asked(query.get("state", ""), query.get("nonce", ""), query.get("code_challenge", ""))
        ticket = self._choices.add(asked)
        links = "".join(
            f'<li><a href="choose?{escape(urlencode({"ticket": ticket, "role": role}))}">{role}</a>: {may}</li>'
            for role, may in _ROLES.items()
        )
        remember = f"{_COOKIE}={self._remembered}; Path=/users; HttpOnly; SameSite=Lax; Max-Age=86400"
        return _page(200, f"<p>As which role of Acme Trading?</p><ul>{links}</ul>", {"set-cookie": remember})

    def choose(self, query: Mapping[str, str]) -> Reply:
        asked = self._choices.take(query.get("ticket", ""))
        if asked is None or query.get("role") not in set(Role):
            return _page(400, "<p>This sign-in has ended. Begin again at the console.</p>")
        code = self._codes.add(_Chosen(asked, Role(query["role"])))
        answer = urlencode({"code": code, "state": asked.state})
        return Reply(303, {"location": f"{self.redirect}?{answer}", "cache-control": "no-store"}, "")

    def token(self, form: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        if form.get("grant_type") == "refresh_token":
            role = self._refreshes.take(form.get("refresh_token", ""))
            return (400, {"error": "invalid_grant"}) if role is None else (200, self._tokens(role))
        chosen = self._codes.take(form.get("code", ""))
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (
            chosen is None
            or form.get("redirect_uri") != self.redirect
            or not _is_same(challenge, chosen.asked.challenge)
        ):
            return 400, {"error": "invalid_grant"}
        return 200, self._tokens(chosen.role) | {"id_token": self._issue_id(CONSOLE_CLIENT, chosen.asked.nonce)}

    def _tokens(self, role: Role) -> dict[str, Any]:
        return {
            "access_token": self._issue_access(role),
            "refresh_token": self._refreshes.add(role),
            "token_type": "Bearer",
            "expires_in": self._lifetime_seconds,
        }


def _page(status: int, body: str, headers: Mapping[str, str] | None = None) -> Reply:
    common = {
        "content-type": "text/html; charset=utf-8",
        "content-security-policy": _POLICY,
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
        "cache-control": "no-store",
    }
    return Reply(status, {**common, **(headers or {})}, _PAGE.format(body=body))


def _is_same(one: str, other: str) -> bool:
    return secrets.compare_digest(one.encode(), other.encode())


def _cookie(header: str) -> str:
    try:
        found = SimpleCookie(header).get(_COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""
