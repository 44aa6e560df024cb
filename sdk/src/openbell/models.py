"""Records of the API, with exact decimals."""

from datetime import datetime
from decimal import Decimal
from typing import Final, Generic, TypeVar

import msgspec

from openbell.json_lines import json_line

# An execution in one of these states does not change any more.
FINAL_STATES: Final = frozenset({"FILLED", "CANCELED", "EXPIRED", "REJECTED", "SKIPPED", "FAILED", "RECONCILED_OUT"})


Item = TypeVar("Item")


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A record of the API; enumerations are plain strings, because the API may add values."""

    def to_json(self) -> str:
        """One line of JSON; decimals are strings."""
        return json_line(msgspec.to_builtins(self, builtin_types=(Decimal,)))


class PageOf(Record, Generic[Item], frozen=True, kw_only=True):
    """One page of a list; next_cursor is None on the last page."""

    data: tuple[Item, ...]
    next_cursor: str | None = None
    last_cursor: str | None = None


class Reason(Record, frozen=True, kw_only=True):
    """Why something ended: our code, and the broker's own code and text."""

    code: str
    broker_code: str | None = None
    broker_text: str | None = None


class Probe(Record, frozen=True, kw_only=True):
    """One query to the broker for an order whose outcome is unknown."""

    at: datetime
    found: bool | str | None = None


class Unknown(Record, frozen=True, kw_only=True):
    """The evidence of an unknown outcome; settles_by is what will decide it."""

    since: datetime
    probes: tuple[Probe, ...] = ()
    # How often the command may have been sent to the broker, and when operators were notified.
    writes: int = 1
    flagged_at: datetime | None = None
    settles_by: str | None = None


class Execution(Record, frozen=True, kw_only=True):
    """The state of an intent's order."""

    status: str
    filled_quantity: Decimal
    leaves_quantity: Decimal
    certainty: str
    updated_at: datetime
    average_price: Decimal | None = None
    broker_order_ids: tuple[str, ...] = ()
    unknown: Unknown | None = None

    @property
    def is_final(self) -> bool:
        """The order has ended and its outcome is known."""
        return self.status in FINAL_STATES


class Action(Record, frozen=True, kw_only=True):
    """One recorded command of an intent and its state; the execution only in calls about one intent."""

    id: str
    intent_id: str
    account_id: str
    organization_id: str
    seq: int
    action_type: str
    symbol: str
    order_side: str
    order_type: str
    route_strategy: str
    quantity: Decimal
    time_in_force: str
    principal_type: str
    principal_id: str
    receipt_id: str
    created_at: datetime
    status: str
    limit_price: Decimal | None = None
    stop_price: Decimal | None = None
    client_reference_id: str | None = None
    reason: Reason | None = None
    # When it was about to be sent to the broker.
    dispatched_at: datetime | None = None
    settled_at: datetime | None = None
    execution: Execution | None = None
    # From the reply's header: an earlier request with the same idempotency key had recorded the command.
    replayed: bool = False


class Page(PageOf[Action], frozen=True, kw_only=True):
    """One page of action records, in the order they were recorded."""


class FaultPlan(Record, frozen=True, kw_only=True):
    """The faults of an account's paper broker; empty without a plan."""

    seed: int
    faults: dict[str, float]
    set_at: datetime | None = None


class SymbolControl(Record, frozen=True, kw_only=True):
    """Whether a symbol is manually disabled on an account."""

    account_id: str
    organization_id: str
    symbol: str
    manually_disabled: bool
    created_at: datetime
    updated_at: datetime
    version: int
    manual_reason: str | None = None


class SymbolTime(Record, frozen=True, kw_only=True):
    """When a symbol may be traded, how old a command may be when it is sent, and how long an order may work."""

    account_id: str
    organization_id: str
    symbol: str
    created_at: datetime
    updated_at: datetime
    version: int
    trading_start: str | None = None
    trading_end: str | None = None
    timezone: str | None = None
    days: tuple[str, ...] | None = None
    stale_order_millis: int | None = None
    max_resting_millis: int | None = None
    # The market whose sessions apply, and what happens to working orders at their end: leave or cancel.
    calendar: str | None = None
    session: str | None = None
    on_close: str | None = None
    # For the time that is both in the window and in a session.
    window_open_now: bool | None = None
    next_open_at: datetime | None = None
    next_close_at: datetime | None = None


class BrokerCommand(Record, frozen=True, kw_only=True):
    """How a broker treats the client id of a command, and what settles an unknown outcome."""

    # A second command with the same id is refused permanently (A) or for a while (W); the broker only reports the id
    # back (B), or takes none (C).
    id_class: str
    settles_by: str


class BrokerFeed(Record, frozen=True, kw_only=True):
    """What a broker's feed reports without a query."""

    by_account: bool
    echo_seconds: float
    names_executions: bool
    tells_corrections: bool


class CredentialField(Record, frozen=True, kw_only=True):
    """One field of a broker credential."""

    name: str
    title: str
    secret: bool
    length_max: int


class CredentialForm(Record, frozen=True, kw_only=True):
    """The fields of a broker's credential."""

    kind: str
    required: bool
    fields: tuple[CredentialField, ...]


class Broker(Record, frozen=True, kw_only=True):
    """A broker: what it supports, and what it guarantees."""

    name: str
    # Of the paper broker, which has one entry for each.
    profile: str | None = None
    environments: tuple[str, ...]
    order_types: tuple[str, ...]
    times_in_force: tuple[str, ...]
    default_time_in_force: str
    route_strategies: tuple[str, ...]
    quantity_decimals: int
    replace: str
    in_flight_max: int
    calls_at_once_max: int
    calls_per_second_max: float | None = None
    look_up: str
    cancels_by_client_id: bool
    repeats_cancels: bool
    enforces_valid_until: bool
    settle_seconds: float
    feed: BrokerFeed
    # By type; only those that it supports.
    commands: dict[str, BrokerCommand]
    credentials: CredentialForm | None = None


class Window(Record, frozen=True, kw_only=True):
    """A window of recording times."""

    since: datetime
    until: datetime


class SymbolCount(Record, frozen=True, kw_only=True):
    """The number of actions of a symbol."""

    symbol: str
    actions: int


class Latency(Record, frozen=True, kw_only=True):
    """Milliseconds until actions were sent; None if none was sent."""

    p50: float | None
    p95: float | None
    p99: float | None


class Statistics(Record, frozen=True, kw_only=True):
    """Counts of the account's intents in a window, and of their outcomes."""

    window: Window
    intents: int
    actions: dict[str, int]
    symbols: tuple[SymbolCount, ...]
    sides: dict[str, int]
    control_refusals: int
    outcomes: dict[str, int]
    dispatch_latency_millis: Latency
