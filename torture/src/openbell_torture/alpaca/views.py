"""All that can be asked of Alpaca: orders, fills, the account, what it holds, what is traded and for how much."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from urllib.parse import unquote
from uuid import NAMESPACE_URL, uuid5

from openbell_exchange.terms import EXACT, canonical_symbol, decimal_text, exact_total
from openbell_torture.alpaca.engine import Engine, HeldPosition
from openbell_torture.alpaca.orders import Json, activities, asset_id, order_json, order_of, time_text
from openbell_torture.alpaca.wire import Caller, Refused
from openbell_torture.http_request import HttpRequest

_ORDERS_DEFAULT, _ORDERS_MAX = 50, 500
_ACTIVITIES_MAX: Final = 100
# The least difference of two amounts; the exchange has more digits.
_LEAST: Final = Decimal("1E-18")
_OPEN: Final = frozenset({"new", "partially_filled"})
_Route = Callable[[HttpRequest, Caller], Awaitable[Any]]


class Views:
    """The GET side of one address."""

    def __init__(self, engine: Engine, *, is_live: bool) -> None:
        self._engine = engine
        self._is_live = is_live

    async def answer(self, request: HttpRequest, who: Caller) -> Any:  # noqa: ANN401 - JSON
        """The JSON of an answer."""
        plain: dict[str, _Route] = {
            "/v2/orders": self._orders,
            "/v2/orders:by_client_order_id": self._by_client_order_id,
            "/v2/account": self._account,
            "/v2/account/activities/FILL": self._activities,
            "/v2/clock": self._clock,
            "/v2/positions": self._positions,
            "/v2/stocks/quotes/latest": self._quotes,
            "/v2/stocks/trades/latest": self._trades,
        }
        path = unquote(request.path)
        if path in plain:
            return await plain[path](request, who)
        rest, _, name = path.rpartition("/")
        if rest == "/v2/orders":
            return await self._order(who, order_of(name), name)
        if rest == "/v2/assets":
            return _asset(name)
        if rest == "/v2/positions":
            return await self._one_position(who, name)
        raise Refused(404, 40410000, "endpoint not found")

    async def _order(self, who: Caller, place: tuple[int, int] | None, name: str) -> Json:
        """One order, as soon as the engine finds it."""
        nothing = Refused(404, 40410000, f"order not found for {name}")
        if place is None:
            raise nothing
        number, index = place
        history = await self._engine.find(who, number)
        if history is None or index >= len(history.members):
            raise nothing
        return order_json(history, index)

    async def _by_client_order_id(self, request: HttpRequest, who: Caller) -> Json:
        name = request.parameter("client_order_id") or ""
        return await self._order(who, await self._engine.named(who.account_id, name), name)

    async def _orders(self, request: HttpRequest, who: Caller) -> list[Json]:
        limit = _bounded(request.parameter("limit"), _ORDERS_DEFAULT, _ORDERS_MAX, "limit")
        status = request.parameter("status") or "open"
        symbols = set(filter(None, (request.parameter("symbols") or "").split(",")))
        after, until = _time(request, "after"), _time(request, "until")
        chosen = [
            (member.began_at, history.number, index, history)
            for history in await self._engine.list_orders(who)
            for index, member in enumerate(history.members)
            if (not symbols or history.symbol in symbols)
            and (after is None or member.began_at > after)
            and (until is None or member.began_at < until)
        ]
        chosen.sort(key=lambda entry: entry[:3], reverse=request.parameter("direction") != "asc")
        orders = (order_json(history, index) for _, _, index, history in chosen)
        wanted = (order for order in orders if status == "all" or (order["status"] in _OPEN) is (status == "open"))
        return [order for order, _ in zip(wanted, range(limit), strict=False)]

    async def _activities(self, request: HttpRequest, who: Caller) -> list[Json]:
        """Fills, page by page: the token of the next is the id of the last one on this."""
        size = _bounded(request.parameter("page_size"), _ACTIVITIES_MAX, _ACTIVITIES_MAX, "page_size")
        token, is_rising = request.parameter("page_token"), request.parameter("direction") == "asc"
        after, until = _time(request, "after"), _time(request, "until")
        listed = [fill for history in await self._engine.list_orders(who) for fill in activities(history)]
        listed.sort(key=lambda fill: str(fill["id"]), reverse=not is_rising)
        return [
            fill
            for fill in listed
            if (token is None or (fill["id"] > token if is_rising else fill["id"] < token))
            and (after is None or fill["transaction_time"] > time_text(after))
            and (until is None or fill["transaction_time"] < time_text(until))
        ][:size]

    async def _account(self, request: HttpRequest, who: Caller) -> Json:
        del request
        state = await self._engine.state(who.account_id)
        held = exact_total(_value(position) for position in state.positions)
        equity = _amount(EXACT.add(state.cash, held))
        digits = who.account_id.int % 10**9
        return {
            "id": str(uuid5(NAMESPACE_URL, f"account {who.account_id}")),
            "account_number": f"{digits:09}" if self._is_live else _account_number(who),
            "status": "ACCOUNT_CLOSED" if who.is_closed else "ACTIVE",
            "crypto_status": "ACTIVE",
            "currency": "USD",
            "cash": _amount(state.cash),
            "buying_power": _amount(state.buying_power),
            "non_marginable_buying_power": _amount(state.buying_power),
            "accrued_fees": decimal_text(state.fees),
            "portfolio_value": equity,
            "equity": equity,
            "last_equity": equity,
            "long_market_value": _amount(held),
            # Nothing is lent.
            "initial_margin": "0",
            "maintenance_margin": "0",
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

    async def _positions(self, request: HttpRequest, who: Caller) -> list[Json]:
        del request
        return [_position(each) for each in (await self._engine.state(who.account_id)).positions]

    async def _quotes(self, request: HttpRequest, who: Caller) -> Json:
        """Market data has numbers that are numbers."""
        del who
        quotes: dict[str, Json] = {}
        for name, price in (await self._prices(request)).items():
            sides = {"ap": price, "as": 1, "ax": "V", "bp": price, "bs": 1, "bx": "V"}
            quotes[name] = {"t": time_text(datetime.now(UTC)), **sides, "c": ["R"], "z": "C"}
        return {"quotes": quotes}

    async def _trades(self, request: HttpRequest, who: Caller) -> Json:
        del who
        now = time_text(datetime.now(UTC))
        prices = await self._prices(request)
        return {"trades": {name: {"t": now, "x": "V", "p": price, "s": 1} for name, price in prices.items()}}

    async def _prices(self, request: HttpRequest) -> dict[str, Decimal]:
        prices: dict[str, Decimal] = {}
        for name in filter(None, (request.parameter("symbols") or "").split(",")):
            symbol = canonical_symbol(name)
            if symbol is None:
                raise Refused(400, 40010000, f"invalid symbol: {name}")
            prices[name] = await self._engine.price(symbol)
        return prices

    async def _one_position(self, who: Caller, symbol: str) -> Json:
        for each in (await self._engine.state(who.account_id)).positions:
            if each.symbol == symbol:
                return _position(each)
        raise Refused(404, 40410000, "position does not exist")

    async def _clock(self, request: HttpRequest, who: Caller) -> Json:
        """The market is always open."""
        del request, who
        now = datetime.now(UTC)
        closes, opens = time_text(now + timedelta(hours=6)), time_text(now + timedelta(hours=18))
        return {"timestamp": time_text(now), "is_open": True, "next_open": opens, "next_close": closes}


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


def _amount(number: Decimal) -> str:
    return decimal_text(number.quantize(_LEAST, context=EXACT).normalize(EXACT))


def _value(position: HeldPosition) -> Decimal:
    return EXACT.multiply(position.quantity, position.price)


def _position(position: HeldPosition) -> Json:
    value = decimal_text(_value(position))
    return {
        "asset_id": asset_id(position.symbol),
        "symbol": position.symbol,
        "exchange": "NASDAQ",
        "asset_class": "us_equity",
        "asset_marginable": True,
        "qty": decimal_text(position.quantity),
        "qty_available": decimal_text(position.quantity),
        "avg_entry_price": decimal_text(position.price),
        "side": "short" if position.quantity < 0 else "long",
        "market_value": value,
        "cost_basis": value,
        "unrealized_pl": "0",
        "unrealized_plpc": "0",
        "unrealized_intraday_pl": "0",
        "unrealized_intraday_plpc": "0",
        "current_price": decimal_text(position.price),
        "lastday_price": decimal_text(position.price),
        "change_today": "0",
    }


def _bounded(text: str | None, default: int, most: int, name: str) -> int:
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= most):
        raise Refused(422, 40010001, f"{name} must be between 1 and {most}")
    return int(text)


def _time(request: HttpRequest, name: str) -> datetime | None:
    text = request.parameter(name)
    try:
        return None if text is None else datetime.fromisoformat(text).astimezone(UTC)
    except ValueError as trouble:
        raise Refused(422, 40010001, f"{name} must be a time") from trouble
