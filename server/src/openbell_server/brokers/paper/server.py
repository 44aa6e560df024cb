"""The paper broker's HTTP side: a small ASGI application that can also fail in the ways its fault plan says."""

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import unquote
from uuid import UUID

import msgspec

from openbell_server.brokers.paper.exchange import ClientLeft, Exchange, Message, Receive, Send, account_of, symbol_of
from openbell_server.brokers.paper.faults import CommandKind, Fault, Faults
from openbell_server.brokers.paper.keys import KEY_EXPIRED, KEY_REFUSED, Key, KeyTerms, judge
from openbell_server.brokers.paper.ledger import Ledger
from openbell_server.brokers.paper.market import Market
from openbell_server.brokers.paper.operator import OperatorRoutes
from openbell_server.brokers.paper.venue import Command, NewOrder, PaperVenue, Refusal, spec_of
from openbell_server.brokers.paper.wire import (
    REFUSALS,
    UNKNOWN_ORDER,
    AcceptedBody,
    AwareTime,
    ClientOrderId,
    FeedLine,
    OrderBody,
    RefusalBody,
    ReplacementBody,
    SessionBody,
)
from openbell_server.domain.errors import InvalidCommand
from openbell_server.domain.orders import Terms, exact_decimal

HANG_SECONDS_MAX: Final = 10
HEARTBEAT_SECONDS: Final = 5
LOST_MAX: Final = 100_000
_ORDERS: Final = re.compile(r"/accounts/([0-9a-f-]{36})/orders")
_ORDER: Final = re.compile(r"/accounts/([0-9a-f-]{36})/orders/([^/]{1,192})")
_SESSION: Final = re.compile(r"/accounts/([0-9a-f-]{36})/session")


class PaperApplication:
    """The routes."""

    def __init__(self, ledger: Ledger, market: Market, faults: Faults) -> None:
        """The fault plan holds for the life of the process."""
        self._ledger = ledger
        self._venue = PaperVenue(ledger, market)
        self._operator = OperatorRoutes(ledger, market)
        self._faults = faults
        # Commands that hung, by id: how often.
        self._lost: Counter[str] = Counter()
        self._closing = asyncio.Event()

    def close(self) -> None:
        """End the feeds and the hanging replies, so that the server can drain."""
        self._closing.set()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        assert scope["type"] == "http"
        exchange = Exchange(scope, receive, send)
        try:
            await self._route(exchange)
        except Refusal as refusal:
            await exchange.answer(REFUSALS[refusal.code], RefusalBody(refusal.code, refusal.text))
        except ClientLeft:
            # Whoever asked died in mid-request; nothing was recorded, and nobody is there to be told.
            return

    async def _route(self, exchange: Exchange) -> None:
        plain: dict[tuple[str, str], Callable[[Exchange], Awaitable[None]]] = {
            ("GET", "/updates"): self._feed,
            ("GET", "/ledger/summary"): self._summary,
            ("GET", "/healthz"): self._health,
        }
        if (exchange.method, exchange.path) in plain:
            await plain[exchange.method, exchange.path](exchange)
        elif found := _ORDER.fullmatch(exchange.path):
            await self._order(exchange, account_of(found[1]), _client_order_id(unquote(found[2])))
        elif found := _ORDERS.fullmatch(exchange.path):
            await self._orders(exchange, account_of(found[1]))
        elif found := _SESSION.fullmatch(exchange.path):
            await self._session(exchange, account_of(found[1]))
        elif not await self._operator.answer(exchange):
            await _no_such_route(exchange)

    async def _orders(self, exchange: Exchange, account_id: UUID) -> None:
        if exchange.method == "POST":
            await self._submit(exchange, account_id)
        elif exchange.method == "GET":
            exchange.allow_only("since", "after")
            _admit(exchange.key)
            since, after = _since(exchange.parameter("since")), exchange.whole_number("after") or 0
            await exchange.answer(200, await self._ledger.page(account_id, since, self._visible_before(), after))
        else:
            await _no_such_route(exchange)

    async def _order(self, exchange: Exchange, account_id: UUID, client_order_id: str) -> None:
        if exchange.method == "DELETE":
            await self._cancel(exchange, account_id, client_order_id)
        elif exchange.method == "PATCH":
            await self._replace(exchange, account_id, client_order_id)
        elif exchange.method == "GET":
            _admit(exchange.key)
            order = await self._ledger.find(account_id, client_order_id, self._visible_before())
            if order is None:
                raise Refusal(UNKNOWN_ORDER, "there is no order with this client_order_id")
            await exchange.answer(200, order)
        else:
            await _no_such_route(exchange)

    async def _submit(self, exchange: Exchange, account_id: UUID) -> None:
        command = _command(exchange, CommandKind.SUBMIT, account_id)
        try:
            body = await exchange.body(OrderBody)
            command = replace(command, client_order_id=body.client_order_id)
            order = _new_order(body)
        except Refusal as refusal:
            await self._venue.refuse(command, refusal)
            raise
        await self._perform(exchange, command, lambda: self._venue.submit(command, order), 201)

    async def _replace(self, exchange: Exchange, account_id: UUID, order_client_id: str) -> None:
        command = _command(exchange, CommandKind.REPLACE, account_id)
        try:
            body = await exchange.body(ReplacementBody)
            command = replace(command, client_order_id=body.client_order_id)
            replacement = _terms(body)
        except Refusal as refusal:
            await self._venue.refuse(command, refusal)
            raise
        await self._perform(
            exchange, command, lambda: self._venue.replace(command, order_client_id, replacement, body.valid_until), 200
        )

    async def _cancel(self, exchange: Exchange, account_id: UUID, client_order_id: str) -> None:
        command = replace(_command(exchange, CommandKind.CANCEL, account_id), client_order_id=client_order_id)
        try:
            valid_until = msgspec.convert(exchange.parameter("valid_until"), AwareTime)
        except msgspec.ValidationError as trouble:
            refusal = Refusal("malformed", f"valid_until: {trouble}")
            await self._venue.refuse(command, refusal)
            raise refusal from trouble
        await self._perform(exchange, command, lambda: self._venue.cancel(command, valid_until), 200)

    async def _perform(
        self, exchange: Exchange, command: Command, act: Callable[[], Awaitable[str]], status: int
    ) -> None:
        """Do a command the way the fault plan says."""
        assert command.client_order_id is not None
        await self._admit(command, exchange.key)
        fault = self._faults.fault_of(command.kind, command.client_order_id, self._lost[command.client_order_id])
        await asyncio.sleep(self._faults.delay_seconds(command.kind, command.client_order_id))
        if fault is Fault.HANG:
            if len(self._lost) >= LOST_MAX:
                self._lost.clear()
            self._lost[command.client_order_id] += 1
            return await self._hang(exchange)
        if fault is Fault.REFUSE:
            refusal = Refusal("refused", "the fault plan refuses this command")
            await self._venue.refuse(command, refusal)
            raise refusal
        answer = AcceptedBody(await act())
        if fault is Fault.DONE_THEN_HANG:
            return await self._hang(exchange)
        if fault is Fault.DONE_THEN_RESET:
            return await exchange.cut()
        if fault is Fault.DONE_THEN_ERROR:
            return await exchange.answer(500, {"error": "the fault plan fails this reply"})
        return await exchange.answer(status, answer)

    async def _session(self, exchange: Exchange, account_id: UUID) -> None:
        """Let an account in, or show which key it came with last."""
        if exchange.method == "GET":
            await exchange.answer(200, await self._ledger.last_key(account_id))
        elif exchange.method == "POST":
            command = _command(exchange, CommandKind.SIGN_IN, account_id)
            if exchange.key is None:
                raise Refusal(KEY_REFUSED, "sign in with a key")
            terms = await self._admit(command, exchange.key)
            await self._venue.let_in(command)
            await exchange.answer(200, SessionBody(terms.external_account_id, terms.expires_at))
        else:
            await _no_such_route(exchange)

    async def _admit(self, command: Command, key: Key | None) -> KeyTerms:
        """Refuse a command, on record, that is signed with a key which is not let in."""
        try:
            return _admit(key)
        except Refusal as refusal:
            await self._venue.refuse(command, refusal)
            raise

    async def _hang(self, exchange: Exchange) -> None:
        await _first_of(exchange.gone(), self._closing.wait(), timeout=HANG_SECONDS_MAX)
        await exchange.cut()

    async def _feed(self, exchange: Exchange) -> None:
        last = await self._ledger.last_update()
        after = exchange.whole_number("after")
        await exchange.begin(200, b"application/x-ndjson")
        await exchange.write(_line(FeedLine(connected=last)), more=True)
        told = last if after is None else after
        gone = asyncio.ensure_future(exchange.gone())
        clock = asyncio.get_running_loop().time
        spoke = clock()
        try:
            while not gone.done() and not self._closing.is_set():
                committed = self._ledger.next_commit()
                lines = await self._ledger.updates_after(told)
                # A commit need not bring an update, so silence is measured, not counted in waits.
                if lines or clock() - spoke >= HEARTBEAT_SECONDS:
                    told = lines[-1].number or told if lines else told
                    await exchange.write(b"".join(map(_line, lines)) or _line(FeedLine()), more=True)
                    spoke = clock()
                else:
                    silence_left = max(0.0, spoke + HEARTBEAT_SECONDS - clock())
                    await _first_of(asyncio.shield(gone), committed.wait(), self._closing.wait(), timeout=silence_left)
            await exchange.write(b"", more=False)
        finally:
            gone.cancel()

    async def _summary(self, exchange: Exchange) -> None:
        await exchange.answer(200, await self._ledger.summary())

    async def _health(self, exchange: Exchange) -> None:
        await self._ledger.last_update()
        await exchange.answer(200, {"status": "ok"})

    def _visible_before(self) -> datetime:
        """Without a lag everything is visible, also what was taken before the clock was set back."""
        lag = timedelta(milliseconds=self._faults.find_lag_ms)
        return datetime.now(UTC) - lag if lag else datetime.max.replace(tzinfo=UTC)


def _admit(key: Key | None) -> KeyTerms:
    """What the key is for; an account may do without one."""
    if key is None:
        return KeyTerms()
    judged = judge(key, datetime.now(UTC))
    if isinstance(judged, str):
        raise Refusal(judged, "the key has run out" if judged == KEY_EXPIRED else "the key is not let in")
    return judged


def _command(exchange: Exchange, kind: CommandKind, account_id: UUID) -> Command:
    key_id = exchange.key.key_id if exchange.key else None
    return Command(kind=kind, account_id=account_id, client_order_id=None, received_at=datetime.now(UTC), key_id=key_id)


async def _no_such_route(exchange: Exchange) -> None:
    """Not one of REFUSALS: a session at a wrong address must not take it for the broker's word about an order."""
    await exchange.answer(404, {"error": "there is nothing here"})


async def _first_of(*waits: Awaitable[object], timeout: float) -> None:
    """Wait for any of these, or until the time is up."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def _line(line: FeedLine) -> bytes:
    return msgspec.json.encode(line) + b"\n"


def _client_order_id(text: str) -> str:
    try:
        return msgspec.convert(text, ClientOrderId)
    except msgspec.ValidationError as trouble:
        raise Refusal("malformed", f"client_order_id: {trouble}") from trouble


def _since(text: str | None) -> datetime:
    if text is None:
        return datetime.fromtimestamp(0, UTC)
    try:
        # In UTC there is no time that the database could not hold.
        return msgspec.convert(text, AwareTime).astimezone(UTC)
    except (msgspec.ValidationError, OverflowError) as trouble:
        raise Refusal("malformed", f"since: {trouble}") from trouble


def _terms(body: OrderBody | ReplacementBody) -> Terms:
    try:
        return Terms(
            quantity=exact_decimal(body.quantity, "quantity"),
            limit_price=None if body.limit_price is None else exact_decimal(body.limit_price, "limit_price"),
            stop_price=None if body.stop_price is None else exact_decimal(body.stop_price, "stop_price"),
            time_in_force=body.time_in_force,
        )
    except InvalidCommand as problem:
        raise Refusal("invalid_order", problem.detail) from problem


def _new_order(body: OrderBody) -> NewOrder:
    spec = spec_of(body.type, _terms(body))
    return NewOrder(symbol=symbol_of(body.symbol), side=body.side, spec=spec, valid_until=body.valid_until)
