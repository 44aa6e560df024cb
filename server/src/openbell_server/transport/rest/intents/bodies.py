"""Request and response bodies of the intent routes."""

from collections.abc import Mapping
from decimal import Decimal
from functools import partial
from typing import Annotated
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType

from openbell_server.application.intents.ports import Execution, RecordedAction, UnknownEvidence
from openbell_server.application.intents.read_intents import WRONG_SYMBOL
from openbell_server.application.paging import Page
from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.domain.errors import InvalidCommand, checked_together
from openbell_server.domain.identifiers import IntentId, Symbol
from openbell_server.domain.orders.action_lifecycle import ActionState, Reason
from openbell_server.domain.orders.intents import (
    ActionType,
    CancelIntent,
    Command,
    CommandRequest,
    CreateIntent,
    ReplaceIntent,
    plain,
)
from openbell_server.domain.orders.order_aggregate import Certainty, status
from openbell_server.domain.orders.order_terms import (
    DECIMAL_PATTERN,
    OrderSide,
    OrderSpec,
    OrderType,
    ReplacementSpec,
    RouteStrategy,
    TimeInForce,
    exact_decimal,
)
from openbell_server.transport.rest.wire_types import Moment, OrderTermsBody, PageOf, ReasonBody, body_from, in_utc

# Zero matches the pattern; the domain refuses it.
DecimalText = Annotated[
    str,
    Meta(
        pattern=DECIMAL_PATTERN,
        max_length=37,
        description="a decimal above zero: no sign, no exponent, at most 18 digits on either side of the point",
        examples=["10.5"],
        extra_json_schema={"not": {"pattern": r"^0(\.0+)?$"}},
    ),
]
SymbolText = Annotated[
    str,
    Meta(
        description="1 to 32 of A-Z, 0-9 and . - / : _, in any case",
        examples=["AAPL"],
        extra_json_schema={"pattern": r"^[A-Za-z0-9.\-/:_]{1,32}$"},
    ),
]
ReferenceText = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=128,
        description="printable text of your own: stored with the action and shown with its events",
        extra_json_schema={"format": "printable"},
    ),
]
_SPEC = "/command/payload/spec"


class _Request(Struct, forbid_unknown_fields=True, frozen=True):
    """Every request body refuses unknown fields."""


class MarketSpec(_Request, frozen=True):
    """Buy or sell immediately at the market price."""

    quantity: DecimalText
    time_in_force: TimeInForce | None = None


class LimitSpec(_Request, frozen=True):
    """Buy or sell at the limit price or better."""

    price: DecimalText
    quantity: DecimalText
    time_in_force: TimeInForce | None = None


class StopSpec(_Request, frozen=True):
    """A market order that is triggered at the stop price."""

    stop_price: DecimalText
    quantity: DecimalText
    time_in_force: TimeInForce | None = None


class StopLimitSpec(_Request, frozen=True):
    """A limit order that is triggered at the stop price."""

    stop_price: DecimalText
    price: DecimalText
    quantity: DecimalText
    time_in_force: TimeInForce | None = None


class SpecBody(_Request, frozen=True, rename="pascal"):
    """The order type as the only key."""

    market: MarketSpec | UnsetType = UNSET
    limit: LimitSpec | UnsetType = UNSET
    stop: StopSpec | UnsetType = UNSET
    stop_limit: StopLimitSpec | UnsetType = UNSET

    def __post_init__(self) -> None:
        if sum(kind is not UNSET for kind in (self.market, self.limit, self.stop, self.stop_limit)) != 1:
            raise ValueError("must have exactly one of Market, Limit, Stop, StopLimit")

    def to_spec(self, default_time_in_force: TimeInForce) -> OrderSpec:
        spec = self.to_replacement()
        return OrderSpec(
            order_type=spec.order_type,
            quantity=spec.quantity,
            limit_price=spec.limit_price,
            stop_price=spec.stop_price,
            time_in_force=spec.time_in_force or default_time_in_force,
        )

    def to_replacement(self) -> ReplacementSpec:
        """The new terms; an omitted time in force stays None."""
        for order_type, name, body in (
            (OrderType.MARKET, "Market", self.market),
            (OrderType.LIMIT, "Limit", self.limit),
            (OrderType.STOP, "Stop", self.stop),
            (OrderType.STOP_LIMIT, "StopLimit", self.stop_limit),
        ):
            if not isinstance(body, UnsetType):
                place = f"{_SPEC}/{name}"
                quantity, price, stop = checked_together(
                    partial(exact_decimal, body.quantity, f"{place}/quantity"),
                    partial(_price, body, "price", place),
                    partial(_price, body, "stop_price", place),
                )
                return ReplacementSpec(
                    order_type=order_type,
                    quantity=quantity,
                    limit_price=price,
                    stop_price=stop,
                    time_in_force=body.time_in_force,
                )
        raise AssertionError("unreachable: exactly one kind is set")


OneSpec = Annotated[SpecBody, Meta(extra_json_schema={"minProperties": 1, "maxProperties": 1})]


class CreatePayload(_Request, frozen=True):
    """What to trade."""

    symbol: SymbolText
    order_side: OrderSide
    spec: OneSpec
    route_strategy: RouteStrategy = RouteStrategy.SMART


class ReplacePayload(_Request, frozen=True):
    """The new terms of an order: the whole spec, with the total quantity."""

    ref_intent_id: UUID
    spec: OneSpec


class CancelPayload(_Request, frozen=True):
    """The intent to cancel."""

    ref_intent_id: UUID


class CreateBody(_Request, frozen=True, tag_field="type", tag="CREATE"):
    """Submit a new order."""

    payload: CreatePayload


class ReplaceBody(_Request, frozen=True, tag_field="type", tag="REPLACE"):
    """Replace the terms of an order."""

    payload: ReplacePayload


class CancelBody(_Request, frozen=True, tag_field="type", tag="CANCEL"):
    """Cancel an order."""

    payload: CancelPayload


class SubmitBody(_Request, frozen=True):
    """The request to submit a command."""

    command: CreateBody | ReplaceBody | CancelBody
    client_reference_id: ReferenceText | None = None
    deadline: Annotated[
        Moment | None,
        Meta(description="the command is not sent to the broker after this time; ignored for a CANCEL"),
    ] = None
    allow_duplicate: Annotated[bool, Meta(description="skip the duplicate-order check")] = False

    def to_request(self, broker: BrokerDefinition) -> CommandRequest:
        command, deadline = checked_together(
            partial(self.to_command, broker), partial(in_utc, self.deadline, "/deadline")
        )
        return CommandRequest(command=command, deadline=deadline, allow_duplicate=self.allow_duplicate)

    def to_command(self, broker: BrokerDefinition) -> Command:
        """The command with the broker's spelling of the symbol and its default time in force."""
        if isinstance(self.command, CancelBody):
            whose = IntentId(self.command.payload.ref_intent_id)
            return CancelIntent(ref_intent_id=whose, client_reference_id=self._reference())
        if isinstance(self.command, ReplaceBody):
            replace = self.command.payload
            reference, replacement = checked_together(self._reference, replace.spec.to_replacement)
            return ReplaceIntent(
                ref_intent_id=IntentId(replace.ref_intent_id), spec=replacement, client_reference_id=reference
            )
        payload = self.command.payload
        reference, symbol, spec = checked_together(
            self._reference,
            partial(_symbol, payload.symbol, broker),
            partial(payload.spec.to_spec, broker.capabilities.default_time_in_force),
        )
        return CreateIntent(
            symbol=symbol,
            order_side=payload.order_side,
            route_strategy=payload.route_strategy,
            spec=spec,
            client_reference_id=reference,
        )

    def _reference(self) -> str | None:
        if self.client_reference_id is not None and not self.client_reference_id.isprintable():
            raise InvalidCommand("/client_reference_id", "must be printable text")
        return self.client_reference_id


def _price(body: object, name: str, place: str) -> Decimal | None:
    text = getattr(body, name, None)
    return None if text is None else exact_decimal(text, f"{place}/{name}")


def _symbol(text: str, broker: BrokerDefinition) -> Symbol:
    symbol = broker.canonical_symbol(text)
    if symbol is None:
        raise InvalidCommand("/command/payload/symbol", WRONG_SYMBOL)
    return symbol


class ProbeBody(Struct, frozen=True):
    """One query at the broker."""

    at: Moment
    found: bool


class UnknownBody(Struct, frozen=True):
    """The evidence for an unknown outcome."""

    since: Moment
    probes: list[ProbeBody]
    candidates: Annotated[list[str], Meta(description="broker ids of the orders that may be this one")]
    writes: Annotated[int, Meta(ge=1, description="how often the command may have been written to the broker")]
    settles_by: Annotated[str, Meta(description="what would settle it at this broker, as a sentence")]
    # Absent until it is flagged for an operator.
    flagged_at: Moment | UnsetType = UNSET


class ExecutionBody(Struct, frozen=True):
    """The state of the order."""

    status: str
    filled_quantity: str
    leaves_quantity: str
    broker_order_ids: list[str]
    certainty: Certainty
    updated_at: Moment
    average_price: str | UnsetType = UNSET
    unknown: UnknownBody | UnsetType = UNSET


class CommandBody(OrderTermsBody, frozen=True, kw_only=True):
    """A command as it was recorded."""

    id: UUID
    intent_id: UUID
    account_id: UUID
    organization_id: UUID
    seq: int
    action_type: ActionType
    route_strategy: RouteStrategy
    principal_type: str
    principal_id: str
    receipt_id: UUID
    created_at: Moment
    client_reference_id: str | UnsetType = UNSET


class ActionBody(CommandBody, frozen=True, kw_only=True):
    """A recorded action with its state."""

    status: ActionState
    reason: ReasonBody | UnsetType = UNSET
    # When it was about to be sent to the broker.
    dispatched_at: Moment | UnsetType = UNSET
    settled_at: Moment | UnsetType = UNSET
    execution: ExecutionBody | UnsetType = UNSET


class PageBody(PageOf[ActionBody], frozen=True):
    """A page of actions."""


def reason_body(reason: Reason | None) -> ReasonBody | UnsetType:
    return UNSET if reason is None else body_from(ReasonBody, reason)


def unknown_body(unknown: UnknownEvidence | None, brokers: Mapping[str, BrokerDefinition]) -> UnknownBody | UnsetType:
    if unknown is None:
        return UNSET
    return UnknownBody(
        since=unknown.since,
        probes=[ProbeBody(at, found) for at, found in unknown.probes],
        candidates=[*unknown.candidates],
        writes=unknown.writes,
        settles_by=brokers[unknown.broker].capabilities.settles_by(unknown.action_type),
        flagged_at=UNSET if unknown.flagged_at is None else unknown.flagged_at,
    )


def execution_body(execution: Execution, brokers: Mapping[str, BrokerDefinition]) -> ExecutionBody:
    order = execution.order
    return ExecutionBody(
        status=status(order),
        filled_quantity=format(order.filled_quantity, "f"),
        leaves_quantity=format(order.leaves_quantity, "f"),
        broker_order_ids=list(order.broker_order_ids),
        certainty=order.certainty,
        updated_at=execution.updated_at,
        average_price=plain(order.average_price) or UNSET,
        unknown=unknown_body(execution.unknown, brokers),
    )


def action_body(recorded: RecordedAction, execution: ExecutionBody | UnsetType = UNSET) -> ActionBody:
    """An action; with the execution only where one intent is shown."""
    action = recorded.action
    return ActionBody(
        id=action.id,
        intent_id=action.intent_id,
        account_id=action.account_id,
        organization_id=action.organization_id,
        seq=action.seq,
        action_type=action.action_type,
        symbol=action.symbol,
        order_side=action.order_side,
        order_type=action.order_type,
        route_strategy=action.route_strategy,
        quantity=format(action.quantity, "f"),
        time_in_force=action.time_in_force,
        principal_type=action.principal_type,
        principal_id=action.principal_id,
        receipt_id=action.receipt_id,
        created_at=action.created_at,
        status=recorded.state,
        limit_price=plain(action.limit_price) or UNSET,
        stop_price=plain(action.stop_price) or UNSET,
        client_reference_id=UNSET if action.client_reference_id is None else action.client_reference_id,
        reason=reason_body(recorded.reason),
        dispatched_at=recorded.dispatched_at or UNSET,
        settled_at=recorded.settled_at or UNSET,
        execution=execution,
    )


def page_body(page: Page[RecordedAction]) -> PageBody:
    return PageBody([action_body(recorded) for recorded in page.rows], page.next_cursor, page.last_cursor)
