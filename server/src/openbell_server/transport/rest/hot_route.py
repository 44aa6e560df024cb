"""The way of most commands past the framework: the same handler, without routing, signatures and layers around it.

It takes only the request that needs nothing of the framework: the canonical path without a query, a JSON body of a told
and permitted length. Whatever is unusual goes the long way, to the same handler.
"""

import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final
from uuid import UUID

from litestar import Litestar
from litestar.types import Message, Receive, Send

from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import AccountId
from openbell_server.transport.rest.entry import AnyRequest
from openbell_server.transport.rest.error_responses import ErrorRenderer

BODY_BYTES_MAX: Final = 64 * 1024
_PATH: Final = re.compile(rb"/v1/accounts/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/intents")
_TEMPLATE: Final = "/v1/accounts/{account_id}/intents"
_LENGTH: Final = re.compile(rb"[0-9]{1,5}")


class Answer:
    """What a handler says, ready to be sent."""

    __slots__ = ("content", "headers", "status")

    def __init__(self, status: int, headers: dict[str, str], content: bytes) -> None:
        """Headers have what is told beside the kind and length of the content."""
        self.status = status
        self.headers = headers
        self.content = content


SubmitHandler = Callable[[AnyRequest, AccountId], Awaitable[Answer]]
ServeHot = Callable[[AccountId, MutableMapping[str, Any], Receive, Send], Awaitable[None]]


class _Headers:
    __slots__ = ("_sent",)

    def __init__(self, sent: list[tuple[bytes, bytes]]) -> None:
        self._sent = sent

    def getall(self, name: str, default: list[str]) -> list[str]:
        wanted = name.encode()
        return [value.decode("latin-1") for name, value in self._sent if name == wanted] or default


class _PlainRequest:
    """As much of a request as the handler looks at."""

    __slots__ = ("_receive", "app", "headers", "method", "scope")
    content_type: Final[tuple[str, dict[str, str]]] = ("application/json", {})
    query_params: Final[tuple[str, ...]] = ()

    def __init__(self, app: Litestar, scope: MutableMapping[str, Any], receive: Receive) -> None:
        self.app = app
        self.scope = scope
        self.method = scope["method"]
        self.headers = _Headers(scope["headers"])
        self._receive = receive

    async def body(self) -> bytes:
        """All of it; its length was told, and the server reads no more than that."""
        message: Any = await self._receive()
        content: bytes = message.get("body", b"")
        while message.get("more_body"):
            message = await self._receive()
            content += message.get("body", b"")
        if message["type"] == "http.disconnect":
            raise Problem("malformed_body", "the connection ended before the body had come")
        return content


def hot_account(scope: MutableMapping[str, Any]) -> AccountId | None:
    """The account that a command is for, if its request may go the short way."""
    if scope["method"] != "POST" or scope["query_string"]:
        return None
    path = _PATH.fullmatch(scope["raw_path"])
    if path is None:
        return None
    told = [(name, value) for name, value in scope["headers"] if name in _TELLING]
    lengths = [value for name, value in told if name == b"content-length"]
    # Each once: of two that differ, nobody here decides which is meant.
    if len(told) != 2 or len(lengths) != 1 or (b"content-type", b"application/json") not in told:
        return None
    length = lengths[0]
    if not _LENGTH.fullmatch(length) or int(length) > BODY_BYTES_MAX:
        return None
    return AccountId(UUID(path[1].decode()))


_TELLING: Final = frozenset({b"content-type", b"content-length", b"transfer-encoding"})


async def serve_hot(
    app: Litestar,
    handle: SubmitHandler,
    render_error: ErrorRenderer,
    account_id: AccountId,
    scope: MutableMapping[str, Any],
    receive: Receive,
    send: Send,
) -> None:
    """Answer a command."""
    scope["path_template"] = _TEMPLATE
    # It has what the handler and the renderer of errors use of the framework's own.
    request: Any = _PlainRequest(app, scope, receive)
    media_type = b"application/json"
    try:
        answer = await handle(request, account_id)
    except Exception as error:  # noqa: BLE001 - every error is an answer
        rendered = render_error(request, error)
        assert rendered.status_code is not None
        media_type = b"application/problem+json"
        answer = Answer(rendered.status_code, rendered.headers, rendered.content)
    headers = [(name.encode(), value.encode()) for name, value in answer.headers.items()]
    headers += [(b"content-type", media_type), (b"content-length", str(len(answer.content)).encode())]
    start: Message = {"type": "http.response.start", "status": answer.status, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": answer.content, "more_body": False})
