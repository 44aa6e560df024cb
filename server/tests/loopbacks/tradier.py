"""Tradier on this machine: its sandbox and its live address, with one engine behind both."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Final, TypeVar
from urllib.parse import parse_qs, quote, unquote
from uuid import UUID
from zoneinfo import ZoneInfo

import httpx
import msgspec

from loopbacks import Loopback
from loopbacks.engine import engine
from loopbacks.tradier_wire import (
    DURATIONS,
    SIDES,
    TYPES,
    Answer,
    Caller,
    Json,
    caller,
    check,
    number_of,
    order_json,
    several,
    status_of,
    token_of,
    unauthorized,
)
from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.brokers.paper.exchange import ClientLeft, Exchange, Message, Receive, Send
from openbell_server.brokers.paper.wire import (
    AcceptedBody,
    AccountBody,
    AccountFaultsBody,
    LedgerOrderBody,
    OrderPage,
    QuotedBody,
)
from openbell_server.brokers.registry import BROKERS
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.credentials import Secrets
from openbell_server.domain.identifiers import AccountId, canonical_symbol
from openbell_server.domain.orders.intents import ActionType
from openbell_server.http_protocol import BoundedProtocol
from openbell_server.settings import Settings
from openbell_torture.serving import serving
from support.brokers.broker_writes import Write
from support.brokers.paper_broker import OPERATOR

# Longer than the engine lets anybody hang.
_ENGINE_SECONDS: Final = 15
_DEFAULT_PAGE, _PAGE_MAX = 25, 100
_NEW_YORK: Final = ZoneInfo("America/New_York")
_WORKING: Final = frozenset({"open", "pending", "partially_filled"})
_TAG_LENGTH_MAX: Final = 255
_Body = TypeVar("_Body")


@dataclass(frozen=True, slots=True)
class TradierLoopback:
    """Implements Loopback."""

    addresses: Mapping[Environment, str]
    engine: Settings
    writes: list[Write]

    @property
    def definition(self) -> BrokerDefinition:
        """The adapter that is tried against it."""
        return BROKERS["tradier"]

    def secrets(self, account_id: AccountId, environment: Environment = Environment.PAPER) -> Secrets | None:
        """The account's number, and a token that says whose it is."""
        return Secrets({"account": number_of(account_id), "token": token_of(account_id, environment)})


class TradierApplication:
    """One of the two addresses."""

    def __init__(self, environment: Environment, client: httpx.AsyncClient, writes: list[Write]) -> None:
        """Writes are noted as they arrive, in the order of both addresses."""
        self._environment = environment
        self._engine = client
        self._writes = writes
        self._began_at = datetime.now(UTC)
        # What the list of the day showed last.
        self._shown: dict[UUID, list[LedgerOrderBody]] = {}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        exchange = Exchange(scope, receive, send)
        headers = {name: value.decode("ascii", "replace") for name, value in scope["headers"]}
        try:
            form = await self._arrived(exchange, receive, headers.get(b"authorization", ""))
            who = caller(headers.get(b"authorization", ""), self._environment)
            raise Answer(200, await self._route(exchange, who, form))
        except Answer as answer:
            more = [(name.lower().encode(), value.encode()) for name, value in answer.headers.items()]
            await exchange.begin(answer.status, answer.content_type, *more)
            await exchange.write(answer.content, more=False)
        except (httpx.HTTPError, ClientLeft):
            # No answer came from the engine, so none comes from here.
            await exchange.cut()

    async def _arrived(self, exchange: Exchange, receive: Receive, header: str) -> dict[str, str]:
        """The form of a new order; a command is on record from here on, whatever becomes of it."""
        name = exchange.path.partition("/orders")[2]
        whose = header.rpartition("-")[2]
        account_id = str(UUID(whose)) if len(whose) == 32 else "None"
        if exchange.method == "DELETE":
            self._writes.append(Write(ActionType.CANCEL, account_id, unquote(name.removeprefix("/"))))
        if exchange.method != "POST":
            return {}
        try:
            content = await _content(receive)
        except ClientLeft:
            self._writes.append(Write(ActionType.CREATE, account_id, None, whole=False))
            raise
        form = {field: values[-1] for field, values in parse_qs(content.decode("ascii")).items()}
        names = {"client_order_id": "tag", "symbol": "symbol", "quantity": "quantity", "limit_price": "price"}
        body = {ours: form[theirs] for ours, theirs in names.items() if theirs in form}
        side = {"side": form["side"].upper()} if "side" in form else {}
        self._writes.append(Write(ActionType.CREATE, account_id, None, body | side))
        return form

    async def _route(self, exchange: Exchange, who: Caller, form: Mapping[str, str]) -> Json:
        parts = [unquote(part) for part in exchange.path.strip("/").split("/")]
        if exchange.method == "GET" and parts == ["v1", "user", "profile"]:
            return _profile(who)
        if exchange.method == "GET" and parts == ["v1", "markets", "quotes"]:
            return await self._quotes(exchange, who)
        if parts[:2] != ["v1", "accounts"] or len(parts) not in {4, 5}:
            raise Answer(404, "Not Found")
        if parts[2] != who.number:
            raise unauthorized(parts[2])
        return await self._route_account(exchange, who, parts[3:], form)

    async def _route_account(
        self, exchange: Exchange, who: Caller, parts: Sequence[str], form: Mapping[str, str]
    ) -> Json:
        match (exchange.method, *parts):
            case ("POST", "orders"):
                return await self._submit(who, form)
            case ("GET", "orders"):
                return {"orders": several("order", await self._orders(exchange, who))}
            case ("GET", "orders", name):
                return {"order": order_json(await self._order(who, name), tags=_has_tags(exchange))}
            case ("DELETE", "orders", name):
                return await self._cancel(who, name)
            case ("GET", "positions"):
                return {"positions": several("position", await self._positions(who))}
            case ("GET", "balances"):
                return {"balances": await self._balances(who)}
        raise Answer(404, "Not Found")

    async def _submit(self, who: Caller, form: Mapping[str, str]) -> Json:
        """Place an order, or say which field cannot be read."""
        kind, side = TYPES.get(form.get("type", "")), SIDES.get(form.get("side", ""))
        duration, tag = DURATIONS.get(form.get("duration", "")), form.get("tag", "")
        wrong = {
            "class": form.get("class") != "equity",
            "type": kind is None,
            "side": side is None,
            "duration": duration is None,
            "quantity": not form.get("quantity", "").isdigit(),
            "tag": not tag.replace("-", "").isalnum() or not tag.isascii() or len(tag) > _TAG_LENGTH_MAX,
            "price": (kind in {TYPES["limit"], TYPES["stop_limit"]}) is ("price" not in form),
            "stop": (kind in {TYPES["stop"], TYPES["stop_limit"]}) is ("stop" not in form),
        }
        for field, is_wrong in wrong.items():
            if is_wrong:
                raise Answer(400, f"Invalid parameter, {field}: is invalid.")
        body = {
            "client_order_id": tag,
            "symbol": form.get("symbol", ""),
            "side": side,
            "type": kind,
            "quantity": form["quantity"],
            "limit_price": form.get("price"),
            "stop_price": form.get("stop"),
            "time_in_force": duration,
            "valid_until": _for_good(),
        }
        reply = await self._engine.post(f"accounts/{who.account_id}/orders", json=body)
        check(reply, who)
        return _taken(reply)

    async def _cancel(self, who: Caller, name: str) -> Json:
        """End an order that works; to end it twice is a mistake."""
        status = status_of(await self._order(who, name))
        if status not in _WORKING:
            raise Answer(400, f"order already in finalized state: {status}")
        path = f"accounts/{who.account_id}/broker-orders/P{name}"
        reply = await self._engine.delete(path, params={"valid_until": _for_good()})
        check(reply, who)
        return _taken(reply)

    async def _order(self, who: Caller, name: str) -> LedgerOrderBody:
        return await self._told(who, f"accounts/{who.account_id}/broker-orders/P{quote(name)}", LedgerOrderBody)

    async def _orders(self, exchange: Exchange, who: Caller) -> list[Json]:
        """A page of the day's orders, or of some weeks', newest first."""
        if exchange.parameter("filter") == "all":
            orders = await self._orders_between(exchange, who)
        else:
            orders = await self._orders_of_today(who)
        page, limit = exchange.whole_number("page") or 1, exchange.whole_number("limit") or _DEFAULT_PAGE
        size = min(limit, _PAGE_MAX)
        listed = sorted(orders, key=lambda order: order.number, reverse=True)[(page - 1) * size : page * size]
        return [order_json(order, tags=_has_tags(exchange)) for order in listed]

    async def _orders_of_today(self, who: Caller) -> list[LedgerOrderBody]:
        """Those of the day and those that work; it stays as it was while the engine's feed is mute."""
        plan = await self._told(who, f"accounts/{who.account_id}/faults", AccountFaultsBody)
        silence = timedelta(milliseconds=plan.faults.get("mute_ms", 0))
        if plan.set_at is None or datetime.now(UTC) >= plan.set_at + silence:
            today = datetime.now(_NEW_YORK).date()
            self._shown[who.account_id] = [
                order for order in await self._all(who) if _day(order) == today or status_of(order) in _WORKING
            ]
        return self._shown.get(who.account_id, [])

    async def _orders_between(self, exchange: Exchange, who: Caller) -> list[LedgerOrderBody]:
        """At most a month, up to now if it is not said until when."""
        now = datetime.now(_NEW_YORK)
        start = exchange.parameter("start") or (now - timedelta(days=30)).date().isoformat()
        end = exchange.parameter("end") or now.date().isoformat()
        if datetime.fromisoformat(end) - datetime.fromisoformat(start) > timedelta(days=31):
            raise Answer(400, "Invalid parameter, start: more than a month before the end.")
        if end < (self._began_at - timedelta(days=2)).date().isoformat():
            return []
        return [order for order in await self._all(who) if start <= _day(order).isoformat() <= end]

    async def _all(self, who: Caller) -> list[LedgerOrderBody]:
        orders: list[LedgerOrderBody] = []
        after: int | None = 0
        while after is not None:
            page = await self._told(who, f"accounts/{who.account_id}/orders?after={after}", OrderPage)
            orders += page.orders
            after = page.next
        return orders

    async def _positions(self, who: Caller) -> list[Json]:
        stands = await self._told(who, f"accounts/{who.account_id}", AccountBody)
        held = [position for position in stands.positions if Decimal(position.quantity)]
        return [
            {
                "id": place,
                "symbol": position.symbol,
                "quantity": Decimal(position.quantity),
                "cost_basis": Decimal(position.quantity) * Decimal(position.price),
                "date_acquired": "2026-01-02T14:30:00.000Z",
            }
            for place, position in enumerate(held)
        ]

    async def _balances(self, who: Caller) -> Json:
        """Those of a margin account."""
        stands = await self._told(who, f"accounts/{who.account_id}", AccountBody)
        power, equity = Decimal(stands.buying_power), Decimal(stands.equity)
        return {
            "account_number": who.number,
            "account_type": "margin",
            "total_cash": Decimal(stands.cash),
            "total_equity": equity,
            "market_value": equity - Decimal(stands.cash),
            "current_requirement": 0,
            "pending_orders_count": 0,
            "uncleared_funds": 0,
            "margin": {
                "fed_call": 0,
                "maintenance_call": 0,
                "option_buying_power": power,
                "stock_buying_power": power,
                "stock_short_value": 0,
                "sweep": 0,
            },
        }

    async def _quotes(self, exchange: Exchange, who: Caller) -> Json:
        """Prices of what is known; of the rest it says that it is not."""
        asked = [name for name in (exchange.parameter("symbols") or "").split(",") if name]
        known = [name for name in asked if canonical_symbol(name) == name and not name.startswith("NOSUCH")]
        found = []
        for name in known:
            price = Decimal((await self._told(who, f"prices/{quote(name, safe='')}", QuotedBody)).price)
            at = int(datetime.now(UTC).timestamp() * 1_000)
            prices = {"bid": price, "ask": price, "last": price, "bid_date": at, "ask_date": at, "trade_date": at}
            found.append({"symbol": name, "description": f"{name} Inc", "exch": "Q", "type": "stock", **prices})
        unknown = [name for name in asked if name not in known]
        quotes = several("quote", found) if found else {}
        assert isinstance(quotes, dict)
        return {"quotes": quotes | ({"unmatched_symbols": several("symbol", unknown)} if unknown else {})}

    async def _told(self, who: Caller, path: str, what: type[_Body]) -> _Body:
        reply = await self._engine.get(path)
        check(reply, who)
        return msgspec.json.decode(reply.content, type=what)


async def _content(receive: Receive) -> bytes:
    """The whole body of a form; an exchange reads JSON only."""
    content, more = b"", True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientLeft("the client left before its body was complete")
        content += message.get("body", b"")
        more = message.get("more_body", False)
    return content


def _taken(reply: httpx.Response) -> Json:
    order_id = msgspec.json.decode(reply.content, type=AcceptedBody).broker_order_id
    return {"order": {"id": int(order_id.removeprefix("P")), "status": "ok", "partner_id": "3a8bbee1"}}


def _profile(who: Caller) -> Json:
    """Whose token it is; some have more than one account."""
    numbers = [who.number] if who.account_id.int % 2 else [number_of(UUID(int=1)), who.number]
    accounts = [
        {
            "account_number": number,
            "classification": "individual",
            "date_created": "2016-08-01T21:08:55.000Z",
            "day_trader": False,
            "option_level": 6,
            "status": "active",
            "type": "margin",
            "last_update_date": "2016-08-01T21:08:55.000Z",
        }
        for number in numbers
    ]
    shown = several("account", accounts)
    assert isinstance(shown, dict)
    return {"profile": {**shown, "id": "id-gcostanza", "name": "George Costanza"}}


def _day(order: LedgerOrderBody) -> date:
    return order.accepted_at.astimezone(_NEW_YORK).date()


def _has_tags(exchange: Exchange) -> bool:
    return exchange.parameter("includeTags") == "true"


def _for_good() -> str:
    """Tradier has no time after which a command is void."""
    return (datetime.now(UTC) + timedelta(days=1)).isoformat()


@asynccontextmanager
async def serve(broker: str, ledger_url: str) -> AsyncIterator[Loopback]:
    """Both addresses, until the end; the engine takes an id as often as it comes, as Tradier takes a tag."""
    assert broker == "tradier"
    writes: list[Write] = []
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=32, keepalive_expiry=2)
    async with (
        engine(ledger_url) as settings,
        httpx.AsyncClient(
            base_url=f"{settings.paper_url}/paper-b/",
            timeout=_ENGINE_SECONDS,
            limits=limits,
            trust_env=False,
            headers=OPERATOR,
        ) as client,
        serving(TradierApplication(Environment.PAPER, client, writes), BoundedProtocol) as paper,
        serving(TradierApplication(Environment.LIVE, client, writes), BoundedProtocol) as live,
    ):
        yield TradierLoopback({Environment.PAPER: paper, Environment.LIVE: live}, settings, writes)
