"""A command and the facts known when it is evaluated: the whole input of an evaluation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum

from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.markets.calendars import MarketCalendars
from openbell_server.domain.markets.instruments import Instrument
from openbell_server.domain.money.balances import FreeBuyingPower
from openbell_server.domain.money.losses import LossMark
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_terms import OrderSide, OrderType, Terms


class Gate(StrEnum):
    """When a command is evaluated: when it is accepted, and just before it is written to the broker."""

    ACCEPT = "ACCEPT"
    DOOR = "DOOR"


class Need(StrEnum):
    """A fact that a rule needs beside the command."""

    PRICE = "price"
    INSTRUMENT = "instrument"
    EXPOSURE = "exposure"
    DUPLICATES = "duplicates"
    RATE = "rate"
    DAY_VALUE = "day_value"
    OTHERS = "others"
    LOSSES = "losses"
    FUNDS = "funds"


# Counted under the account's lock.
STATEFUL = frozenset({Need.EXPOSURE, Need.DUPLICATES, Need.RATE, Need.DAY_VALUE, Need.OTHERS, Need.LOSSES, Need.FUNDS})


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandFacts:
    """A command as the rules see it. A REPLACE has its new terms and the order's current ones."""

    action_type: ActionType
    symbol: Symbol
    order_side: OrderSide
    order_type: OrderType
    terms: Terms
    environment: Environment
    # The API key's id; None for other callers.
    api_key_id: str | None = None
    # Of the order that a REPLACE changes: its terms and its filled quantity.
    before: Terms | None = None
    filled_quantity: Decimal = Decimal(0)
    # Time since it was accepted; None at the accept gate.
    age: timedelta | None = None
    deadline: datetime | None = None
    allow_duplicate: bool = False
    # Whether a REPLACE changes a stop order that closes or reduces the position, so that less of it is less protection.
    protects: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferencePrice:
    price: Decimal
    as_of: datetime
    # quote, fill or given.
    source: str
    bid: Decimal | None = None
    ask: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """The price of one unit of a currency in another."""

    rate: Decimal
    as_of: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """Position and open orders, read under the account's lock; waiting and unknown orders count as working.

    The command itself is excluded; at the door, commands queued behind it are excluded too.
    """

    # Of the symbol; None if the broker never reported it.
    position: Decimal | None
    position_as_of: datetime | None
    # Open quantities of the symbol.
    working_buys: Decimal = Decimal(0)
    working_sells: Decimal = Decimal(0)
    # Open orders of the account, of the symbol, and of the symbol on the command's side.
    open_orders: int = 0
    open_orders_of_symbol: int = 0
    open_orders_of_side: int = 0
    # Open orders of the symbol's other side that could trade with the command, and the nearest limit price there:
    # None if an order there has no limit.
    matching_orders: int = 0
    matching_price: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What an account holds in a symbol, and the market there."""

    symbol: Symbol
    # The largest position, long or short, that open orders can lead to.
    quantity: Decimal
    price: ReferencePrice | None
    instrument: Instrument | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Known facts; None means missing. Facts that no rule needs may be left out."""

    now: datetime
    price: ReferencePrice | None = None
    instrument: Instrument | None = None
    # By source and target currency.
    rates_of_exchange: Mapping[tuple[str, str], Rate] = field(default_factory=dict)
    exposure: Exposure | None = None
    # What the account lost on this day, by currency and time zone.
    losses: Mapping[tuple[str, str], LossMark] = field(default_factory=dict)
    # The buying power of the account, less what was accepted since it was reported.
    funds: FreeBuyingPower | None = None
    # What the account holds in other symbols than that of the command.
    others: Sequence[Holding] | None = None
    # None if the calendars could not be read.
    calendars: MarketCalendars | None = None
    # When equal orders of the account were accepted under another Idempotency-Key or none, newest first; bounded.
    equal_orders: Sequence[datetime] | None = None
    # Times of commands evaluated by a rule, by its scope and subject, newest first, at most its limit.
    judged: Mapping[tuple[str, str], Sequence[datetime]] = field(default_factory=dict)
    # The value of what was accepted on this day, in the rule's currency, by its scope and subject.
    day_values: Mapping[tuple[str, str], Decimal] = field(default_factory=dict)
