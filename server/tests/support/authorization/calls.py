"""Makes the calls of the authorization table, over HTTP and gRPC, and reads their answers."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import grpc
import httpx

from openbell.wire import trading_pb2 as pb
from openbell.wire import trading_pb2_grpc
from openbell_server.adapters.postgres.connection import Pool
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.errors import CODES
from support.authorization.callers import Kind
from support.authorization.expected_answers import Answer, Cell, expected
from support.authorization.table import Object
from support.authorization.world import READ_CODE, REMOVED_CODE, SYMBOL, Members, Place, World
from support.builders.tenant import an_account
from support.identity.bad_keys import an_unknown_key
from support.identity.identity_provider import PEOPLE
from support.rest.event_streams import event_stream
from support.rest.rest_api import PROBLEM_FIELDS, RecordedSealer, cancel_body, create_body, replace_body, rest_api

CALL_SECONDS = 60
# The same in every call, so that answers can be compared byte by byte.
REQUEST_ID = "cell"
STATUSES = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.FAILED_PRECONDITION: 409,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.UNAVAILABLE: 503,
}


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back; headers without those that differ from one answer to the next."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def code(self) -> str:
        """The problem's code; plain text is its own."""
        content = dict(self.headers).get("content-type", "")
        if content.startswith("text/plain"):
            return self.body.decode()
        if self.status < 400:
            return ""
        body = json.loads(self.body)
        assert content == "grpc" or (content == "application/problem+json" and set(body) == PROBLEM_FIELDS), body
        return str(body["code"])


@dataclass(frozen=True, slots=True)
class Target:
    """A call without its caller; one to the stream has the RPC's name as its method, and the account as its path."""

    method: str
    path: str
    body: object | None


@dataclass(frozen=True, slots=True)
class Door:
    """Both interfaces of one platform."""

    http: httpx.AsyncClient
    grpc: "trading_pb2_grpc.TradingServiceAsyncStub"

    async def send(self, target: Target, headers: list[tuple[str, str]]) -> Reply:
        """One call with these headers, over the interface that the target is of."""
        if target.method.startswith("trading."):
            return await self._follow(target, headers)
        sent = [(name.encode(), value.encode("utf-8", "surrogatepass")) for name, value in headers]
        content = b"" if target.body is None else json.dumps(target.body).encode()
        if target.body is not None:
            sent.append((b"content-type", b"application/json"))
        answer = await self.http.request(
            target.method,
            target.path,
            headers=[*sent, (b"x-request-id", REQUEST_ID.encode())],
            content=content,
        )
        kept = tuple(sorted((name, value) for name, value in answer.headers.items() if name != "date"))
        return Reply(answer.status_code, kept, answer.content)

    async def _follow(self, target: Target, metadata: list[tuple[str, str]]) -> Reply:
        """Enter the stream, and leave it with its first frame."""
        if not all(value.isascii() and value.isprintable() for _, value in metadata):
            raise ValueError("gRPC sends printable ASCII only")
        request = pb.Subscribe(
            trading_account_id=target.path, subscriptions=[pb.EVENT_TYPE_BROKER_ORDER], subscription_id="one"
        )
        call: Any
        if target.method.endswith("/StreamEvents"):
            asked = iter([pb.StreamEventsRequest(subscribe=request)])
            call = self.grpc.StreamEvents(asked, metadata=tuple(metadata), timeout=CALL_SECONDS)
        else:
            call = self.grpc.SubscribeEvents(request, metadata=tuple(metadata), timeout=CALL_SECONDS)
        kind = ("content-type", "grpc")
        try:
            frame = await call.read()
            assert isinstance(frame, pb.TradingEvent)
            # What one of several subscriptions may not is told in a frame.
            if (told := frame.error).code:
                body = json.dumps({"code": told.code, "detail": told.message}).encode()
                return Reply(CODES[told.code].status, (kind,), body)
            assert frame.WhichOneof("event") == "subscribed"
            return Reply(200, (kind,), b"")
        except grpc.aio.AioRpcError as error:
            code = str(dict(error.trailing_metadata() or ()).get("openbell-code"))
            body = json.dumps({"code": code, "detail": error.details()}).encode()
            return Reply(STATUSES.get(error.code(), 500), (kind,), body)
        finally:
            call.cancel()


@contextlib.asynccontextmanager
async def open_door(pool: Pool, members: Members, *, alpaca_front: bool = False) -> AsyncIterator[Door]:
    """REST without a socket, the stream on a loopback port; both believe the tests' identity provider."""
    async with (
        event_stream(pool) as address,
        rest_api(pool, provider=members, vault=RecordedSealer(), alpaca_front=alpaca_front) as api,
        grpc.aio.insecure_channel(address) as channel,
    ):
        yield Door(api.client, trading_pb2_grpc.TradingServiceStub(channel))


BODIES: dict[str, dict[str, object]] = {
    "submit CREATE": create_body(),
    # Of a symbol without orders: other cells' orders stay.
    "desk command": {"type": "CANCEL_ALL", "symbol": "NONE"},
    # As it is: a change would let commands of other cells be evaluated again.
    "change account": {"timezone": "UTC"},
    "put credential": {"fields": {"key_id": "made by a test", "secret": "of a test"}},
    "put fault plan": {"seed": 7, "faults": {"hang": 0.5}},
    "put control": {"manually_disabled": False},
    "give prices": {"rates": [{"from_currency": "EUR", "to_currency": "USD", "rate": "1.1"}]},
    "patch time control": {"trading_start": "00:00:00"},
    **{
        f"put {whose} rule": {"mode": "SHADOW", "parameters": {"quantity": "1"}, "reason": "tests"}
        for whose in ("organization", "account", "symbol", "key")
    },
    **{
        f"put {whose} switch": {"status": "ACTIVE", "reason": "tests"}
        for whose in ("organization", "account", "symbol", "key")
    },
    **{
        f"put {whose} heartbeat": {"timeout_seconds": 300, "cancel_working": True}
        for whose in ("account", "key", "own")
    },
    "create webhook": {"url": "https://example.com/", "types": ["BROKER_TRADE"]},
    "change webhook": {"types": ["BROKER_ORDER"]},
    "replay webhook": {"after_seq": 0},
    "create key": {"name": "made by a test", "environment": "paper", "permissions": ["intent:read"]},
    "change key": {"name": "changed by a test"},
}


CHANGES_OF_FRESH_ACCOUNTS = {"put credential", "delete credential", "verify credential"}
CHANGES_OF_FRESH_ACCOUNTS |= {"put account heartbeat", "delete account heartbeat"}


@dataclass(frozen=True, slots=True)
class Calls:
    """Turns a cell into a call; what a successful call would use up is made for it."""

    world: World
    door: Door
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def call(self, cell: Cell) -> Reply:
        """As the cell's own caller."""
        place = await self.world.place_of(cell)
        # An organization has one back-test at a time.
        async with self._turn if cell.row.name == "backtest" else contextlib.nullcontext():
            return await self.door.send(await self.target(cell), await self.world.headers_of(place, cell))

    async def target(self, cell: Cell) -> Target:
        """What the call is aimed at, whoever makes it."""
        place = await self.world.place_of(cell)
        if cell.row.route.startswith("trading."):
            account = self.world.account_at(place, cell)
            return Target(cell.row.route, str(account.id if account else uuid4()), None)
        method, template = cell.row.route.split(" ")
        if "webhook_id" in template:
            path = template.format(webhook_id=await self._webhook(place, cell))
            return Target(method, path, BODIES.get(cell.row.name))
        if "own heartbeat" in cell.row.name:
            return Target(method, template, await self._own_heartbeat(place, cell))
        return Target(method, *await self._aim(place, cell, template))

    async def _aim(self, place: Place, cell: Cell, template: str) -> tuple[str, object | None]:
        name = cell.row.name
        if name == "look up organization":
            external_id = {
                Object.SECOND: self.world.second.external_id,
                Object.FOREIGN: self.world.foreign.external_id,
                Object.MISSING: f"org_{uuid4().hex}",
            }.get(cell.object, place.external_id)
            return template.format(provider=PEOPLE.provider, provider_id=external_id), None
        if name == "list sessions":
            return template.format(calendar="XNYS"), None
        if name == "validate key":
            return template, {"api_key": await self._key_to_validate(place, cell)}
        if "api_key_id" in template:
            key_id = await self._key_to_manage(place, cell)
            return template.format(api_key_id=key_id, code=_code(name)), BODIES.get(name)
        if "scope=ORGANIZATION" in template:
            if name == "delete organization rule" and not expected(cell).refused:
                await self.world.a_rule_to_remove(place, "organization", "")
            return template.format(code=_code(name)), BODIES.get(name)
        if name in {"evaluate", "backtest"}:
            account = self.world.account_at(place, cell)
            asked: dict[str, object] = create_body() if name == "evaluate" else {"rules": []}
            return template, {"account_id": str(account.id if account else uuid4()), **asked}
        if name == "create account":
            return template, {"name": "made by a test", "broker": "paper", "environment": cell.environment}
        if "account_id" in template:
            return await self._aim_at_account(place, cell, template)
        return template, BODIES.get(name)

    async def _aim_at_account(self, place: Place, cell: Cell, template: str) -> tuple[str, object | None]:
        harness = self.world.harness_at(place, cell)
        account_id = harness.tenant.account.id if harness else uuid4()
        intent_id: Any = harness.intent_id if harness else uuid4()
        receipt_id = harness.receipt_id if harness else uuid4()
        desk_command_id = harness.desk_command_id if harness else uuid4()
        if cell.object is Object.FOREIGN_INTENT:
            foreign = self.world.foreign.harnesses[cell.environment, False]
            intent_id, receipt_id = foreign.intent_id, foreign.receipt_id
        elif cell.object is Object.MISSING_INTENT:
            intent_id, receipt_id = uuid4(), uuid4()
        elif harness and cell.row.name in {"submit REPLACE", "submit CANCEL"} and not expected(cell).refused:
            intent_id = await self.world.an_intent(harness.tenant)
        elif harness and cell.row.name == "close account" and not expected(cell).refused:
            # One that has nothing to do.
            environment = Environment(cell.environment)
            account_id = (await an_account(self.world.pool, place.organization_id, environment)).id
        elif harness and cell.row.name in CHANGES_OF_FRESH_ACCOUNTS and not expected(cell).refused:
            disabled = cell.object is Object.DISABLED_ACCOUNT
            account_id = await self.world.an_account_to_sign_in(place, cell.environment, disabled=disabled)
            await self.world.a_heartbeat(place, "ACCOUNT", str(account_id))
        elif harness and cell.row.name.startswith("delete ") and "{code}" in template and not expected(cell).refused:
            scope = cell.row.name.split()[1]
            subject = str(account_id) if scope == "account" else f"{account_id} {SYMBOL}"
            await self.world.a_rule_to_remove(place, scope, subject)
        path = template.format(
            account_id=account_id,
            intent_id=intent_id,
            receipt_id=receipt_id,
            desk_command_id=desk_command_id,
            symbol=SYMBOL,
            code=_code(cell.row.name),
        )
        if cell.row.name == "submit REPLACE":
            return path, replace_body(intent_id, price="1.60")
        if cell.row.name == "cancel orders":
            return path, {"intent_ids": [str(uuid4())]}
        if cell.row.name == "submit CANCEL":
            return path, cancel_body(intent_id)
        return path, BODIES.get(cell.row.name)

    async def _webhook(self, place: Place, cell: Cell) -> object:
        if cell.object is Object.MISSING:
            return uuid4()
        if cell.row.name == "delete webhook" and not expected(cell).refused:
            return await self.world.a_webhook(place.organization_id, cell.environment)
        return (self.world.foreign if cell.object is Object.FOREIGN else place).webhooks[cell.environment]

    async def _key_to_manage(self, place: Place, cell: Cell) -> object:
        if cell.object is Object.MISSING:
            return uuid4()
        if cell.object is Object.FOREIGN:
            return self.world.foreign.harnesses[cell.environment, False].tenant.principal.id
        key_id = place.harnesses[cell.environment, False].tenant.principal.id
        if cell.row.name == "delete key rule" and not expected(cell).refused:
            await self.world.a_rule_to_remove(place, "key", key_id)
        heartbeat = "key heartbeat" in cell.row.name and not cell.row.name.startswith("list ")
        if expected(cell).refused or ("/controls/" in cell.row.route and not heartbeat):
            return key_id
        fresh, _ = await self.world.a_key(place, cell.environment, frozenset())
        if cell.row.name == "delete key heartbeat":
            await self.world.a_heartbeat(place, "KEY", str(fresh))
        return fresh

    async def _own_heartbeat(self, place: Place, cell: Cell) -> object | None:
        """The body; what a call disarms is armed first."""
        if cell.row.name == "delete own heartbeat" and not expected(cell).refused:
            key_id, _ = await self.world.key_of(place, cell.caller)
            await self.world.a_heartbeat(place, "KEY", str(key_id))
        return BODIES.get(cell.row.name)

    async def _key_to_validate(self, place: Place, cell: Cell) -> str:
        if cell.object is Object.MISSING:
            return an_unknown_key()
        if cell.object is Object.FOREIGN:
            return self.world.foreign.harnesses[cell.environment, False].tenant.key
        if cell.caller.kind in {Kind.API_KEY, Kind.TWO}:
            return (await self.world.key_of(place, cell.caller))[1]
        return place.harnesses[cell.environment, False].tenant.key


def _code(name: str) -> str:
    return REMOVED_CODE if name.startswith("delete ") else READ_CODE


def fits(cell: Cell, reply: Reply) -> bool:
    """Whether the answer is the table's; a plain-text route tells no code, but delete-me's 401 is one exact word."""
    answer: Answer = expected(cell)
    if reply.status != answer.status:
        return False
    if not cell.row.plain:
        return reply.code == answer.code
    if not answer.refused:
        return True
    told = dict(reply.headers).get("content-type") == "text/plain; charset=utf-8"
    return told and (answer.code != "unauthorized" or reply.body == b"unauthorized")
