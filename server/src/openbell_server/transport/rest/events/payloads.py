"""What events of each type contain, as the OpenAPI document describes it; fields that are unknown or empty are absent.

The names are those of proto/trading.proto. The payloads are stored as JSON and sent as they are stored.
"""

from datetime import date
from uuid import UUID

from msgspec import UNSET, Struct, UnsetType

from openbell_server.domain.access.credentials import CredentialStatus
from openbell_server.domain.controls.findings import Mode, Scope
from openbell_server.domain.controls.kinds.losses import MeasuredFrom, OnBreach
from openbell_server.domain.controls.rules import ControlChange, SwitchState
from openbell_server.domain.orders.action_lifecycle import ActionState
from openbell_server.domain.orders.broker_trades import TradeKind
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_terms import OrderSide, OrderType, TimeInForce
from openbell_server.domain.orders.positions import PositionCause
from openbell_server.transport.rest.intents.orders import OrderStateBody
from openbell_server.transport.rest.wire_types import Moment, OrderTermsBody, ReasonBody


class EventUnknownBody(Struct, frozen=True):
    """What is known of an unknown outcome."""

    since: Moment
    writes: int
    settles_by: str
    flagged_at: Moment | UnsetType = UNSET


class BrokerOrderBody(OrderStateBody, frozen=True, kw_only=True):
    """The order of an intent after a change."""

    broker_order_ids: list[str] | UnsetType = UNSET
    notices: list[str] | UnsetType = UNSET


class IntentActionBody(Struct, frozen=True):
    """An action when it was recorded (QUEUED), when its outcome is known, and when it is unknown.

    When a CREATE or REPLACE is recorded, with the requested terms.
    """

    action_id: UUID
    intent_id: UUID
    seq: int
    action_type: ActionType
    status: ActionState
    reason: ReasonBody | UnsetType = UNSET
    client_reference_id: str | UnsetType = UNSET
    unknown: EventUnknownBody | UnsetType = UNSET
    symbol: str | UnsetType = UNSET
    order_side: OrderSide | UnsetType = UNSET
    order_type: OrderType | UnsetType = UNSET
    quantity: str | UnsetType = UNSET
    limit_price: str | UnsetType = UNSET
    stop_price: str | UnsetType = UNSET
    time_in_force: TimeInForce | UnsetType = UNSET


class IntentRefusedBody(OrderTermsBody, frozen=True, kw_only=True):
    """A command that a control refused, with the requested terms. It was not recorded."""

    receipt_id: UUID
    codes: list[str]
    action_type: ActionType


class AccountChangedBody(Struct, frozen=True):
    """The account or its credential after a change, or a warning of one to come, with the reason."""

    version: int
    credential_status: CredentialStatus | UnsetType = UNSET
    changed: list[str] | UnsetType = UNSET
    expires_at: Moment | UnsetType = UNSET
    reason: ReasonBody | UnsetType = UNSET


class PositionAdjustedBody(Struct, frozen=True):
    """A position was set to the broker's; negative if it is short."""

    symbol: str
    before: str
    after: str
    cause: PositionCause
    # The broker's, of the whole position; absent if unknown.
    average_price: str | UnsetType = UNSET


class BalancesChangedBody(Struct, frozen=True):
    """The account's balances when its cash changed, and the first ones; without the amounts that are unknown."""

    currency: str
    as_of: Moment
    cash: str | UnsetType = UNSET
    equity: str | UnsetType = UNSET
    buying_power: str | UnsetType = UNSET
    initial_margin: str | UnsetType = UNSET
    maintenance_margin: str | UnsetType = UNSET


class LossLimitExceededBody(Struct, frozen=True):
    """The account lost more than a rule LOSS_MAX allows; once for each day and version of the rule."""

    code: str
    scope: Scope
    # A rule in shadow mode stops nothing.
    mode: Mode
    control_version: int
    currency: str
    limit: str
    loss: str
    measured_from: MeasuredFrom
    on_breach: OnBreach
    # A date in the time zone of the rule.
    day: date
    as_of: Moment


class BrokerTradeBody(Struct, frozen=True):
    """An execution, its bust or its correction, with the totals after it."""

    intent_id: UUID
    execution_id: str
    client_order_id: str
    symbol: str
    order_side: OrderSide
    kind: TradeKind
    quantity: str
    price: str
    executed_at: Moment
    cumulative_quantity: str
    leaves_quantity: str
    position: str
    broker_order_ids: list[str] | UnsetType = UNSET
    client_reference_id: str | UnsetType = UNSET
    # In the quote currency, negative if it is a rebate.
    fee: str | UnsetType = UNSET


class ControlChangedBody(Struct, frozen=True):
    """A rule, a switch or a symbol control was changed for the account."""

    scope: Scope
    code: str
    change: ControlChange
    version: int
    principal_type: str
    # The symbol or the key, if the scope is one.
    subject: str | UnsetType = UNSET
    # Of a switch.
    status: SwitchState | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    # Absent for an operator of the platform.
    principal_id: str | UnsetType = UNSET
