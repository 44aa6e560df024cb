"""Requests to the console and its answers, with the headers that every answer has."""

import json
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from typing import Any, Final
from urllib.parse import parse_qsl
from uuid import uuid4

from openbell_server.domain.errors import CODES, Code, Problem

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self';"
    " connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types openbell-worker"
)
SECURITY_HEADERS: Final[Headers] = [
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
]
STRICT_TRANSPORT: Final = (b"strict-transport-security", b"max-age=31536000")
# RFC 9110, 8.6: they have no length either.
_WITHOUT_BODY: Final = frozenset({204, 304})
NO_STORE: Final = (b"cache-control", b"no-store")
# Errors that only the console answers.
CONSOLE_CODES: Final = {
    "signed_out": Code(401, "Nobody is signed in", "Sign in at /console/login, then send the request again."),
    "cross_site": Code(
        403,
        "The request does not come from the console's pages",
        "Send it from a page of the console, with the header x-openbell-console: 1.",
    ),
}
_CODES: Final = {**CODES, **CONSOLE_CODES}
_PAGE: Final = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>{title}</title></head>
<body><h1>{title}</h1>{body}</body>
</html>
"""


class ConsoleProblem(Exception):
    """An error of CONSOLE_CODES, as a Problem is one of the api's codes."""

    def __init__(self, code: str, detail: str) -> None:
        assert code in CONSOLE_CODES, code
        super().__init__(detail)
        self.code = code
        self.detail = detail


@dataclass(frozen=True)
class Request:
    scope: Scope

    @property
    def method(self) -> str:
        return str(self.scope["method"])

    @cached_property
    def path(self) -> str:
        """As it was sent: nothing is decoded."""
        raw: bytes = self.scope.get("raw_path") or self.scope["path"].encode()
        return raw.partition(b"?")[0].decode("latin-1")

    @property
    def query(self) -> bytes:
        found: bytes = self.scope["query_string"]
        return found

    def parameter(self, name: str) -> str | None:
        """None if it is absent or occurs twice."""
        values = [value for key, value in parse_qsl(self.query.decode("latin-1"), max_num_fields=50) if key == name]
        return values[0] if len(values) == 1 else None

    def header(self, name: bytes) -> bytes | None:
        """None if it is absent or occurs twice."""
        values = [value for key, value in self.scope["headers"] if key == name]
        return values[0] if len(values) == 1 else None


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes = b""
    headers: Headers = field(default_factory=list)

    async def send(self, send: Send, *, is_head: bool = False) -> None:
        headers = [*self.headers, *SECURITY_HEADERS]
        if self.status not in _WITHOUT_BODY:
            headers.append((b"content-length", b"%d" % len(self.body)))
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if is_head else self.body})


def json_answer(body: object, status: int = 200) -> Answer:
    return Answer(status, json.dumps(body).encode(), [(b"content-type", b"application/json"), NO_STORE])


def redirect(address: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> Answer:
    return Answer(303, b"", [(b"location", address.encode("ascii")), NO_STORE, *headers])


def page(status: int, title: str, paragraphs: Iterable[str], link: tuple[str, str] | None = None) -> Answer:
    """A page without scripts and styles; the texts are escaped. The link is an address and its text."""
    body = "".join(f"<p>{escape(each)}</p>" for each in paragraphs)
    if link is not None:
        body += f'<p><a href="{escape(link[0])}">{escape(link[1])}</a></p>'
    text = _PAGE.format(title=escape(title), body=body)
    return Answer(status, text.encode(), [(b"content-type", b"text/html; charset=utf-8"), NO_STORE])


def problem_answer(problem: Problem | ConsoleProblem, headers: Iterable[tuple[bytes, bytes]] = ()) -> Answer:
    """A problem document in the form of the api's."""
    code, request_id = _CODES[problem.code], uuid4().hex
    errors = [
        {"pointer": each.pointer, "code": each.code, "message": each.message}
        for each in (problem.errors if isinstance(problem, Problem) else ())
    ]
    body = {
        "type": f"urn:openbell:problem:{problem.code}",
        "title": code.title,
        "status": code.status,
        "detail": problem.detail,
        "code": problem.code,
        "remedy": code.remedy,
        "request_id": request_id,
        "errors": errors,
    }
    if code.status in (429, 503):
        headers = [*headers, (b"retry-after", b"1")]
    kind = [(b"content-type", b"application/problem+json"), NO_STORE, (b"x-request-id", request_id.encode())]
    return Answer(code.status, json.dumps(body).encode(), [*kind, *headers])
