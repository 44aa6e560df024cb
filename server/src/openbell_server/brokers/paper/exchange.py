"""One HTTP request to the paper broker and its answer, which can also be cut off."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs
from uuid import UUID

import msgspec

from openbell_exchange.decisions import Refusal
from openbell_server.brokers.paper.keys import KEY_REFUSED, Key, key_of
from openbell_server.brokers.paper.profiles import PAPER, PROFILES
from openbell_server.brokers.paper.wire import OPERATOR_HEADER
from openbell_server.domain.identifiers import Symbol, canonical_symbol
from openbell_server.http_protocol import cut_connection

_BODY_BYTES_MAX: Final = 16_384
_Body = TypeVar("_Body")
# ASGI has no precise types.
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class ClientLeft(Exception): ...


class Exchange:
    def __init__(self, scope: Message, receive: Receive, send: Send) -> None:
        self.method = scope["method"]
        # Not `path`, which decodes an escaped slash inside a symbol.
        self.path = scope["raw_path"].decode("ascii", "replace")
        # The first part of the path may be the name of a profile.
        first, _, rest = self.path.removeprefix("/").partition("/")
        self.profile = PROFILES.get(first, PAPER)
        if first in PROFILES:
            self.path = f"/{rest}"
        query = scope["query_string"].decode("ascii", "replace")
        self._query: dict[str, list[str]] = parse_qs(query, keep_blank_values=True)
        self._scope = scope
        self._headers = scope["headers"]
        self._receive = receive
        self._send = send

    def allow_only(self, *names: str) -> None:
        """Refuse other or repeated query parameters, so that a misspelt one is not ignored."""
        for name, values in self._query.items():
            if name not in names or len(values) > 1:
                raise Refusal("malformed", f"the query may have {', '.join(names)}, each once")

    def parameter(self, name: str) -> str | None:
        return self._query[name][-1] if name in self._query else None

    def whole_number(self, name: str) -> int | None:
        text = self.parameter(name)
        if text is not None and not (text.isascii() and text.isdigit() and len(text) < 19):
            raise Refusal("malformed", f"{name} must be a whole number")
        return None if text is None else int(text)

    @property
    def key(self) -> Key | None:
        """The key of the request; None if it is not signed."""
        signed = [value.decode("ascii", "replace") for name, value in self._headers if name == b"authorization"]
        if not signed:
            return None
        key = key_of(signed[-1])
        if key is None:
            raise Refusal(KEY_REFUSED, "the authorization header cannot be read")
        return key

    @property
    def operator_secret(self) -> bytes:
        """Empty if the request has none."""
        return b"".join(value for name, value in self._headers if name == OPERATOR_HEADER.encode())

    async def body(self, kind: type[_Body]) -> _Body:
        content = b""
        more = True
        while more:
            message = await self._receive()
            if message["type"] != "http.request":
                raise ClientLeft("the client left before its body was complete")
            content += message.get("body", b"")
            more = message.get("more_body", False)
            if len(content) > _BODY_BYTES_MAX:
                raise Refusal("malformed", f"the body is larger than {_BODY_BYTES_MAX} bytes")
        try:
            return msgspec.json.decode(content, type=kind)
        except msgspec.DecodeError as trouble:
            raise Refusal("malformed", str(trouble)) from trouble

    async def begin(self, status: int, content_type: bytes, *more: tuple[bytes, bytes]) -> None:
        headers = [(b"content-type", content_type), *more]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, content: bytes, *, more: bool) -> None:
        await self._send({"type": "http.response.body", "body": content, "more_body": more})

    async def answer(
        self, status: int, body: msgspec.Struct | dict[str, str], *, retry_after: int | None = None
    ) -> None:
        content = msgspec.json.encode(body)
        more = [] if retry_after is None else [(b"retry-after", b"%d" % retry_after)]
        await self.begin(status, b"application/json", (b"content-length", b"%d" % len(content)), *more)
        await self.write(content, more=False)

    async def gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def cut(self) -> None:
        self.abort()
        await self.gone()

    def abort(self) -> None:
        cut_connection(self._scope)


def account_of(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError as trouble:
        raise Refusal("malformed", "the account id must be a UUID") from trouble


def symbol_of(text: str) -> Symbol:
    symbol = canonical_symbol(text)
    if symbol is None:
        raise Refusal("invalid_order", "the symbol cannot be read")
    return symbol
