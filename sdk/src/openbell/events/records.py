"""The events of an account, and the state with which a primed subscription starts."""

from datetime import datetime
from decimal import Decimal

from openbell.models import FINAL_STATES, Reason, Record, Unknown


class BrokerOrder(Record, frozen=True, kw_only=True):
    """The state of an intent's order after a change."""

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
        """The order has ended; only a bust or a correction by the broker can still change it."""
        return self.status in FINAL_STATES


class IntentAction(Record, frozen=True, kw_only=True):
    """An action when it is recorded and after each change of its state."""

    action_id: str
    intent_id: str
    seq: int
    action_type: str
    status: str
    client_reference_id: str | None = None
    reason: Reason | None = None
    # Present if the evidence of an action that stays UNKNOWN changed.
    unknown: Unknown | None = None
    # The requested terms of a CREATE or REPLACE, in the event that reports its recording.
    symbol: str | None = None
    order_side: str | None = None
    order_type: str | None = None
    quantity: Decimal | None = None
    limit_price: Decimal | None = None
    stop_price: Decimal | None = None
    time_in_force: str | None = None


class IntentRefused(Record, frozen=True, kw_only=True):
    """A command that a control refused, with the requested terms. It was not recorded."""

    receipt_id: str
    codes: tuple[str, ...] = ()
    action_type: str
    symbol: str
    order_side: str
    order_type: str
    quantity: Decimal
    limit_price: Decimal | None = None
    stop_price: Decimal | None = None
    time_in_force: str


class AccountChanged(Record, frozen=True, kw_only=True):
    """The account or its credential after a change; without `changed`, a warning with its reason."""

    changed: tuple[str, ...] = ()
    version: int
    credential_status: str
    expires_at: datetime | None = None
    reason: Reason | None = None


class ExternalOrder(Record, frozen=True, kw_only=True):
    """An order at the broker that was not submitted through Openbell, as the broker reports it."""

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
    # Of its fills; rounded to 10 decimals if 18 are not enough; None if it is not known.
    average_price: Decimal | None = None
    accepted_at: datetime

    @property
    def is_final(self) -> bool:
        """The order has ended."""
        return self.status in FINAL_STATES


class PositionAdjusted(Record, frozen=True, kw_only=True):
    """A position was set to the broker's value, because no execution explains the difference."""

    symbol: str
    before: Decimal
    after: Decimal
    # OPENING: it existed before the account was first compared with its broker. UNEXPLAINED: the cause is not known.
    cause: str
    # The broker's, of the whole position; None if the broker does not report it.
    average_price: Decimal | None = None


class BalancesChanged(Record, frozen=True, kw_only=True):
    """The account's balances when its cash changed, and the first ones; None where the broker does not report one."""

    currency: str
    cash: Decimal | None = None
    equity: Decimal | None = None
    buying_power: Decimal | None = None
    initial_margin: Decimal | None = None
    maintenance_margin: Decimal | None = None
    # The balances are not older than this.
    as_of: datetime


class LossLimitExceeded(Record, frozen=True, kw_only=True):
    """The account lost more than a rule LOSS_MAX allows; once for each day and version of the rule."""

    code: str
    # PLATFORM, ORGANIZATION or ACCOUNT.
    scope: str
    # HARD or SHADOW: a rule in shadow mode stops nothing.
    mode: str
    control_version: int
    currency: str
    limit: Decimal
    loss: Decimal
    # OPENING or HIGHEST.
    measured_from: str
    # REDUCE_ONLY or HALTED.
    on_breach: str
    # A date in the time zone of the rule.
    day: str
    as_of: datetime


class BrokerTrade(Record, frozen=True, kw_only=True):
    """An execution that the broker reported, busted or corrected."""

    intent_id: str
    execution_id: str
    broker_order_ids: tuple[str, ...] = ()
    client_order_id: str | None = None
    client_reference_id: str | None = None
    symbol: str
    order_side: str
    # NORMAL; BUST: it was cancelled, with the quantity and price that it had; CORRECTION: with its new values.
    kind: str
    quantity: Decimal
    price: Decimal
    executed_at: datetime
    # Of the order, after this execution.
    cumulative_quantity: Decimal
    leaves_quantity: Decimal
    # The account's position in the symbol after this execution.
    position: Decimal
    # In the quote currency, negative if it is a rebate; None if the broker does not report it.
    fee: Decimal | None = None


class ControlChanged(Record, frozen=True, kw_only=True):
    """A rule, a switch or a symbol control that applies to the account was changed."""

    scope: str
    # The symbol or the key, if the scope is a symbol or a key.
    subject: str | None = None
    code: str
    # CREATED, CHANGED, REMOVED or EXPIRED.
    change: str
    version: int = 0
    # For a switch: ACTIVE, REDUCE_ONLY or HALTED.
    status: str | None = None
    reason: str | None = None
    principal_type: str | None = None
    principal_id: str | None = None


class BrokerPosition(Record, frozen=True, kw_only=True):
    """A position at the start of a primed subscription."""

    symbol: str
    quantity: Decimal
    updated_at: datetime | None = None


class Primed(Record, frozen=True, kw_only=True):
    """The end of the current state; later events follow."""

    orders: int = 0
    positions: int = 0


class Event(Record, frozen=True, kw_only=True):
    """One event of an account; exactly one of the fields from broker_order on is set."""

    account_id: str
    account_seq: int
    prev_seq: int
    resume_token: str
    # The same on every transport; empty if it is not an event of the log.
    event_id: str = ""
    # When it was recorded; for a snapshot, when the state was read.
    occurred_at: datetime
    # True for the state at account_seq at the start of a primed subscription.
    is_snapshot: bool = False
    broker_order: BrokerOrder | None = None
    intent_action: IntentAction | None = None
    account_changed: AccountChanged | None = None
    external_order: ExternalOrder | None = None
    position_adjusted: PositionAdjusted | None = None
    broker_trade: BrokerTrade | None = None
    control_changed: ControlChanged | None = None
    intent_refused: IntentRefused | None = None
    balances_changed: BalancesChanged | None = None
    loss_limit_exceeded: LossLimitExceeded | None = None
    # Only at the start of a primed subscription.
    broker_position: BrokerPosition | None = None
    primed: Primed | None = None
