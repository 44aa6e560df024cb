"""The paper broker's HTTP server: a small ASGI application that can apply a fault plan."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import unquote
from uuid import UUID

import msgspec

from openbell_exchange.decisions import UNKNOWN_ORDER, Refusal, spec_of
from openbell_exchange.faults import CommandKind, Faults
from openbell_server.brokers.paper.exchange import ClientLeft, Exchange, Message, Receive, Send, account_of, symbol_of
from openbell_server.brokers.paper.feed import Feeds
from openbell_server.brokers.paper.keys import KEY_EXPIRED, KEY_REFUSED, Key, KeyTerms, judge
from openbell_server.brokers.paper.ledger import Ledger, OrderKey, number_of
from openbell_server.brokers.paper.market import Market
from openbell_server.brokers.paper.misbehaviour import Misbehaviour
from openbell_server.brokers.paper.operator import OperatorRoutes
from openbell_server.brokers.paper.plans import Plans
from openbell_server.brokers.paper.venue import Command, NewOrder, PaperVenue
from openbell_server.brokers.paper.wire import (
    REFUSALS,
    AccountRules,
    AwareTime,
    ClientOrderId,
    OrderBody,
    RefusalBody,
    ReplacementBody,
    SessionBody,
)
from openbell_server.domain.errors import InvalidCommand
from openbell_server.domain.orders.broker_guarantees import LookUp
from openbell_server.domain.orders.order_terms import Terms, exact_decimal

_ORDERS: Final = re.compile(r"/accounts/([0-9a-f-]{36})/orders")
_ORDER: Final = re.compile(r"/accounts/([0-9a-f-]{36})/orders/([^/]{1,192})")
_BROKER_ORDER: Final = re.compile(r"/accounts/([0-9a-f-]{36})/broker-orders/([0-9A-Za-z]{1,64})")
_SESSION: Final = re.compile(r"/accounts/([0-9a-f-]{36})/session")

_NO_IDS: Final = Refusal("malformed", "this broker has no place for ids of its clients")


class PaperApplication:
    def __init__(self, ledger: Ledger, market: Market, faults: Faults, rules: AccountRules, secret: str) -> None:
        self._ledger = ledger
        self._venue = PaperVenue(ledger, market, rules)
        self._operator = OperatorRoutes(ledger, market, rules, secret)
        self._closing = asyncio.Event()
        self._plans = Plans(ledger, faults)
        self._feeds = Feeds(ledger, self._plans, self._closing)
        self._misbehaviour = Misbehaviour(ledger, market, self._venue, self._plans, self._feeds, self._closing)

    def close(self) -> None:
        """End feeds and hanging replies, so that the server can shut down."""
        self._closing.set()
        self._misbehaviour.close()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        exchange = Exchange(scope, receive, send)
        try:
            await self._route(exchange)
        except Refusal as refusal:
            await exchange.answer(REFUSALS[refusal.code], RefusalBody(refusal.code, refusal.text))
        except ClientLeft:
            # The client disconnected in mid-request; nothing was recorded, and no answer is possible.
            return

    async def _route(self, exchange: Exchange) -> None:
        plain: dict[tuple[str, str], Callable[[Exchange], Awaitable[None]]] = {
            ("GET", "/updates"): self._feeds.serve,
            ("GET", "/ledger/summary"): self._summary,
            ("GET", "/healthz"): self._health,
        }
        if (exchange.method, exchange.path) in plain:
            await plain[exchange.method, exchange.path](exchange)
        elif found := _ORDER.fullmatch(exchange.path):
            name = _client_order_id(unquote(found[2]))
            await self._order(exchange, account_of(found[1]), name, OrderKey(client_order_id=name))
        elif found := _BROKER_ORDER.fullmatch(exchange.path):
            # Order 0 does not exist.
            key = OrderKey(number=number_of(found[2]) or 0)
            await self._order(exchange, account_of(found[1]), found[2], key)
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
            before = self._visible_before(account_id)
            page = await self._ledger.page(account_id, exchange.profile.name, since, before, after)
            await exchange.answer(200, page)
        else:
            await _no_such_route(exchange)

    async def _order(self, exchange: Exchange, account_id: UUID, name: str, key: OrderKey) -> None:
        if exchange.method == "DELETE":
            await self._cancel(exchange, account_id, name, key)
        elif exchange.method == "PATCH":
            await self._replace(exchange, account_id, key)
        elif exchange.method == "GET":
            _admit(exchange.key)
            profile = exchange.profile
            if key.client_order_id is not None and not profile.has_client_ids:
                raise _NO_IDS
            only_open = profile.capabilities.look_up is LookUp.OPEN_ORDERS
            before = self._visible_before(account_id)
            order = await self._ledger.find(account_id, profile.name, key, before, only_open=only_open)
            if order is None:
                raise Refusal(UNKNOWN_ORDER, "there is no such order")
            await exchange.answer(200, order)
        else:
            await _no_such_route(exchange)

    async def _submit(self, exchange: Exchange, account_id: UUID) -> None:
        command = _command(exchange, CommandKind.SUBMIT, account_id)
        try:
            body = await exchange.body(OrderBody)
            command = replace(command, client_order_id=_own_id(exchange, body.client_order_id))
            order = _new_order(body)
            command = replace(command, terms=order.terms)
        except Refusal as refusal:
            await self._venue.refuse(command, refusal)
            raise
        await self._perform(exchange, command, lambda: self._venue.submit(command, order), 201)

    async def _replace(self, exchange: Exchange, account_id: UUID, key: OrderKey) -> None:
        command = _command(exchange, CommandKind.REPLACE, account_id)
        try:
            _require_name(exchange, key)
            body = await exchange.body(ReplacementBody)
            command = replace(command, client_order_id=_own_id(exchange, body.client_order_id))
            replacement = _terms(body)
        except Refusal as refusal:
            await self._venue.refuse(command, refusal)
            raise
        await self._perform(
            exchange, command, lambda: self._venue.replace(command, key, replacement, body.valid_until), 200
        )

    async def _cancel(self, exchange: Exchange, account_id: UUID, name: str, key: OrderKey) -> None:
        command = replace(_command(exchange, CommandKind.CANCEL, account_id), client_order_id=name)
        try:
            _require_name(exchange, key)
            valid_until = _valid_until(exchange.parameter("valid_until"))
        except Refusal as refusal:
            await self._venue.refuse(command, refusal)
            raise
        await self._perform(exchange, command, lambda: self._venue.cancel(command, key, valid_until), 200)

    async def _perform(
        self, exchange: Exchange, command: Command, act: Callable[[], Awaitable[str]], status: int
    ) -> None:
        await self._admit(command, exchange.key)
        await self._misbehaviour.perform(exchange, command, act, status)

    async def _session(self, exchange: Exchange, account_id: UUID) -> None:
        """Sign an account in, or show which key it used last."""
        if exchange.method == "GET":
            await exchange.answer(200, await self._ledger.last_key(account_id))
        elif exchange.method == "POST":
            command = _command(exchange, CommandKind.SIGN_IN, account_id)
            if exchange.key is None:
                raise Refusal(KEY_REFUSED, "sign in with a key")
            terms = await self._admit(command, exchange.key)
            await self._venue.record_sign_in(command)
            await exchange.answer(200, SessionBody(terms.external_account_id, terms.expires_at))
        else:
            await _no_such_route(exchange)

    async def _admit(self, command: Command, key: Key | None) -> KeyTerms:
        """Check the key; record the refusal of a command whose key is invalid."""
        try:
            return _admit(key)
        except Refusal as refusal:
            await self._venue.refuse(command, refusal)
            raise

    async def _summary(self, exchange: Exchange) -> None:
        await exchange.answer(200, await self._ledger.summary())

    async def _health(self, exchange: Exchange) -> None:
        await self._ledger.last_update()
        await exchange.answer(200, {"status": "ok"})

    def _visible_before(self, account_id: UUID) -> datetime:
        """Without a lag everything is visible, also orders recorded before the clock was set back."""
        lag = timedelta(milliseconds=self._plans.of(account_id).find_lag_ms)
        return datetime.now(UTC) - lag if lag else datetime.max.replace(tzinfo=UTC)


def _admit(key: Key | None) -> KeyTerms:
    """The terms of the key; a key is optional."""
    if key is None:
        return KeyTerms()
    judged = judge(key, datetime.now(UTC))
    if isinstance(judged, str):
        raise Refusal(judged, "the key has run out" if judged == KEY_EXPIRED else "the key is not let in")
    return judged


def _command(exchange: Exchange, kind: CommandKind, account_id: UUID) -> Command:
    key_id = exchange.key.key_id if exchange.key else None
    return Command(
        kind=kind,
        profile=exchange.profile,
        account_id=account_id,
        client_order_id=None,
        received_at=datetime.now(UTC),
        key_id=key_id,
    )


def _own_id(exchange: Exchange, client_order_id: str | None) -> str | None:
    """Require a client_order_id exactly where the profile has client ids."""
    if exchange.profile.has_client_ids is (client_order_id is None):
        raise _NO_IDS if client_order_id else Refusal("malformed", "the client_order_id is missing")
    return client_order_id


def _require_name(exchange: Exchange, key: OrderKey) -> None:
    """Refuse a client id in the path where the profile accepts only broker ids."""
    if key.client_order_id is not None and not exchange.profile.capabilities.cancels_by_client_id:
        raise Refusal("malformed", "this broker's orders are named by its own ids: /broker-orders/P1")


def _valid_until(text: str | None) -> datetime:
    try:
        return msgspec.convert(text, AwareTime)
    except msgspec.ValidationError as trouble:
        raise Refusal("malformed", f"valid_until: {trouble}") from trouble


async def _no_such_route(exchange: Exchange) -> None:
    """Not one of REFUSALS: a session with a wrong address must not read this as an answer about an order."""
    await exchange.answer(404, {"error": "there is nothing here"})


def _client_order_id(text: str) -> str:
    try:
        return msgspec.convert(text, ClientOrderId)
    except msgspec.ValidationError as trouble:
        raise Refusal("malformed", f"client_order_id: {trouble}") from trouble


def _since(text: str | None) -> datetime:
    if text is None:
        return datetime.fromtimestamp(0, UTC)
    try:
        # UTC ensures that the database can store the time.
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
