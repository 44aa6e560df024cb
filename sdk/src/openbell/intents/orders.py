"""The four order types, with exact numbers."""

import re
from dataclasses import KW_ONLY, dataclass, fields
from decimal import Decimal
from typing import Final, Literal

Number = str | int | Decimal
Side = Literal["BUY", "SELL", "SELL_SHORT"]
TimeInForce = Literal["DAY", "GOOD_TILL_CANCEL", "IMMEDIATE_OR_CANCEL", "FILL_OR_KILL", "AT_OPEN", "AT_CLOSE", "EXT"]
ActionType = Literal["CREATE", "REPLACE", "CANCEL"]
# asc: the oldest first; desc: the newest first.
ListOrder = Literal["asc", "desc"]
TimeWindow = Literal["last_hour", "last_day", "last_week", "last_month", "all"]
RouteStrategy = Literal["SMART", "ARCA", "EDGA", "EDGX", "IEX", "MEMX", "XASE", "XBOS", "XCIS", "XNMS", "XNYS"]

# The numbers that the API accepts: no sign, no exponent, at most 18 digits on either side of the point.
_PLAIN: Final = re.compile(r"(0|[1-9][0-9]{0,17})(\.[0-9]{1,18})?", re.ASCII)


def exact(number: object, name: str) -> Decimal:
    """The number as a Decimal, without rounding; raises TypeError for a float."""
    if isinstance(number, float):
        raise TypeError(
            f"{name} must not be a float: {number!r} has no exact decimal value, and Openbell never rounds a number "
            f"that trades. Write {name} as a string, an int or a Decimal."
        )
    if isinstance(number, bool) or not isinstance(number, str | int | Decimal):
        raise TypeError(f"{name} must be a string, an int or a Decimal, not {type(number).__name__}.")
    text = format(number, "f") if isinstance(number, Decimal) else str(number)
    if not _PLAIN.fullmatch(text.removeprefix("-")):
        raise ValueError(
            f"{name} must be a plain decimal with at most 18 digits on either side of the point, not {text!r}."
        )
    if Decimal(text) <= 0:
        raise ValueError(f"{name} must be greater than zero, not {text}.")
    return Decimal(text)


@dataclass(frozen=True, slots=True)
class OrderSpec:
    """What every order type has. Numbers are converted to Decimal; a number that is not exact is rejected."""

    quantity: Number
    _: KW_ONLY
    time_in_force: TimeInForce | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name != "time_in_force":
                object.__setattr__(self, field.name, exact(getattr(self, field.name), field.name))

    def to_wire(self) -> dict[str, dict[str, str]]:
        """The JSON of the API: one key, the name of the class."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        content = {
            name: format(value, "f") if isinstance(value, Decimal) else str(value)
            for name, value in values.items()
            if value is not None
        }
        return {type(self).__name__: content}


@dataclass(frozen=True, slots=True)
class Market(OrderSpec):
    """A market order."""


@dataclass(frozen=True, slots=True)
class Limit(OrderSpec):
    """A limit order: trades at `price` or better."""

    price: Number


@dataclass(frozen=True, slots=True)
class Stop(OrderSpec):
    """A stop order: becomes a market order when `stop_price` trades."""

    stop_price: Number


@dataclass(frozen=True, slots=True)
class StopLimit(OrderSpec):
    """A stop-limit order: becomes a limit order at `price` when `stop_price` trades."""

    stop_price: Number
    price: Number


Spec = Market | Limit | Stop | StopLimit


def spec_of(spec: Spec | Number) -> Spec:
    """A number is the quantity of a market order."""
    return spec if isinstance(spec, OrderSpec) else Market(spec)
