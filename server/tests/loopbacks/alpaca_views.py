"""All that can be asked of Alpaca: orders, fills, the account, what it holds, what is traded and for how much."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, TypeVar
from urllib.parse import quote, unquote
from uuid import NAMESPACE_URL, uuid5

import httpx
import msgspec

from loopbacks.alpaca_books import Books
from loopbacks.alpaca_orders import History, Json, activities, asset_id, order_json, order_of, time_text
from loopbacks.alpaca_wire import Caller, Refused, check
from openbell_server.brokers.http_client import decimal_text
from openbell_server.brokers.paper.exchange import Exchange
from openbell_server.brokers.paper.wire import AccountBody, OrderPage, PositionBody, QuotedBody
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.identifiers import canonical_symbol
from openbell_server.domain.orders.order_terms import EXACT, exact_total

_ORDERS_DEFAULT, _ORDERS_MAX = 50, 500
_ACTIVITIES_MAX: Final = 100
_OPEN: Final = frozenset({"new", "partially_filled"})
_Body = TypeVar("_Body")
_Route = Callable[[Exchange, Caller], Awaitable[Any]]


class Views:
    """The GET side of one address."""

    def __init__(self, engine: httpx.AsyncClient, books: Books, environment: Environment) -> None:
        """What the engine shows late, this shows late."""
        self._engine = engine
        self._books = books
        self._environment = environment

    async def answer(self, exchange: Exchange, who: Caller) -> Any:
        """The JSON of an answer."""
        plain: dict[str, _Route] = {
            "/v2/orders": self._orders,
            "/v2/orders:by_client_order_id": self._by_client_order_id,
            "/v2/account": self._account,
            "/v2/account/activities/FILL": self._activities,
            "/v2/positions": self._positions,
            "/v2/stocks/quotes/latest": self._quotes,
        }
        path = unquote(exchange.path)
        if path in plain:
            return await plain[path](exchange, who)
        rest, _, name = path.rpartition("/")
        if rest == "/v2/orders":
            return await self._order(who, order_of(name), name)
        if rest == "/v2/assets":
            return _asset(name)
        raise Refused(404, 40410000, "endpoint not found")

    async def _order(self, who: Caller, place: tuple[int, int] | None, name: str) -> Json:
        """One order, as soon as the engine finds it."""
        nothing = Refused(404, 40410000, f"order not found for {name}")
        if place is None:
            raise nothing
        number, index = place
        found = await self._engine.get(f"/accounts/{who.account_id}/broker-orders/P{number}", headers=who.signed)
        check(found)
        history = await self._books.history(number)
        if history is None or index >= len(history.members):
            raise nothing
        return order_json(history, index)

    async def _by_client_order_id(self, exchange: Exchange, who: Caller) -> Json:
        name = exchange.parameter("client_order_id") or ""
        return await self._order(who, await self._books.named(who.account_id, name), name)

    async def _orders(self, exchange: Exchange, who: Caller) -> list[Json]:
        limit = _bounded(exchange.parameter("limit"), _ORDERS_DEFAULT, _ORDERS_MAX, "limit")
        status = exchange.parameter("status") or "open"
        symbols = set(filter(None, (exchange.parameter("symbols") or "").split(",")))
        after, until = _time(exchange, "after"), _time(exchange, "until")
        chosen = [
            (member.began_at, history.number, index, history)
            for history in await self._histories(who)
            for index, member in enumerate(history.members)
            if (not symbols or history.symbol in symbols)
            and (after is None or member.began_at > after)
            and (until is None or member.began_at < until)
        ]
        chosen.sort(key=lambda entry: entry[:3], reverse=exchange.parameter("direction") != "asc")
        orders = (order_json(history, index) for _, _, index, history in chosen)
        wanted = (order for order in orders if status == "all" or (order["status"] in _OPEN) is (status == "open"))
        return [order for order, _ in zip(wanted, range(limit), strict=False)]

    async def _activities(self, exchange: Exchange, who: Caller) -> list[Json]:
        """Fills, page by page: the token of the next is the id of the last one on this."""
        size = _bounded(exchange.parameter("page_size"), _ACTIVITIES_MAX, _ACTIVITIES_MAX, "page_size")
        token, is_rising = exchange.parameter("page_token"), exchange.parameter("direction") == "asc"
        after, until = _time(exchange, "after"), _time(exchange, "until")
        listed = [fill for history in await self._histories(who) for fill in activities(history)]
        listed.sort(key=lambda fill: str(fill["id"]), reverse=not is_rising)
        return [
            fill
            for fill in listed
            if (token is None or (fill["id"] > token if is_rising else fill["id"] < token))
            and (after is None or fill["transaction_time"] > time_text(after))
            and (until is None or fill["transaction_time"] < time_text(until))
        ][:size]

    async def _account(self, exchange: Exchange, who: Caller) -> Json:
        del exchange
        body = await self._stands(who)
        held = exact_total(_value(position) for position in body.positions)
        equity = decimal_text(EXACT.add(Decimal(body.cash), held))
        digits = who.account_id.int % 10**9
        return {
            "id": str(uuid5(NAMESPACE_URL, f"account {who.account_id}")),
            "account_number": _account_number(who) if self._environment is Environment.PAPER else f"{digits:09}",
            "status": "ACCOUNT_CLOSED" if who.is_closed else "ACTIVE",
            "crypto_status": "ACTIVE",
            "currency": "USD",
            "cash": body.cash,
            "buying_power": body.buying_power,
            "non_marginable_buying_power": body.buying_power,
            "accrued_fees": body.fees_paid,
            "portfolio_value": equity,
            "equity": equity,
            "last_equity": equity,
            "long_market_value": decimal_text(held),
            "multiplier": "1",
            "shorting_enabled": True,
            "trading_blocked": who.is_closed,
            "transfers_blocked": False,
            "account_blocked": who.is_closed,
            "trade_suspended_by_user": False,
            "created_at": "2019-06-12T22:47:07.99658Z",
            "balance_asof": "2026-01-02",
            "user_configurations": None,
        }

    async def _positions(self, exchange: Exchange, who: Caller) -> list[Json]:
        del exchange
        return [_position(position) for position in (await self._stands(who)).positions]

    async def _quotes(self, exchange: Exchange, who: Caller) -> Json:
        """Market data has numbers that are numbers."""
        del who
        quotes: dict[str, Json] = {}
        for name in filter(None, (exchange.parameter("symbols") or "").split(",")):
            if canonical_symbol(name) is None:
                raise Refused(400, 40010000, f"invalid symbol: {name}")
            price = Decimal((await self._told(f"/prices/{quote(name, safe='')}", QuotedBody)).price)
            sides = {"ap": price, "as": 1, "ax": "V", "bp": price, "bs": 1, "bx": "V"}
            quotes[name] = {"t": time_text(datetime.now(UTC)), **sides, "c": ["R"], "z": "C"}
        return {"quotes": quotes}

    async def _stands(self, who: Caller) -> AccountBody:
        return await self._told(f"/accounts/{who.account_id}", AccountBody)

    async def _told(self, path: str, what: type[_Body]) -> _Body:
        reply = await self._engine.get(path)
        check(reply)
        return msgspec.json.decode(reply.content, type=what)

    async def _histories(self, who: Caller) -> list[History]:
        """All orders of the account that the engine lists."""
        numbers: list[int] = []
        after: int | None = 0
        while after is not None:
            path, params = f"/accounts/{who.account_id}/orders", {"after": str(after)}
            reply = await self._engine.get(path, params=params, headers=who.signed)
            check(reply)
            page = msgspec.json.decode(reply.content, type=OrderPage)
            numbers += [order.number for order in page.orders]
            after = page.next
        return await self._books.histories(numbers)


def _account_number(who: Caller) -> str:
    return f"PA{who.account_id.hex[-10:].upper()}"


def _asset(name: str) -> Json:
    symbol = canonical_symbol(name)
    if symbol is None or symbol != name:
        raise Refused(404, 40410000, f"asset not found for {name}")
    return {
        "id": asset_id(symbol),
        "class": "us_equity",
        "exchange": "NASDAQ",
        "symbol": symbol,
        "name": f"{symbol} Common Stock",
        "status": "active",
        "tradable": True,
        "marginable": True,
        "maintenance_margin_requirement": 30,
        "shortable": True,
        "easy_to_borrow": True,
        "fractionable": True,
        "borrow_status": "easy_to_borrow",
        "attributes": ["fractional_eh_enabled", "has_options"],
    }


def _value(position: PositionBody) -> Decimal:
    return EXACT.multiply(Decimal(position.quantity), Decimal(position.price))


def _position(position: PositionBody) -> Json:
    value = decimal_text(_value(position))
    return {
        "asset_id": asset_id(position.symbol),
        "symbol": position.symbol,
        "exchange": "NASDAQ",
        "asset_class": "us_equity",
        "asset_marginable": True,
        "qty": position.quantity,
        "qty_available": position.quantity,
        "avg_entry_price": position.price,
        "side": "short" if Decimal(position.quantity) < 0 else "long",
        "market_value": value,
        "cost_basis": value,
        "unrealized_pl": "0",
        "unrealized_plpc": "0",
        "unrealized_intraday_pl": "0",
        "unrealized_intraday_plpc": "0",
        "current_price": position.price,
        "lastday_price": position.price,
        "change_today": "0",
    }


def _bounded(text: str | None, default: int, most: int, name: str) -> int:
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= most):
        raise Refused(422, 40010001, f"{name} must be between 1 and {most}")
    return int(text)


def _time(exchange: Exchange, name: str) -> datetime | None:
    text = exchange.parameter(name)
    try:
        return None if text is None else datetime.fromisoformat(text).astimezone(UTC)
    except ValueError as trouble:
        raise Refused(422, 40010001, f"{name} must be a time") from trouble
