"""Types that many request and response bodies share, and the copy of a record into a body."""

from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from typing import Annotated, Generic, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType, structs

from openbell_server.domain.errors import InvalidCommand
from openbell_server.domain.names import NAME_LENGTH_MAX, REASON_LENGTH_MAX
from openbell_server.domain.orders.order_terms import OrderSide, OrderType, TimeInForce

Body = TypeVar("Body", bound=Struct)
Row = TypeVar("Row")
Moment = Annotated[datetime, Meta(tz=True)]
# The JSON schema describes these formats; the domain checks them.
NameText = Annotated[
    str,
    Meta(
        description="printable, not only spaces",
        examples=["rebalancer"],
        extra_json_schema={"minLength": 1, "maxLength": NAME_LENGTH_MAX, "format": "name"},
    ),
]
ZoneText = Annotated[
    str,
    Meta(
        max_length=64,
        description="UTC or the IANA name of a zone",
        examples=["America/New_York"],
        extra_json_schema={"format": "timezone"},
    ),
]
ReasonText = Annotated[
    str,
    Meta(
        description="for people, printable",
        extra_json_schema={"format": "printable", "minLength": 1, "maxLength": REASON_LENGTH_MAX},
    ),
]


class PageOf(Struct, Generic[Row], frozen=True):
    """One page of a list, the shape of every list.

    next_cursor is null on the last page, and last_cursor where a list cannot be continued with later rows.
    """

    data: list[Row]
    next_cursor: str | None = None
    last_cursor: str | None = None


class OrderTermsBody(Struct, frozen=True, kw_only=True):
    """The terms of an order."""

    symbol: str
    order_side: OrderSide
    order_type: OrderType
    quantity: str
    time_in_force: TimeInForce
    limit_price: str | UnsetType = UNSET
    stop_price: str | UnsetType = UNSET


class ReasonBody(Struct, frozen=True):
    """Why: our code, and the broker's own code and text."""

    code: str
    broker_code: str | UnsetType = UNSET
    broker_text: str | UnsetType = UNSET


def body_from(kind: type[Body], record: object, /, *more: object, **others: object) -> Body:
    """A body with the values of `others`, and for its other fields those that a record has under the same names.

    A decimal becomes text with all its digits; None is left out where the field is optional.
    """
    values = {name: _field(name, record, *more) for name in kind.__struct_fields__ if name not in others} | others
    optional = _optional_fields(kind)
    return kind(
        **{
            name: format(value, "f") if isinstance(value, Decimal) else value
            for name, value in values.items()
            if value is not None or name not in optional
        }
    )


def _field(name: str, record: object, *more: object) -> object:
    return getattr(record, name) if not more or hasattr(record, name) else _field(name, *more)


@cache
def _optional_fields(kind: type[Struct]) -> frozenset[str]:
    return frozenset(field.name for field in structs.fields(kind) if field.default is UNSET)


def in_utc(moment: datetime | None, field: str = "expires_at") -> datetime | None:
    """The time of a field in UTC, as it is stored."""
    try:
        return None if moment is None else moment.astimezone(UTC)
    except OverflowError:
        # An offset can move a time near year 1 or 9999 out of the range of datetime.
        raise InvalidCommand(field, "must be in the years 1 to 9999 of UTC") from None
