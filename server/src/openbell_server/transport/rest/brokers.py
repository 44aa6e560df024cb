"""The route of the brokers: what each can do, and how far its word can be relied on."""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from litestar import get
from litestar.handlers import HTTPRouteHandler
from msgspec import Struct

from openbell_server.application.ports.broker import BrokerDefinition, CredentialForm, ReplaceSupport
from openbell_server.domain.accounts import Environment
from openbell_server.domain.authorization import Operation
from openbell_server.domain.broker_honesty import IdClass, LookUp
from openbell_server.domain.intents import ActionType
from openbell_server.domain.orders import OrderType, RouteStrategy, TimeInForce
from openbell_server.transport.rest.entry import AnyRequest, Enter

Word = TypeVar("Word", bound=StrEnum)


class BrokerCommandBody(Struct, frozen=True):
    """One command at a broker: what it does with the id that we give it, and what would end a doubt about it."""

    # A: refuses a second command with the same id for good; W: for a while; B: only tells the id back; C: has none.
    id_class: IdClass
    settles_by: str


class BrokerFeedBody(Struct, frozen=True):
    """How a broker tells of orders by itself."""

    # Whether each account has its own, or one tells of all.
    by_account: bool
    # A feed that has not told of a command this long after its answer is mute.
    echo_seconds: float
    # Whether it names each execution; where it tells totals, executions are derived from them.
    names_executions: bool


class BrokerCredentialFieldBody(Struct, frozen=True):
    """One thing that a broker asks for; each must be there."""

    name: str
    title: str
    secret: bool
    length_max: int


class BrokerCredentialsBody(Struct, frozen=True):
    """What accounts sign in with."""

    kind: str
    # Whether an account can trade without.
    required: bool
    fields: list[BrokerCredentialFieldBody]


class BrokerBody(Struct, frozen=True):
    """A broker."""

    name: str
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
    # By type, those that it takes.
    commands: dict[ActionType, BrokerCommandBody]
    credentials: BrokerCredentialsBody | None


class BrokersBody(Struct, frozen=True):
    """Every broker, by name."""

    data: list[BrokerBody]


def broker_route(enter: Enter, brokers: Mapping[str, BrokerDefinition]) -> HTTPRouteHandler:
    """The route."""

    @get("/v1/brokers")
    async def list_brokers(request: AnyRequest) -> BrokersBody:
        """Every broker that accounts can be at."""
        await enter.anywhere(request, Operation.READ_BROKERS)
        return BrokersBody([broker_body(brokers[name]) for name in sorted(brokers)])

    return list_brokers


def broker_body(broker: BrokerDefinition) -> BrokerBody:
    """A broker as callers are told of it."""
    can = broker.capabilities
    return BrokerBody(
        name=broker.name,
        environments=_in_order(Environment, can.environments),
        order_types=_in_order(OrderType, can.order_types),
        times_in_force=_in_order(TimeInForce, can.times_in_force),
        default_time_in_force=can.default_time_in_force,
        route_strategies=_in_order(RouteStrategy, can.route_strategies),
        quantity_decimals=can.quantity_decimals,
        replace=can.replace,
        in_flight_max=can.in_flight_max,
        calls_at_once_max=can.calls_at_once_max,
        calls_per_second_max=can.calls_per_second_max,
        look_up=can.look_up,
        cancels_by_client_id=can.cancels_by_client_id,
        repeats_cancels=can.repeats_cancels,
        enforces_valid_until=can.enforces_valid_until,
        settle_seconds=can.settle_seconds,
        feed=BrokerFeedBody(can.feeds_by_account, can.echo_seconds, can.names_executions),
        commands={
            command: BrokerCommandBody(can.id_classes.get(command, IdClass.NONE), can.settles_by(command))
            for command in ActionType
            if command is not ActionType.REPLACE or can.replace is not ReplaceSupport.NONE
        },
        credentials=None if broker.credentials is None else _credentials_body(broker.credentials),
    )


def _in_order(words: type[Word], able: frozenset[Word]) -> list[Word]:
    return [word for word in words if word in able]


def _credentials_body(form: CredentialForm) -> BrokerCredentialsBody:
    fields = [BrokerCredentialFieldBody(each.name, each.title, each.secret, each.length_max) for each in form.fields]
    return BrokerCredentialsBody(form.kind, form.required, fields)
