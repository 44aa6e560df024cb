"""Alpaca's commands, translated into the engine's; whatever goes wrong there goes wrong here in the same way."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

from openbell_exchange.decisions import spec_of
from openbell_exchange.history import History
from openbell_exchange.terms import (
    EXACT,
    OrderSide,
    Terms,
    TimeInForce,
    canonical_symbol,
)
from openbell_torture.alpaca.engine import Engine, NewOrder
from openbell_torture.alpaca.orders import TIMES_IN_FORCE, TYPES, Json, order_id, order_json, order_of
from openbell_torture.alpaca.wire import UNIQUE, Caller, Refused, number_in, quantity_in

_SIDES: Final = {"buy": OrderSide.BUY, "sell": OrderSide.SELL}
_ID_LENGTH_MAX: Final = 128


class Commands:
    """What an account can have done."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

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
        named = await self._engine.named(who.account_id, client_order_id)
        if named is not None and named[1]:
            raise Refused(422, 40010001, UNIQUE)
        terms = Terms(
            quantity=quantity,
            limit_price=number_in(fields, "limit_price"),
            stop_price=number_in(fields, "stop_price"),
            time_in_force=_time_in_force(fields),
        )
        order = NewOrder(client_order_id=client_order_id, symbol=symbol, side=side, spec=spec_of(kind, terms))
        # The engine itself refuses what repeats a new order.
        await self._engine.submit(who, order)
        number, _ = await self._named(who, client_order_id)
        history = await self._history(who, order_id(number, 0))
        return order_json(history, 0, history.steps[0].number) | {"status": "pending_new"}

    async def replace(self, who: Caller, name: str, fields: Mapping[str, Any]) -> Json:
        """Put another order in the place of one that works: its qty counts by itself, what is left out stays."""
        history = await self._working(who, name)
        member = history.members[-1]
        # Without a qty it is what was left of the old one's.
        quantity = quantity_in(fields)
        total = member.total if quantity is None else EXACT.add(history.filled, quantity)
        terms = Terms(
            quantity=total,
            limit_price=number_in(fields, "limit_price") or member.limit_price,
            stop_price=number_in(fields, "stop_price") or member.stop_price,
            time_in_force=_time_in_force({"extended_hours": member.time_in_force is TimeInForce.EXT, **fields})
            if fields.get("time_in_force")
            else member.time_in_force,
        )
        old = Terms(
            quantity=member.total,
            limit_price=member.limit_price,
            stop_price=member.stop_price,
            time_in_force=member.time_in_force,
        )
        if terms == old:
            raise Refused(422, 42210000, "order parameters are not changed")
        client_order_id = _own_id(fields)
        if await self._engine.named(who.account_id, client_order_id) is not None:
            raise Refused(422, 40010001, UNIQUE)
        await self._engine.replace(who, history, client_order_id, terms)
        number, index = await self._named(who, client_order_id)
        made = await self._history(who, order_id(number, index))
        began = made.members[index].began_at
        first = next(step.number for step in made.steps if step.happened_at == began)
        return order_json(made, index, first) | {"status": "accepted"}

    async def cancel(self, who: Caller, name: str) -> None:
        """End an order that works; to end it twice is a mistake."""
        await self._engine.cancel(who, await self._working(who, name))

    async def cancel_all(self, who: Caller) -> list[Json]:
        """Cancel every working order, each for itself."""
        canceled: list[Json] = []
        for history in await self._engine.list_orders(who):
            if history.is_working:
                await self._engine.cancel(who, history)
                canceled.append({"id": order_id(history.number, len(history.members) - 1), "status": 200})
        return canceled

    async def _working(self, who: Caller, name: str) -> History:
        """The order that is meant, if it can be changed; one that was replaced cannot."""
        history = await self._history(who, name)
        _, index = order_of(name) or (0, 0)
        status = order_json(history, index)["status"]
        if not history.is_working or index < len(history.members) - 1:
            raise Refused(422, 42210000, f'order is already in "{status}" state')
        return history

    async def _history(self, who: Caller, name: str) -> History:
        number, index = order_of(name) or (0, 0)
        history = await self._engine.history(number)
        if history is None or history.account_id != who.account_id or index >= len(history.members):
            raise Refused(404, 40410000, f"order not found for {name}")
        return history

    async def _named(self, who: Caller, client_order_id: str) -> tuple[int, int]:
        named = await self._engine.named(who.account_id, client_order_id)
        assert named is not None, "the engine has done it"
        return named


def _own_id(fields: Mapping[str, Any]) -> str:
    """The id of a command, which no order of the account may have borne before, new or replacing."""
    client_order_id = str(fields.get("client_order_id") or uuid4())
    if len(client_order_id) > _ID_LENGTH_MAX:
        raise Refused(422, 40010001, f"client_order_id must be no more than {_ID_LENGTH_MAX} characters")
    return client_order_id


def _time_in_force(fields: Mapping[str, Any]) -> TimeInForce:
    found = TIMES_IN_FORCE.get(str(fields.get("time_in_force")))
    if found is None:
        raise Refused(422, 40010001, "invalid time_in_force")
    return TimeInForce.EXT if found is TimeInForce.DAY and fields.get("extended_hours") else found
