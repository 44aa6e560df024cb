"""The arguments of each tool; an argument that is not listed is refused."""

from typing import Annotated, Any, Final, Literal

import msgspec

Text = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
Symbol = Annotated[str, msgspec.Meta(min_length=1, max_length=64, description="Such as AAPL.")]
Id = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-fA-F-]{36}$")]
Amount = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^(0|[1-9][0-9]{0,17})(\.[0-9]{1,18})?$", description='A decimal as a string, such as "187.50".'
    ),
]
Key = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[!-~]{1,200}$",
        description="Your own id of this one command. Repeat it if an answer is lost; use a new one for a new command.",
    ),
]
Rows = Annotated[int, msgspec.Meta(ge=1, le=50)]
OrderType = Literal["MARKET", "LIMIT", "STOP", "STOP_LIMIT"]
TimeInForce = Literal["DAY", "GOOD_TILL_CANCEL", "IMMEDIATE_OR_CANCEL", "FILL_OR_KILL", "AT_OPEN", "AT_CLOSE", "EXT"]


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of a tool."""


class Nothing(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """No arguments."""


class Terms(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every new version of an order has."""

    order_type: OrderType
    quantity: Amount
    limit_price: Amount | None = None
    stop_price: Amount | None = None
    time_in_force: TimeInForce | None = None


class NewOrder(Terms, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new order."""

    symbol: Symbol
    side: Literal["BUY", "SELL", "SELL_SHORT"]


class PlaceOrder(NewOrder, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new order that is placed."""

    idempotency_key: Key
    client_reference_id: Text | None = None


class ReplaceOrder(Terms, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """New terms of an order."""

    intent_id: Id
    idempotency_key: Key


class CancelOrder(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An order that is cancelled."""

    intent_id: Id
    idempotency_key: Key


class WaitForOrder(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An order, and for how long to wait for its end."""

    intent_id: Id
    seconds: Annotated[int, msgspec.Meta(ge=1, le=30)] = 30


class OneOrder(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One order."""

    intent_id: Id


class SomeOrders(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which orders to list."""

    status: Literal["WORKING", "CLOSED", "ALL"] = "WORKING"
    symbol: Symbol | None = None
    limit: Rows = 20


class EventsSince(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where to start in the event log."""

    after_seq: Annotated[int, msgspec.Meta(ge=0, le=2**53)]
    limit: Rows = 20


class OneReceipt(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One receipt."""

    receipt_id: Id


class SomeReceipts(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which receipts to list."""

    intent_id: Id | None = None
    limit: Rows = 20


class Halt(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why trading stops."""

    reason: Text
    cancel_working: bool = False


def input_schema(arguments: type[Arguments]) -> dict[str, Any]:
    """The JSON schema, without what only repeats the names or the defaults of absent arguments."""
    (_,), components = msgspec.json.schema_components([arguments])
    schema = components[arguments.__name__]
    return {
        "type": "object",
        "properties": {name: _present(field) for name, field in schema["properties"].items()},
        "required": schema["required"],
        "additionalProperties": False,
    }


_NULL: Final = {"type": "null"}


def _present(field: dict[str, Any]) -> dict[str, Any]:
    """The schema of an argument that is sent; null is accepted too, and means the same as leaving it out."""
    if "anyOf" in field:
        (field,) = [each for each in field["anyOf"] if each != _NULL]
    return {name: value for name, value in field.items() if (name, value) != ("default", None)}
