"""Alpaca on this machine: its paper and its live address, with one engine behind both."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote
from uuid import UUID

import httpx
import msgspec

from loopbacks import Loopback
from loopbacks.alpaca_books import Books, books
from loopbacks.alpaca_commands import Commands
from loopbacks.alpaca_stream import Stream
from loopbacks.alpaca_views import Views
from loopbacks.alpaca_wire import (
    Caller,
    GatewayTimeout,
    Refused,
    account_of,
    caller,
    encode,
    fields_of,
    key_id_of,
)
from loopbacks.engine import engine
from loopbacks.serving import serving
from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.brokers.paper.exchange import ClientLeft, Exchange, Message, Receive, Send
from openbell_server.brokers.paper.venue import Refusal
from openbell_server.brokers.registry import BROKERS
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.credentials import Secrets
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.orders.intents import ActionType
from openbell_server.settings import Settings
from support.brokers.broker_writes import Write

_ORDERS: Final = "/v2/orders"
# Longer than the engine lets anybody hang.
_ENGINE_SECONDS: Final = 15
_COMMANDS: Final = {"POST": ActionType.CREATE, "PATCH": ActionType.REPLACE, "DELETE": ActionType.CANCEL}
_AWAY: Final = b"<html><head><title>504 Gateway Time-out</title></head></html>"


@dataclass(frozen=True, slots=True)
class AlpacaLoopback:
    """Implements Loopback."""

    addresses: Mapping[Environment, str]
    engine: Settings
    writes: list[Write]

    @property
    def definition(self) -> BrokerDefinition:
        """The adapter that is tried against it."""
        return BROKERS["alpaca"]

    def secrets(self, account_id: AccountId, environment: Environment = Environment.PAPER) -> Secrets | None:
        """A key says whose it is; each address lets in its own only."""
        return Secrets({"key_id": key_id_of(account_id, environment), "secret": f"secret of {account_id}"})


class AlpacaApplication:
    """One of the two addresses."""

    def __init__(self, environment: Environment, client: httpx.AsyncClient, books: Books, writes: list[Write]) -> None:
        """Writes are noted as they arrive, in the order of both addresses."""
        self._environment = environment
        self._client = client
        self._books = books
        self._writes = writes
        self._commands = Commands(client, books)
        self._views = Views(client, books, environment)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request, or serve one stream."""
        if scope["type"] == "websocket":
            await Stream(self._environment, self._client, self._books, scope, send).serve(receive)
            return
        exchange = Exchange(scope, receive, send)
        signed = {name: value.decode("ascii", "replace") for name, value in scope["headers"]}
        try:
            await self._route(exchange, signed.get(b"apca-api-key-id", ""), signed.get(b"apca-api-secret-key", ""))
        except Refused as refused:
            await _answer(exchange, refused.status, encode(refused.body), refused.headers)
        except GatewayTimeout:
            await exchange.begin(504, b"text/html")
            await exchange.write(_AWAY, more=False)
        except (httpx.HTTPError, ClientLeft):
            # No answer came from the engine, so none comes from here.
            await exchange.cut()

    async def _route(self, exchange: Exchange, key_id: str, secret: str) -> None:
        name = unquote(exchange.path.removeprefix(_ORDERS).removeprefix("/")) or None
        if exchange.path.startswith(_ORDERS) and exchange.method in _COMMANDS:
            fields = await self._read(exchange, account_of(key_id), name)
            who = caller(key_id, secret, self._environment)
            await self._command(exchange, who, name, fields)
        elif exchange.method == "GET":
            answer = await self._views.answer(exchange, caller(key_id, secret, self._environment))
            await _answer(exchange, 200, encode(answer))
        else:
            raise Refused(404, 40410000, "endpoint not found")

    async def _command(self, exchange: Exchange, who: Caller, name: str | None, fields: dict[str, Any]) -> None:
        if name is None and exchange.method == "POST":
            await _answer(exchange, 200, encode(await self._commands.submit(who, fields)))
        elif name is not None and exchange.method == "PATCH":
            await _answer(exchange, 200, encode(await self._commands.replace(who, name, fields)))
        elif name is not None and exchange.method == "DELETE":
            await self._commands.cancel(who, name)
            await _answer(exchange, 204, b"")
        else:
            raise Refused(405, 40510000, "method not allowed")

    async def _read(self, exchange: Exchange, account_id: UUID | None, name: str | None) -> dict[str, Any]:
        """A command's fields; it is on record from here on, whatever becomes of it."""
        action_type = _COMMANDS[exchange.method]
        try:
            if exchange.method == "DELETE":
                fields: dict[str, Any] = {}
            else:
                fields = fields_of(bytes(await exchange.body(msgspec.Raw)))
        except ClientLeft:
            self._writes.append(Write(action_type, str(account_id), name, whole=False))
            raise
        except Refusal as refusal:
            raise Refused(400, 40010000, "request body format is invalid") from refusal
        known = {
            "client_order_id": fields.get("client_order_id"),
            "symbol": fields.get("symbol"),
            "side": str(fields["side"]).upper() if fields.get("side") else None,
            "quantity": _text(fields.get("qty")),
            "limit_price": _text(fields.get("limit_price")),
        }
        body = {key: value for key, value in known.items() if value is not None}
        self._writes.append(Write(action_type, str(account_id), name, body))
        return fields


def _text(given: object) -> str | None:
    return None if given is None else str(given)


async def _answer(exchange: Exchange, status: int, content: bytes, headers: Mapping[str, str] | None = None) -> None:
    more = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    await exchange.begin(status, b"application/json; charset=UTF-8", *more)
    await exchange.write(content, more=False)


@asynccontextmanager
async def serve(broker: str, ledger_url: str) -> AsyncIterator[Loopback]:
    """Both addresses, until the end."""
    assert broker == "alpaca"
    writes: list[Write] = []
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=32, keepalive_expiry=2)
    async with (
        engine(ledger_url) as settings,
        books(ledger_url) as kept,
        httpx.AsyncClient(
            base_url=settings.paper_url, timeout=_ENGINE_SECONDS, limits=limits, trust_env=False
        ) as client,
        serving(AlpacaApplication(Environment.PAPER, client, kept, writes)) as paper,
        serving(AlpacaApplication(Environment.LIVE, client, kept, writes)) as live,
    ):
        yield AlpacaLoopback({Environment.PAPER: paper, Environment.LIVE: live}, settings, writes)
