"""What a command asks for and what is known while it is judged: the whole input of an evaluation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum

from openbell_server.domain.accounts import Environment
from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.instruments import Instrument
from openbell_server.domain.intents import ActionType
from openbell_server.domain.market_calendars import MarketCalendars
from openbell_server.domain.orders import OrderSide, OrderType, Terms


class Gate(StrEnum):
    """When a command is judged: as it is accepted, and just before it is written to the broker."""

    ACCEPT = "accept"
    DOOR = "door"


class Need(StrEnum):
    """What a rule must know beside the command; those of an account's state are counted under its lock."""

    PRICE = "price"
    INSTRUMENT = "instrument"
    EXPOSURE = "exposure"
    DUPLICATES = "duplicates"
    RATE = "rate"


# Counted under the account's lock.
STATEFUL = frozenset({Need.EXPOSURE, Need.DUPLICATES, Need.RATE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A command as the rules see it. A REPLACE has the terms it asks for, and those the order has."""

    action_type: ActionType
    symbol: Symbol
    order_side: OrderSide
    order_type: OrderType
    terms: Terms
    environment: Environment
    # The API key's id; None for whoever else asks.
    key_id: str | None = None
    # What a REPLACE would change: the order's terms, and what of it has filled.
    before: Terms | None = None
    filled_quantity: Decimal = Decimal(0)
    # How long it has waited since it was accepted; None while it is being accepted.
    age: timedelta | None = None
    deadline: datetime | None = None
    allow_duplicate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferencePrice:
    """A price to judge by: where it is from, and when it was right."""

    price: Decimal
    as_of: datetime
    # quote, fill or given.
    source: str
    bid: Decimal | None = None
    ask: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """What one unit of a currency is in another."""

    rate: Decimal
    as_of: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """What an account has and may get, under its lock: orders that wait or are in doubt count as if they worked.

    The command itself is not among them; at the door neither, nor are queued ones behind it.
    """

    # Of the symbol; None where the broker's word was never heard.
    position: Decimal | None
    position_as_of: datetime | None
    # What open orders of the symbol may still fill.
    working_buys: Decimal = Decimal(0)
    working_sells: Decimal = Decimal(0)
    # Open orders of the account, of the symbol, and of the symbol on the command's side.
    open_orders: int = 0
    open_orders_of_symbol: int = 0
    open_orders_of_side: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known; what is None is missing, and what no rule needs need not be there."""

    now: datetime
    price: ReferencePrice | None = None
    instrument: Instrument | None = None
    # By the currency it is from and the one it is to.
    rates_of_exchange: Mapping[tuple[str, str], Rate] = field(default_factory=dict)
    exposure: Exposure | None = None
    # What is known of the hours of markets; None where that could not be read.
    calendars: MarketCalendars | None = None
    # When equal orders of the account were accepted under another Idempotency-Key or none, newest first; bounded.
    equal_orders: Sequence[datetime] | None = None
    # By the scope and subject of a rule: when commands were judged by it, newest first, no more than its limit.
    judged: Mapping[tuple[str, str], Sequence[datetime]] = field(default_factory=dict)
