"""Alpaca's commands, translated into the engine's; whatever goes wrong there goes wrong here in the same way."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote
from uuid import uuid4

import httpx

from loopbacks.alpaca_books import Books
from loopbacks.alpaca_orders import TIMES_IN_FORCE, TYPES, History, Json, order_id, order_json, order_of
from loopbacks.alpaca_wire import UNIQUE, Caller, Refused, check, number_in, optional_text, quantity_in
from openbell_server.brokers.http_client import decimal_text
from openbell_server.domain.identifiers import canonical_symbol
from openbell_server.domain.orders.broker_reports import ReportStatus
from openbell_server.domain.orders.order_terms import EXACT, TimeInForce, exact_total

_SIDES: Final = {"buy": "BUY", "sell": "SELL"}
_ID_LENGTH_MAX: Final = 128
# Alpaca has no time after which a command is void.
_FOR_GOOD: Final = timedelta(days=1)


class Commands:
    """What an account can have done."""

    def __init__(self, engine: httpx.AsyncClient, books: Books) -> None:
        """All that is kept is in the books."""
        self._engine = engine
        self._books = books

    async def submit(self, who: Caller, fields: Mapping[str, Any]) -> Json:
        """Place an order; the answer does not know yet what becomes of it."""
        symbol = canonical_symbol(str(fields.get("symbol") or ""))
        quantity = quantity_in(fields)
        if symbol is None:
            raise Refused(422, 42210000, f'asset "{fields.get("symbol")}" not found')
        if quantity is None:
            raise Refused(422, 40010001, "qty or notional is required")
        kind, side = TYPES.get(str(fields.get("type"))), _SIDES.get(str(fields.get("side")))
        if kind is None or side is None or fields.get("order_class") not in {None, "", "simple"}:
            raise Refused(422, 40010001, "invalid type, side or order_class")
        client_order_id = _own_id(fields)
        named = await self._books.named(who.account_id, client_order_id)
        if named is not None and named[1]:
            raise Refused(422, 40010001, UNIQUE)
        limit_price, stop_price = number_in(fields, "limit_price"), number_in(fields, "stop_price")
        time_in_force = _time_in_force(fields)
        # The engine itself refuses what repeats a new order.
        if named is None:
            terms = (quantity, limit_price, stop_price, time_in_force)
            await self._books.remember(who.account_id, client_order_id, terms)
        body = {
            "client_order_id": client_order_id,
            "symbol": symbol,
            "side": side,
            "type": kind,
            "quantity": decimal_text(quantity),
            "limit_price": optional_text(limit_price),
            "stop_price": optional_text(stop_price),
            "time_in_force": time_in_force,
            "valid_until": _for_good(),
        }
        await self._send(who, "POST", "orders", body)
        number, _ = await self._named(who, client_order_id)
        history = await self._history(who, order_id(number, 0))
        return order_json(history, 0, history.steps[0].number) | {"status": "pending_new"}

    async def replace(self, who: Caller, name: str, fields: Mapping[str, Any]) -> Json:
        """Put another order in the place of one that works: its qty counts by itself, what is left out stays."""
        history = await self._working(who, name)
        member = history.members[-1]
        filled = exact_total(fill.quantity for fill in history.fills)
        # Without a qty it is what was left of the old one's.
        quantity = quantity_in(fields)
        total = member.total if quantity is None else EXACT.add(filled, quantity)
        terms = (
            total,
            number_in(fields, "limit_price") or member.limit_price,
            number_in(fields, "stop_price") or member.stop_price,
            _time_in_force({"extended_hours": member.time_in_force is TimeInForce.EXT, **fields})
            if fields.get("time_in_force")
            else member.time_in_force,
        )
        if terms == (member.total, member.limit_price, member.stop_price, member.time_in_force):
            raise Refused(422, 42210000, "order parameters are not changed")
        client_order_id = _own_id(fields)
        if await self._books.named(who.account_id, client_order_id) is not None:
            raise Refused(422, 40010001, UNIQUE)
        body = {
            "client_order_id": client_order_id,
            "quantity": decimal_text(terms[0]),
            "limit_price": optional_text(terms[1]),
            "stop_price": optional_text(terms[2]),
            "time_in_force": terms[3],
            "valid_until": _for_good(),
        }
        await self._send(who, "PATCH", _path(history), body)
        number, index = await self._named(who, client_order_id)
        made = await self._history(who, order_id(number, index))
        began = made.members[index].began_at
        first = next(step.number for step in made.steps if step.happened_at == began)
        return order_json(made, index, first) | {"status": "accepted"}

    async def cancel(self, who: Caller, name: str) -> None:
        """End an order that works; to end it twice is a mistake."""
        history = await self._working(who, name)
        check(
            await self._engine.delete(
                f"/accounts/{who.account_id}/{_path(history)}", params={"valid_until": _for_good()}, headers=who.signed
            )
        )

    async def _working(self, who: Caller, name: str) -> History:
        """The order that is meant, if it can be changed; one that was replaced cannot."""
        history = await self._history(who, name)
        _, index = order_of(name) or (0, 0)
        status = order_json(history, index)["status"]
        if history.steps[-1].status is not ReportStatus.WORKING or index < len(history.members) - 1:
            raise Refused(422, 42210000, f'order is already in "{status}" state')
        return history

    async def _history(self, who: Caller, name: str) -> History:
        number, index = order_of(name) or (0, 0)
        history = await self._books.history(number)
        if history is None or history.account_id != who.account_id or index >= len(history.members):
            raise Refused(404, 40410000, f"order not found for {name}")
        return history

    async def _named(self, who: Caller, client_order_id: str) -> tuple[int, int]:
        named = await self._books.named(who.account_id, client_order_id)
        assert named is not None, "the engine has done it"
        return named

    async def _send(self, who: Caller, method: str, path: str, body: Mapping[str, str | None]) -> None:
        check(
            await self._engine.request(
                method, f"/accounts/{who.account_id}/{path}", json=dict(body), headers=who.signed
            )
        )


def _own_id(fields: Mapping[str, Any]) -> str:
    """The id of a command, which no order of the account may have borne before, new or replacing."""
    client_order_id = str(fields.get("client_order_id") or uuid4())
    if len(client_order_id) > _ID_LENGTH_MAX:
        raise Refused(422, 40010001, f"client_order_id must be no more than {_ID_LENGTH_MAX} characters")
    return client_order_id


def _path(history: History) -> str:
    """By the id that it came with, so that a plan of faults means the same order as at the engine."""
    return f"orders/{quote(history.members[0].client_order_id, safe='')}"


def _time_in_force(fields: Mapping[str, Any]) -> TimeInForce:
    found = TIMES_IN_FORCE.get(str(fields.get("time_in_force")))
    if found is None:
        raise Refused(422, 40010001, "invalid time_in_force")
    return TimeInForce.EXT if found is TimeInForce.DAY and fields.get("extended_hours") else found


def _for_good() -> str:
    return (datetime.now(UTC) + _FOR_GOOD).isoformat()
