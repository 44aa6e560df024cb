"""One HTTP exchange with the paper broker, in the words of its routes, and a way to break it off."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs
from uuid import UUID

import msgspec

from openbell_server.brokers.paper.keys import KEY_REFUSED, Key, key_of
from openbell_server.brokers.paper.profiles import PAPER, PROFILES
from openbell_server.brokers.paper.venue import Refusal
from openbell_server.cuttable_http import cut_connection
from openbell_server.domain.identifiers import Symbol, canonical_symbol

_BODY_BYTES_MAX: Final = 16_384
_Body = TypeVar("_Body")
# ASGI, as loosely typed as it is.
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class ClientLeft(Exception):
    """The client closed its connection before its request was complete."""


class Exchange:
    """One request and the way to answer it."""

    def __init__(self, scope: Message, receive: Receive, send: Send) -> None:
        """As ASGI gives them."""
        self.method = scope["method"]
        # Not `path`: a slash inside a symbol would be lost.
        self.path = scope["raw_path"].decode("ascii", "replace")
        # The first part of a path may say which kind of broker is meant.
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
        """Refuse any other query parameter, and one that is given twice: what is misspelt must not be passed over."""
        for name, values in self._query.items():
            if name not in names or len(values) > 1:
                raise Refusal("malformed", f"the query may have {', '.join(names)}, each once")

    def parameter(self, name: str) -> str | None:
        """The last value of a query parameter."""
        return self._query[name][-1] if name in self._query else None

    def whole_number(self, name: str) -> int | None:
        """A query parameter that must be a whole number if it is there."""
        text = self.parameter(name)
        if text is not None and not (text.isascii() and text.isdigit() and len(text) < 19):
            raise Refusal("malformed", f"{name} must be a whole number")
        return None if text is None else int(text)

    @property
    def key(self) -> Key | None:
        """What the request is signed with; None if it is not signed at all."""
        signed = [value.decode("ascii", "replace") for name, value in self._headers if name == b"authorization"]
        if not signed:
            return None
        key = key_of(signed[-1])
        if key is None:
            raise Refusal(KEY_REFUSED, "the authorization header cannot be read")
        return key

    async def body(self, kind: type[_Body]) -> _Body:
        """The body, strictly read."""
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
        """Send the head of an answer."""
        headers = [(b"content-type", content_type), *more]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, content: bytes, *, more: bool) -> None:
        """Send some of an answer."""
        await self._send({"type": "http.response.body", "body": content, "more_body": more})

    async def answer(
        self, status: int, body: msgspec.Struct | dict[str, str], *, retry_after: int | None = None
    ) -> None:
        """Send a whole answer."""
        more = [] if retry_after is None else [(b"retry-after", str(retry_after).encode())]
        await self.begin(status, b"application/json", *more)
        await self.write(msgspec.json.encode(body), more=False)

    async def gone(self) -> None:
        """Wait until the client has left."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def cut(self) -> None:
        """Close the connection without an answer."""
        self.abort()
        await self.gone()

    def abort(self) -> None:
        """Close the connection as it is."""
        cut_connection(self._scope)


def account_of(text: str) -> UUID:
    """The account that a path names."""
    try:
        return UUID(text)
    except ValueError as trouble:
        raise Refusal("malformed", "the account id must be a UUID") from trouble


def symbol_of(text: str) -> Symbol:
    """The one spelling of a symbol."""
    symbol = canonical_symbol(text)
    if symbol is None:
        raise Refusal("invalid_order", "the symbol cannot be read")
    return symbol
