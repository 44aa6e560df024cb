"""What the platform answers: records of actions, executions and events, with exact decimals."""

import json
from datetime import datetime
from decimal import Decimal
from typing import Final

import msgspec

# An execution in one of these states changes no more.
FINAL_STATES: Final = frozenset({"FILLED", "CANCELED", "EXPIRED", "REJECTED", "SKIPPED", "FAILED", "RECONCILED_OUT"})


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A record of the platform; words are plain strings because the API may add new ones."""

    def to_json(self) -> str:
        """The record as one line of JSON, decimals as strings."""
        plain = msgspec.to_builtins(self, builtin_types=(Decimal,))
        return json.dumps(plain, default=lambda number: format(number, "f"), ensure_ascii=False, separators=(",", ":"))


class Reason(Record, frozen=True, kw_only=True):
    """Why something ended as it did, in our code and in the broker's own words."""

    code: str
    broker_code: str | None = None
    broker_text: str | None = None


class Probe(Record, frozen=True, kw_only=True):
    """One look at the broker's books for an order in doubt."""

    at: datetime
    found: bool | str | None = None


class Unknown(Record, frozen=True, kw_only=True):
    """The evidence of an unknown outcome: since when, what was looked for, what would settle it."""

    since: datetime
    probes: tuple[Probe, ...] = ()
    # How often the command may have been written to the broker, and since when somebody was asked to look at it.
    writes: int = 1
    flagged_at: datetime | None = None
    settles_by: str | None = None


class Execution(Record, frozen=True, kw_only=True):
    """How far the order of an intent is."""

    state: str
    filled_quantity: Decimal
    leaves_quantity: Decimal
    certainty: str
    updated_at: datetime
    average_price: Decimal | None = None
    broker_order_ids: tuple[str, ...] = ()
    unknown: Unknown | None = None

    @property
    def is_final(self) -> bool:
        """Whether the order is over and its outcome known."""
        return self.state in FINAL_STATES


class Action(Record, frozen=True, kw_only=True):
    """One recorded command of an intent, its state, and, where asked for one intent, the execution."""

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
    state: str
    limit_price: Decimal | None = None
    stop_price: Decimal | None = None
    client_reference_id: str | None = None
    reason: Reason | None = None
    settled_at: datetime | None = None
    execution: Execution | None = None
    # Ours, from the reply's header: the command had been recorded by an earlier request with the same key.
    replayed: bool = False


class FaultPlan(Record, frozen=True, kw_only=True):
    """How an account's paper broker misbehaves; without a plan, not at all."""

    seed: int
    faults: dict[str, float]
    set_at: datetime | None = None


class SymbolControl(Record, frozen=True, kw_only=True):
    """Whether people switched a symbol off on an account."""

    account_id: str
    organization_id: str
    symbol: str
    manually_disabled: bool
    created_at: datetime
    updated_at: datetime
    version: int
    manual_reason: str | None = None


class SymbolTime(Record, frozen=True, kw_only=True):
    """When a symbol may be traded on an account, how old a command may be when sent, and how long an order may work."""

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
    # A market whose sessions apply, and what becomes of working orders when they end.
    calendar: str | None = None
    session: str | None = None
    on_close: str | None = None
    # For what is both in the window and in the session.
    window_open_now: bool | None = None
    next_open_at: datetime | None = None
    next_close_at: datetime | None = None


class BrokerCommand(Record, frozen=True, kw_only=True):
    """A command at a broker: what it does with the id that it is given, and what would end a doubt about it."""

    # A refuses a second command with the same id for good, W for a while, B only tells it back, C has no place for one.
    id_class: str
    settles_by: str


class BrokerFeed(Record, frozen=True, kw_only=True):
    """How a broker tells of orders by itself."""

    by_account: bool
    echo_seconds: float
    names_executions: bool
    tells_corrections: bool


class CredentialField(Record, frozen=True, kw_only=True):
    """One thing that a broker asks for to let an account in."""

    name: str
    title: str
    secret: bool
    length_max: int


class CredentialForm(Record, frozen=True, kw_only=True):
    """What accounts sign in with at a broker."""

    kind: str
    required: bool
    fields: tuple[CredentialField, ...]


class Broker(Record, frozen=True, kw_only=True):
    """A broker: what it takes, and how far its word can be relied on."""

    name: str
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
    # By type, those that it takes.
    commands: dict[str, BrokerCommand]
    credentials: CredentialForm | None = None


class BrokerList(Record, frozen=True, kw_only=True):
    """Every broker, by name."""

    data: tuple[Broker, ...]


class Page(Record, frozen=True, kw_only=True):
    """One page of action records, in the order they were recorded."""

    data: tuple[Action, ...]
    next_cursor: str | None = None
    last_cursor: str | None = None


class Window(Record, frozen=True, kw_only=True, rename={"since": "from", "until": "to"}):
    """Which actions are counted: those recorded from one moment to another."""

    since: datetime
    until: datetime


class SymbolCount(Record, frozen=True, kw_only=True):
    """How many actions a symbol had."""

    symbol: str
    actions: int


class Latency(Record, frozen=True, kw_only=True):
    """Milliseconds until actions were sent; None where none was."""

    p50: float | None
    p95: float | None
    p99: float | None


class Statistics(Record, frozen=True, kw_only=True):
    """What was asked of an account in a window, and what came of it."""

    window: Window
    intents: int
    actions: dict[str, int]
    symbols: tuple[SymbolCount, ...]
    sides: dict[str, int]
    control_refusals: int
    outcomes: dict[str, int]
    dispatch_latency_ms: Latency
