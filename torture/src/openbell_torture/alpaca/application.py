"""One address of Alpaca: its commands, what can be asked of it, and its stream."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from urllib.parse import unquote
from uuid import UUID

from openbell_exchange.decisions import Refusal
from openbell_torture.alpaca.commands import Commands
from openbell_torture.alpaca.engine import Broken, Cut, Engine, RequestKind
from openbell_torture.alpaca.stream import Stream
from openbell_torture.alpaca.views import Views
from openbell_torture.alpaca.wire import Caller, Refused, account_of, caller, encode, fields_of, translated
from openbell_torture.http_request import ClientLeft, HttpRequest, Message, Receive, Send, TooLong

_ORDERS: Final = "/v2/orders"
_COMMANDS: Final = frozenset({"POST", "PATCH", "DELETE"})
_AWAY: Final = b"<html><head><title>504 Gateway Time-out</title></head></html>"
_JSON: Final = b"application/json; charset=UTF-8"


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it came: POST, PATCH and DELETE are commands."""

    method: str
    path: str
    account_id: UUID | None
    # The order that is named, if one is.
    name: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    # False if the client left before its body was complete.
    is_whole: bool = True


class Observer(Protocol):
    """Sees every request and every answer."""

    def asked(self, asked: Asked) -> object:
        """Returns what belongs to the request, for `answered`."""

    def answered(self, of: object, status: int, body: object) -> None:
        """The answer was sent; it need not arrive."""

    def streamed(self, body: object) -> None:
        """A message of the stream was sent."""


class AlpacaApplication:
    """The paper or the live address."""

    def __init__(self, engine: Engine, observer: Observer, *, is_live: bool = False) -> None:
        self._engine = engine
        self._observer = observer
        self._is_live = is_live
        self._commands = Commands(engine)
        self._views = Views(engine, is_live=is_live)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            stream = Stream(self._engine, self._observer.streamed, scope, send, is_live=self._is_live)
            await stream.serve(receive)
            return
        request = HttpRequest(scope, receive, send)
        try:
            await self._serve(request)
        except (Cut, ClientLeft):
            await request.cut()

    async def _serve(self, request: HttpRequest) -> None:
        is_command = request.path.startswith(_ORDERS) and request.method in _COMMANDS
        try:
            asked = await self._read(request, is_command=is_command)
        except Refused as refused:
            await request.answer(refused.status, _JSON, encode(refused.body), refused.headers)
            return
        of = self._observer.asked(asked)
        if not asked.is_whole:
            raise ClientLeft
        try:
            await self._engine.admit(RequestKind.COMMAND if is_command else RequestKind.READ)
            status, body = await (self._command(request, asked) if is_command else self._view(request))
        except (Refused, Refusal) as error:
            no = translated(error, request.method) if isinstance(error, Refusal) else error
            status, body = no.status, no.body
            await request.answer(status, _JSON, encode(body), no.headers)
        except Broken:
            status, body = 504, None
            await request.answer(status, b"text/html", _AWAY, {})
        else:
            await request.answer(status, _JSON, b"" if body is None else encode(body), {})
        self._observer.answered(of, status, body)

    async def _view(self, request: HttpRequest) -> tuple[int, Any]:
        if request.method != "GET":
            raise Refused(404, 40410000, "endpoint not found")
        return 200, await self._views.answer(request, self._caller(request))

    async def _command(self, request: HttpRequest, asked: Asked) -> tuple[int, Any]:
        who, name = self._caller(request), asked.name
        if name is None and request.method == "POST":
            return 200, await self._commands.submit(who, asked.fields)
        if name is None and request.method == "DELETE":
            return 207, await self._commands.cancel_all(who)
        if name is not None and request.method == "PATCH":
            return 200, await self._commands.replace(who, name, asked.fields)
        if name is not None and request.method == "DELETE":
            await self._commands.cancel(who, name)
            return 204, None
        raise Refused(405, 40510000, "method not allowed")

    def _caller(self, request: HttpRequest) -> Caller:
        return caller(_key_id(request), request.header(b"apca-api-secret-key"), is_live=self._is_live)

    async def _read(self, request: HttpRequest, *, is_command: bool) -> Asked:
        account_id = account_of(_key_id(request))
        name = unquote(request.path.removeprefix(_ORDERS).removeprefix("/")) or None if is_command else None
        if not is_command or request.method == "DELETE":
            return Asked(request.method, request.path, account_id, name)
        try:
            fields = fields_of(await request.body())
        except TooLong as error:
            raise Refused(400, 40010000, "request body format is invalid") from error
        except ClientLeft:
            return Asked(request.method, request.path, account_id, name, is_whole=False)
        return Asked(request.method, request.path, account_id, name, fields)


def _key_id(request: HttpRequest) -> str:
    return request.header(b"apca-api-key-id")
