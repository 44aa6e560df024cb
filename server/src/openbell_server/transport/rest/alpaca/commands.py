"""Alpaca's requests for orders as commands; a field that this front cannot carry out is refused, never ignored."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, TypeVar

from openbell_server.application.intents.ports import ListedOrder
from openbell_server.application.intents.read_intents import WRONG_SYMBOL
from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.domain.errors import InvalidCommand
from openbell_server.domain.orders.intents import CreateIntent, ReplaceIntent
from openbell_server.domain.orders.order_terms import (
    EXACT,
    OrderSide,
    OrderSpec,
    OrderType,
    ReplacementSpec,
    RouteStrategy,
    TimeInForce,
    exact_decimal,
)

CLIENT_ORDER_ID_MAX: Final = 128
TYPES: Final = {
    "market": OrderType.MARKET,
    "limit": OrderType.LIMIT,
    "stop": OrderType.STOP,
    "stop_limit": OrderType.STOP_LIMIT,
}
SIDES: Final = {"buy": OrderSide.BUY, "sell": OrderSide.SELL}
TIMES_IN_FORCE: Final = {
    "day": TimeInForce.DAY,
    "gtc": TimeInForce.GOOD_TILL_CANCEL,
    "ioc": TimeInForce.IMMEDIATE_OR_CANCEL,
    "fok": TimeInForce.FILL_OR_KILL,
    "opg": TimeInForce.AT_OPEN,
    "cls": TimeInForce.AT_CLOSE,
}
_OF_CREATE: Final = frozenset(
    {
        "symbol",
        "qty",
        "side",
        "type",
        "time_in_force",
        "limit_price",
        "stop_price",
        "client_order_id",
        "extended_hours",
        "order_class",
    }
)
_OF_REPLACE: Final = frozenset({"qty", "time_in_force", "limit_price", "stop_price", "client_order_id"})
Fields = Mapping[str, Any]
Choice = TypeVar("Choice")


def fields_of(decoded: object) -> Fields:
    """The fields of a body that have a value."""
    if not isinstance(decoded, dict):
        raise InvalidCommand("", "must be an object")
    return {name: value for name, value in decoded.items() if value is not None}


def client_order_id_of(fields: Fields) -> str | None:
    """The id that the bot gave the order: it is the idempotency key of the command."""
    sent = fields.get("client_order_id")
    if sent is None or sent == "":
        return None
    is_visible = isinstance(sent, str) and len(sent) <= CLIENT_ORDER_ID_MAX and sent.isascii() and sent.isprintable()
    if not is_visible or " " in sent:
        raise InvalidCommand("client_order_id", f"must be 1 to {CLIENT_ORDER_ID_MAX} visible ASCII characters")
    return str(sent)


def create_of(fields: Fields, client_order_id: str, broker: BrokerDefinition) -> CreateIntent:
    _refuse_others(fields, _OF_CREATE)
    order_class = fields.get("order_class")
    if order_class not in (None, "", "simple"):
        raise InvalidCommand("order_class", "must be simple: orders with legs are not supported")
    symbol = broker.canonical_symbol(_text(fields, "symbol"))
    if symbol is None:
        raise InvalidCommand("symbol", WRONG_SYMBOL)
    order_type = _one_of(fields, "type", TYPES)
    _require_prices(fields, order_type)
    return CreateIntent(
        symbol=symbol,
        order_side=_one_of(fields, "side", SIDES),
        route_strategy=RouteStrategy.SMART,
        spec=OrderSpec(
            order_type=order_type,
            quantity=_required_number(fields, "qty"),
            limit_price=_number(fields, "limit_price"),
            stop_price=_number(fields, "stop_price"),
            time_in_force=_time_in_force(fields, order_type),
        ),
        client_reference_id=client_order_id,
    )


def replace_of(fields: Fields, listed: ListedOrder, client_order_id: str | None) -> ReplaceIntent:
    """A quantity is what shall still fill, as at Alpaca; what is left out stays."""
    _refuse_others(fields, _OF_REPLACE)
    order, quantity = listed.order, _number(fields, "qty")
    terms = order.terms
    spec = ReplacementSpec(
        order_type=listed.order_type,
        quantity=terms.quantity if quantity is None else EXACT.add(order.filled_quantity, quantity),
        limit_price=_kept(fields, "limit_price", terms.limit_price),
        stop_price=_kept(fields, "stop_price", terms.stop_price),
        time_in_force=_one_of(fields, "time_in_force", TIMES_IN_FORCE) if "time_in_force" in fields else None,
    )
    return ReplaceIntent(ref_intent_id=listed.intent_id, spec=spec, client_reference_id=client_order_id)


def _refuse_others(fields: Fields, known: frozenset[str]) -> None:
    for name in fields:
        if name not in known:
            raise InvalidCommand(name[:64], f"is not supported here; supported are {', '.join(sorted(known))}")


def _time_in_force(fields: Fields, order_type: OrderType) -> TimeInForce:
    chosen = _one_of(fields, "time_in_force", TIMES_IN_FORCE)
    is_extended = fields.get("extended_hours", False)
    if not isinstance(is_extended, bool):
        raise InvalidCommand("extended_hours", "must be true or false")
    if not is_extended:
        return chosen
    if chosen is not TimeInForce.DAY or order_type is not OrderType.LIMIT:
        raise InvalidCommand("extended_hours", "must be left out except for a limit order with time_in_force day")
    return TimeInForce.EXT


def _require_prices(fields: Fields, order_type: OrderType) -> None:
    for name, types in (
        ("limit_price", {OrderType.LIMIT, OrderType.STOP_LIMIT}),
        ("stop_price", {OrderType.STOP, OrderType.STOP_LIMIT}),
    ):
        if (name in fields) != (order_type in types):
            verb = "be sent" if order_type in types else "be left out"
            raise InvalidCommand(name, f"must {verb} for a {order_type.lower()} order")


def _kept(fields: Fields, name: str, old: Decimal | None) -> Decimal | None:
    if old is None and name in fields:
        raise InvalidCommand(name, "must be left out: the order has no such price")
    found = _number(fields, name)
    return old if found is None else found


def _text(fields: Fields, name: str) -> str:
    found = fields.get(name)
    if not isinstance(found, str):
        raise InvalidCommand(name, "must be a text")
    return found


def _one_of(fields: Fields, name: str, choices: Mapping[str, Choice]) -> Choice:
    chosen = fields.get(name)
    if not isinstance(chosen, str) or chosen not in choices:
        raise InvalidCommand(name, f"must be one of {', '.join(choices)}")
    return choices[chosen]


def _required_number(fields: Fields, name: str) -> Decimal:
    found = _number(fields, name)
    if found is None:
        raise InvalidCommand(name, "must be sent")
    return found


def _number(fields: Fields, name: str) -> Decimal | None:
    """A number or its text; a number is read as the shortest decimal that it stands for."""
    found = fields.get(name)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int | float | str):
        raise InvalidCommand(name, "must be a decimal number")
    text = found if isinstance(found, str) else format(Decimal(repr(found)), "f")
    return exact_decimal(text, name)
