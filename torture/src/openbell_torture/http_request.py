"""One HTTP request and its answer, which can also be cut off."""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final
from urllib.parse import parse_qs

_BODY_BYTES_MAX: Final = 16_384
# In the extensions of a scope: what aborts its connection.
ABORT: Final = "openbell_torture.abort"
# ASGI has no precise types.
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class ClientLeft(Exception): ...


class TooLong(Exception): ...


def abort(scope: Message) -> None:
    """Cut the connection; unsent data is dropped."""
    end = (scope.get("extensions") or {}).get(ABORT)
    if end is not None:
        end()


class HttpRequest:
    def __init__(self, scope: Message, receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        # Not `path`, which decodes an escaped slash inside a symbol.
        self.path: str = scope["raw_path"].decode("ascii", "replace")
        query = scope["query_string"].decode("ascii", "replace")
        self._query: dict[str, list[str]] = parse_qs(query, keep_blank_values=True)
        self._headers: dict[bytes, str] = {name: value.decode("ascii", "replace") for name, value in scope["headers"]}
        self._scope = scope
        self._receive = receive
        self._send = send

    def parameter(self, name: str) -> str | None:
        return self._query[name][-1] if name in self._query else None

    def header(self, name: bytes) -> str:
        return self._headers.get(name, "")

    async def body(self) -> bytes:
        """Raises ClientLeft or TooLong."""
        content = b""
        more = True
        while more:
            message = await self._receive()
            if message["type"] != "http.request":
                raise ClientLeft("the client left before its body was complete")
            content += message.get("body", b"")
            more = message.get("more_body", False)
            if len(content) > _BODY_BYTES_MAX:
                raise TooLong(f"the body is larger than {_BODY_BYTES_MAX} bytes")
        return content

    async def answer(self, status: int, content_type: bytes, content: bytes, headers: Mapping[str, str]) -> None:
        more = [(name.encode(), value.encode()) for name, value in headers.items()]
        length = [] if status == 204 else [(b"content-length", b"%d" % len(content))]
        start = {"type": "http.response.start", "status": status}
        await self._send({**start, "headers": [(b"content-type", content_type), *length, *more]})
        await self._send({"type": "http.response.body", "body": content})

    async def gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def cut(self) -> None:
        abort(self._scope)
        await self.gone()
