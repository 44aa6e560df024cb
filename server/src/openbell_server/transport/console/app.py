"""The console's application: which path is answered by what, and the checks that every request passes first."""

from dataclasses import dataclass
from typing import Final

import structlog

from openbell_server.application.console.ports import ProviderAway, SignInRefused
from openbell_server.application.console.sessions import ConsoleSessions, Session
from openbell_server.application.console.sign_in import PENDING_SECONDS, SignIn
from openbell_server.domain.access.console_sessions import HOME, SESSION_SECONDS
from openbell_server.domain.errors import Problem
from openbell_server.transport.console.cookies import (
    PENDING,
    SESSION,
    clear_cookie,
    read_cookie,
    read_session,
    set_cookie,
)
from openbell_server.transport.console.forward import EVENT_STREAM, Forward, is_forwarded
from openbell_server.transport.console.messages import (
    NO_STORE,
    Answer,
    ConsoleProblem,
    Receive,
    Request,
    Scope,
    Send,
    json_answer,
    page,
    problem_answer,
    redirect,
)
from openbell_server.transport.console.pages import BASE, Pages

READING: Final = frozenset({"GET", "HEAD"})
METHODS: Final = READING | {"POST", "PUT", "PATCH", "DELETE"}
_AGAIN: Final = ("/console/login", "Sign in again")
_FAILED: Final = "The sign-in was not completed"


@dataclass(frozen=True, slots=True)
class ConsoleApplication:
    """`unavailable` lists the errors of the database after which the same request may pass."""

    sessions: ConsoleSessions
    sign_in: SignIn
    forward: Forward
    pages: Pages
    version: str
    unavailable: tuple[type[Exception], ...]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        is_head = request.method == "HEAD"
        try:
            answer = await self._answer(request, receive, send)
        except (Problem, ConsoleProblem) as problem:
            answer = problem_answer(problem)
        except self.unavailable as error:
            structlog.get_logger().warning("unavailable", error=repr(error))
            answer = problem_answer(Problem("unavailable", "the console's database did not answer"))
        if answer is not None:
            await answer.send(send, is_head=is_head)

    async def _answer(self, request: Request, receive: Receive, send: Send) -> Answer | None:
        """None if the answer was sent already."""
        path = request.path
        if request.method not in METHODS:
            raise Problem("method_not_allowed", "the console takes GET, HEAD, POST, PUT, PATCH and DELETE")
        _check_site(request)
        if is_forwarded(path):
            session = await self._session(request)
            await self.forward(request, session, receive, send)
            return None
        if request.method in READING:
            return await self._read(request)
        if request.method == "POST" and path in ("/console/logout", "/console/logout-everywhere"):
            return await self._sign_out(request, everywhere=path.endswith("everywhere"))
        raise Problem("not_found", "the console has no such path")

    async def _read(self, request: Request) -> Answer:
        path = request.path
        if path == "/console/session":
            session = await self._session(request, is_use=False)
            return json_answer(
                {
                    "signed_in": True,
                    "plane": "tenant",
                    "expires_at": session.expires_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
                    "version": self.version,
                }
            )
        if path == "/console/login":
            return await self._begin(request)
        if path == "/console/callback":
            return await self._finish(request)
        if path in ("/", "/console"):
            return redirect(HOME)
        if path.startswith(BASE):
            return self.pages.answer(request)
        raise Problem("not_found", "the console has no such path")

    async def _session(self, request: Request, *, is_use: bool | None = None) -> Session:
        """A stream that stays open is no use of the session: the user may be away."""
        cookie = read_session(request)
        if is_use is None:
            is_use = EVENT_STREAM not in (request.header(b"accept") or b"")
        session = None if cookie is None else await self.sessions.find(cookie, is_use=is_use)
        if session is None:
            raise ConsoleProblem("signed_out", "the browser has no session of the console, or it has ended")
        return session

    async def _begin(self, request: Request) -> Answer:
        try:
            begun = await self.sign_in.begin(request.parameter("then"), request.parameter("login_hint"))
        except ProviderAway as trouble:
            return _provider_away(trouble)
        return redirect(begun.address, [set_cookie(PENDING, begun.pending, PENDING_SECONDS)])

    async def _finish(self, request: Request) -> Answer:
        pending, state, code = read_cookie(request, PENDING), request.parameter("state"), request.parameter("code")
        if pending is None or state is None or code is None:
            return _failed("Nobody is signing in with this browser now, or the identity provider refused.")
        try:
            cookie, then = await self.sign_in.finish(pending, state, code, read_session(request))
        except ProviderAway as trouble:
            return _provider_away(trouble)
        except SignInRefused as refused:
            structlog.get_logger().warning("sign_in_refused", reason=refused.reason)
            return _failed(f"The reason is {refused.reason}.")
        return redirect(then, [set_cookie(SESSION, cookie, SESSION_SECONDS), clear_cookie(PENDING)])

    async def _sign_out(self, request: Request, *, everywhere: bool) -> Answer:
        cookie = read_session(request)
        if cookie is not None and everywhere:
            await self.sessions.end_everywhere(cookie)
        elif cookie is not None:
            await self.sessions.end(cookie)
        return Answer(204, b"", [NO_STORE, clear_cookie(SESSION)])


def _check_site(request: Request) -> None:
    """Raise unless a change comes from the console's own pages. Reads may also be typed into the address bar."""
    site = request.header(b"sec-fetch-site")
    if request.method not in READING:
        if site != b"same-origin" or request.header(b"x-openbell-console") != b"1":
            raise ConsoleProblem("cross_site", "Sec-Fetch-Site is not same-origin, or x-openbell-console is not 1")
    elif request.path.startswith("/v1") and site not in (None, b"same-origin", b"none"):
        raise ConsoleProblem("cross_site", "Sec-Fetch-Site names another site")


def _failed(why: str) -> Answer:
    return page(400, _FAILED, [why], _AGAIN)


def _provider_away(trouble: ProviderAway) -> Answer:
    structlog.get_logger().warning("provider_away", error=str(trouble))
    return page(503, _FAILED, ["The identity provider did not answer. Try again in a moment."], _AGAIN)
