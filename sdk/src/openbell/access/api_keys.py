"""API keys."""

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Required, TypedDict

from openbell.models import Record


class ApiKeyChanges(TypedDict, total=False):
    """Fields to change."""

    name: str
    disabled: bool
    own_orders_only: bool


class AgentBudget(TypedDict, total=False):
    """What an agent may use and spend; each limit becomes a rule of its key."""

    account_ids: Required[Sequence[str]]
    symbols: Required[Sequence[str]]
    order_notional: Required[Decimal | int | str]
    day_notional: Required[Decimal | int | str]
    day_loss: Required[Decimal | int | str]
    currency: Required[str]
    orders_per_minute: Required[int]
    # Without them: 10, true, and the zone of each account.
    open_orders: int
    no_short: bool
    timezone: str


class ApiKey(Record, frozen=True, kw_only=True):
    """An API key; the secret api_key only in the reply that creates it."""

    id: str
    organization_id: str
    key_id: str
    name: str
    environment: str
    permissions: tuple[str, ...]
    disabled: bool
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    # Up to a minute earlier than the last use.
    last_used_at: datetime | None = None
    # Whether it may cancel and replace only orders of intents that it created.
    own_orders_only: bool = False
    # The only accounts that it may use; None: all of its environment.
    account_ids: tuple[str, ...] | None = None
    api_key: str | None = None

    def __repr__(self) -> str:
        return f"ApiKey(id={self.id!r}, key_id={self.key_id!r}, name={self.name!r}, disabled={self.disabled})"


class ValidKey(Record, frozen=True, kw_only=True):
    """The organization and environment of a valid key."""

    id: str
    organization_id: str
    environment: str
    disabled: bool
    created_at: datetime


class ValueLimit(Record, frozen=True, kw_only=True):
    """The highest value of one order in a currency, and the scope of the rule that limits it."""

    value: Decimal
    currency: str
    scope: str


class DayLimit(Record, frozen=True, kw_only=True):
    """The value of orders that can still be accepted; later_days is None for a key that never expires."""

    currency: str
    scope: str
    timezone: str
    today: date
    accepted_today: Decimal
    left_today: Decimal
    per_day: Decimal
    later_days: int | None = None
    left_in_all: Decimal | None = None


class LossStop(Record, frozen=True, kw_only=True):
    """A loss of the day after which the key is stopped in the account; lost_today is None while it is not measured."""

    value: Decimal
    currency: str
    scope: str
    timezone: str
    measured_from: str
    on_breach: str
    is_reached: bool
    lost_today: Decimal | None = None


class WorstAccounts(Record, frozen=True, kw_only=True):
    """What a key can do in each of these accounts; None and an empty tuple are unlimited."""

    account_ids: tuple[str, ...]
    sides: tuple[str, ...]
    sells_only_what_is_held: bool
    order_values: tuple[ValueLimit, ...]
    # Without a price, rate or instrument these do not apply.
    order_values_with_price: tuple[ValueLimit, ...]
    day_values: tuple[DayLimit, ...]
    losses: tuple[LossStop, ...]
    stopped_by: str | None = None
    symbols: tuple[str, ...] | None = None
    denied_symbols: tuple[str, ...] = ()
    quantity: Decimal | None = None
    position: Decimal | None = None
    orders_per_minute: int | None = None
    open_orders: int | None = None


class WorstCase(Record, frozen=True, kw_only=True):
    """What a key can still do at worst until it expires, in plain sentences and as fields."""

    api_key_id: str
    as_of: datetime
    environment: str
    sentences: tuple[str, ...]
    can_trade: bool
    can_change_orders_of_others: bool
    can_loosen: bool
    accounts: tuple[WorstAccounts, ...]
    has_more_accounts: bool
    # Of all accounts together; empty: unlimited.
    days: tuple[DayLimit, ...]
    ended_by: str | None = None
    expires_at: datetime | None = None
