"""What the event stream tells: events of an account, and what stands when a subscription is primed."""

from datetime import datetime
from decimal import Decimal

from openbell.models import FINAL_STATES, Reason, Record, Unknown


class BrokerOrder(Record, frozen=True, kw_only=True):
    """The order of an intent after a change."""

    intent_id: str
    symbol: str
    order_side: str
    order_type: str
    quantity: Decimal
    time_in_force: str
    status: str
    pending: str | None = None
    certainty: str
    filled_quantity: Decimal
    leaves_quantity: Decimal
    broker_order_ids: tuple[str, ...] = ()
    client_order_id: str | None = None
    client_reference_id: str | None = None
    limit_price: Decimal | None = None
    stop_price: Decimal | None = None
    average_price: Decimal | None = None
    reason: Reason | None = None
    notices: tuple[str, ...] = ()

    @property
    def is_final(self) -> bool:
        """Whether nothing more is to come of it, but what a broker takes back."""
        return self.status in FINAL_STATES


class IntentAction(Record, frozen=True, kw_only=True):
    """An action when it is recorded, and at every change of its state."""

    action_id: str
    intent_id: str
    seq: int
    action_type: str
    state: str
    client_reference_id: str | None = None
    reason: Reason | None = None
    # Where something was done about an action that stays UNKNOWN.
    unknown: Unknown | None = None


class AccountChanged(Record, frozen=True, kw_only=True):
    """The account or its credential after a change; without any, a warning that the reason tells."""

    changed: tuple[str, ...] = ()
    version: int
    credential_status: str
    expires_at: datetime | None = None
    reason: Reason | None = None


class ExternalOrder(Record, frozen=True, kw_only=True):
    """An order at the broker that nobody asked for here, as the broker tells it."""

    broker_order_id: str
    client_order_id: str | None = None
    symbol: str
    order_side: str
    order_type: str
    quantity: Decimal | None = None
    limit_price: Decimal | None = None
    stop_price: Decimal | None = None
    time_in_force: str | None = None
    status: str
    filled_quantity: Decimal
    accepted_at: datetime

    @property
    def is_final(self) -> bool:
        """Whether nothing more is to come of it."""
        return self.status in FINAL_STATES


class PositionAdjusted(Record, frozen=True, kw_only=True):
    """What an account holds was set to what its broker says, which no execution explains."""

    symbol: str
    before: Decimal
    after: Decimal
    # OPENING: it was there before the account was first compared with its broker; UNEXPLAINED: nobody says why.
    cause: str


class BrokerTrade(Record, frozen=True, kw_only=True):
    """An execution that the broker told of, took back or corrected."""

    intent_id: str
    execution_id: str
    broker_order_ids: tuple[str, ...] = ()
    client_order_id: str | None = None
    client_reference_id: str | None = None
    symbol: str
    order_side: str
    # NORMAL; BUST: it was taken back, with the quantity and price it had; CORRECTION: it has these from now on.
    kind: str
    quantity: Decimal
    price: Decimal
    executed_at: datetime
    # Of the order, after it.
    cumulative_quantity: Decimal
    leaves_quantity: Decimal
    # What the account holds of the symbol after it.
    position: Decimal
    fee: Decimal | None = None


class ControlChanged(Record, frozen=True, kw_only=True):
    """A rule, a switch or a control of a symbol was changed for the account."""

    scope: str
    # The symbol or the key, where the scope is one.
    subject: str | None = None
    code: str
    # CREATED, CHANGED, REMOVED or EXPIRED.
    change: str
    version: int = 0
    # Of a switch: ACTIVE, REDUCE_ONLY or HALTED.
    state: str | None = None
    reason: str | None = None
    changed_by: str | None = None


class BrokerPosition(Record, frozen=True, kw_only=True):
    """What an account held of a symbol when a subscription was primed."""

    symbol: str
    quantity: Decimal
    updated_at: datetime | None = None


class Primed(Record, frozen=True, kw_only=True):
    """All that stands was told; what follows happened after it."""

    orders: int = 0
    positions: int = 0


class Event(Record, frozen=True, kw_only=True):
    """One event of an account; exactly one of what it may be about is there."""

    trading_account_id: str
    account_seq: int
    prev_seq: int
    resume_token: str
    # The same on every transport; empty for what is no event of the log.
    event_id: str = ""
    # When it was recorded, or when what stands was read.
    occurred_at: datetime
    # Whether it tells what stood at account_seq, and not what happened.
    is_snapshot: bool = False
    broker_order: BrokerOrder | None = None
    intent_action: IntentAction | None = None
    account_changed: AccountChanged | None = None
    external_order: ExternalOrder | None = None
    position_adjusted: PositionAdjusted | None = None
    broker_trade: BrokerTrade | None = None
    control_changed: ControlChanged | None = None
    # Only what a subscription begins with that was primed.
    broker_position: BrokerPosition | None = None
    primed: Primed | None = None
