"""The route of brokers: the capabilities of each, and the guarantees that its API has."""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from litestar import get
from litestar.handlers import HTTPRouteHandler
from msgspec import Struct

from openbell_server.application.ports.broker import BrokerDefinition, CredentialForm, ReplaceSupport
from openbell_server.domain.access.accounts import Environment, PaperProfile, broker_and_profile
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.orders.broker_guarantees import IdClass, LookUp
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_terms import OrderType, RouteStrategy, TimeInForce
from openbell_server.transport.rest.entry import AnyRequest, Enter
from openbell_server.transport.rest.wire_types import PageOf, body_from

Choice = TypeVar("Choice", bound=StrEnum)


class BrokerCommandBody(Struct, frozen=True):
    """One command at a broker: how the broker treats our order id, and what settles an unknown outcome."""

    # A: always refuses a second command with the same id; W: for a limited time; B: only returns the id; C: has no id.
    id_class: IdClass
    settles_by: str


class BrokerFeedBody(Struct, frozen=True):
    """The broker's feed of order updates."""

    # True: one feed per account; false: one feed for all accounts.
    by_account: bool
    # If the feed does not report a command within this time after its response, it is treated as disconnected.
    echo_seconds: float
    # True: the feed reports each execution; false: it reports totals, from which executions are derived.
    names_executions: bool
    tells_corrections: bool


class BrokerCredentialFieldBody(Struct, frozen=True):
    """One field of the broker's credential; all are required."""

    name: str
    title: str
    secret: bool
    length_max: int


class BrokerCredentialsBody(Struct, frozen=True):
    """The credential that accounts sign in with."""

    kind: str
    # False: an account can trade without it.
    required: bool
    fields: list[BrokerCredentialFieldBody]


class BrokerBody(Struct, frozen=True):
    """A broker and its capabilities."""

    name: str
    # Of the paper broker, which has one entry for each.
    profile: PaperProfile | None
    environments: list[Environment]
    order_types: list[OrderType]
    times_in_force: list[TimeInForce]
    default_time_in_force: TimeInForce
    route_strategies: list[RouteStrategy]
    quantity_decimals: int
    replace: ReplaceSupport
    in_flight_max: int
    calls_at_once_max: int
    calls_per_second_max: float | None
    look_up: LookUp
    cancels_by_client_id: bool
    repeats_cancels: bool
    enforces_valid_until: bool
    settle_seconds: float
    feed: BrokerFeedBody
    # By type; only the types that the broker supports.
    commands: dict[ActionType, BrokerCommandBody]
    credentials: BrokerCredentialsBody | None


class BrokersBody(PageOf[BrokerBody], frozen=True):
    """All brokers, by name."""


def broker_route(enter: Enter, brokers: Mapping[str, BrokerDefinition]) -> HTTPRouteHandler:
    @get("/v1/brokers")
    async def list_brokers(request: AnyRequest) -> BrokersBody:
        await enter.anywhere(request, Operation.READ_BROKERS)
        return BrokersBody([broker_body(brokers[name]) for name in sorted(brokers)])

    return list_brokers


def broker_body(broker: BrokerDefinition) -> BrokerBody:
    can = broker.capabilities
    name, profile = broker_and_profile(broker.name)
    return body_from(
        BrokerBody,
        can,
        name=name,
        profile=profile,
        environments=_in_order(Environment, can.environments),
        order_types=_in_order(OrderType, can.order_types),
        times_in_force=_in_order(TimeInForce, can.times_in_force),
        route_strategies=_in_order(RouteStrategy, can.route_strategies),
        feed=BrokerFeedBody(can.feeds_by_account, can.echo_seconds, can.names_executions, can.tells_corrections),
        commands={
            command: BrokerCommandBody(can.id_classes.get(command, IdClass.NONE), can.settles_by(command))
            for command in ActionType
            if command is not ActionType.REPLACE or can.replace is not ReplaceSupport.NONE
        },
        credentials=None if broker.credentials is None else _credentials_body(broker.credentials),
    )


def _in_order(choices: type[Choice], supported: frozenset[Choice]) -> list[Choice]:
    return [choice for choice in choices if choice in supported]


def _credentials_body(form: CredentialForm) -> BrokerCredentialsBody:
    fields = [body_from(BrokerCredentialFieldBody, each) for each in form.fields]
    return BrokerCredentialsBody(form.kind, form.required, fields)
