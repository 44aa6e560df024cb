"""Serves most submits without the framework: the same handler, without its routing and layers.

Only requests with the canonical path, no query, and a JSON body of a declared, permitted length match; every other
request takes the normal route to the same handler.
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any, Final
from uuid import UUID

from litestar import Litestar
from litestar.types import Message, Receive, Send

from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import AccountId
from openbell_server.transport.rest.entry import AnyRequest
from openbell_server.transport.rest.errors import ErrorRenderer

BODY_BYTES_MAX: Final = 64 * 1024
_PATH: Final = re.compile(rb"/v1/accounts/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/intents")
TEMPLATE: Final = "/v1/accounts/{account_id}/intents"
_LENGTH: Final = re.compile(rb"[0-9]{1,5}")


class Answer:
    """A response ready to be sent; headers exclude content-type and content-length."""

    __slots__ = ("content", "headers", "status")

    def __init__(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.status = status
        self.headers = headers
        self.content = content


SubmitHandler = Callable[[AnyRequest, AccountId], Awaitable[Answer]]
ServeFastPath = Callable[[AccountId, MutableMapping[str, Any], Receive, Send], Awaitable[None]]


class _Headers:
    __slots__ = ("_sent",)

    def __init__(self, sent: list[tuple[bytes, bytes]]) -> None:
        self._sent = sent

    def getall(self, name: str, default: list[str]) -> list[str]:
        wanted = name.encode()
        return [value.decode("latin-1") for name, value in self._sent if name == wanted] or default


class _PlainRequest:
    """The part of a request that the handler uses."""

    __slots__ = ("_receive", "app", "headers", "method", "scope")
    content_type: Final[tuple[str, dict[str, str]]] = ("application/json", {})
    query_params: Final[tuple[str, ...]] = ()

    def __init__(self, app: Litestar, scope: MutableMapping[str, Any], receive: Receive) -> None:
        self.app = app
        self.scope = scope
        self.method = scope["method"]
        self.headers = _Headers(scope["headers"])
        self._receive = receive

    async def stream(self) -> AsyncIterator[bytes]:
        """The body in parts; the HTTP server limits it to content-length."""
        is_last = False
        while not is_last:
            message: Any = await self._receive()
            if message["type"] == "http.disconnect":
                raise Problem("malformed_body", "the connection ended before the whole body arrived")
            is_last = not message.get("more_body", False)
            yield message.get("body", b"")


# In the scope of a request: what match_fast_path returned for it.
COMMANDED: Final = "openbell.commanded_account"


def match_fast_path(scope: MutableMapping[str, Any]) -> AccountId | None:
    """The account of the command, or None if the request must take the normal route."""
    if scope["method"] != "POST" or scope["query_string"]:
        return None
    path = _PATH.fullmatch(scope["raw_path"])
    if path is None:
        return None
    framing = [(name, value) for name, value in scope["headers"] if name in _FRAMING]
    lengths = [value for name, value in framing if name == b"content-length"]
    # Exactly one of each: repeated headers could contradict each other.
    if len(framing) != 2 or len(lengths) != 1 or (b"content-type", b"application/json") not in framing:
        return None
    length = lengths[0]
    if not _LENGTH.fullmatch(length) or int(length) > BODY_BYTES_MAX:
        return None
    return AccountId(UUID(path[1].decode()))


_FRAMING: Final = frozenset({b"content-type", b"content-length", b"transfer-encoding"})


async def serve_fast_path(
    app: Litestar,
    handle: SubmitHandler,
    render_error: ErrorRenderer,
    account_id: AccountId,
    scope: MutableMapping[str, Any],
    receive: Receive,
    send: Send,
) -> None:
    scope["path_template"] = TEMPLATE
    # It implements what the handler and the error renderer use of Litestar's request.
    request: Any = _PlainRequest(app, scope, receive)
    media_type = b"application/json"
    try:
        answer = await handle(request, account_id)
    except Exception as error:  # noqa: BLE001 - every error becomes a response
        rendered = render_error(request, error)
        assert rendered.status_code is not None
        media_type = b"application/problem+json"
        answer = Answer(rendered.status_code, rendered.headers, rendered.content)
    headers = [(name.encode(), value.encode()) for name, value in answer.headers.items()]
    headers += [(b"content-type", media_type), (b"content-length", str(len(answer.content)).encode())]
    start: Message = {"type": "http.response.start", "status": answer.status, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": answer.content, "more_body": False})
