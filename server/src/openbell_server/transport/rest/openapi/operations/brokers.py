"""OpenAPI row of the brokers route."""

from typing import Final

from openbell_server.application.ports.broker import ReplaceSupport
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.orders.broker_guarantees import SETTLES_BY, IdClass, LookUp
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_terms import OrderType, RouteStrategy, TimeInForce
from openbell_server.transport.rest.access.brokers import (
    BrokerBody,
    BrokerCommandBody,
    BrokerCredentialFieldBody,
    BrokerCredentialsBody,
    BrokerFeedBody,
    BrokersBody,
)
from openbell_server.transport.rest.openapi.operation import Described

# Not a real broker.
_EXAMPLE: Final = BrokerBody(
    name="example",
    profile=None,
    environments=[Environment.PAPER, Environment.LIVE],
    order_types=[OrderType.MARKET, OrderType.LIMIT],
    times_in_force=[TimeInForce.DAY, TimeInForce.GOOD_TILL_CANCEL],
    default_time_in_force=TimeInForce.DAY,
    route_strategies=[RouteStrategy.SMART],
    quantity_decimals=0,
    replace=ReplaceSupport.NONE,
    in_flight_max=4,
    calls_at_once_max=16,
    calls_per_second_max=3.0,
    look_up=LookUp.EVERY_ORDER,
    cancels_by_client_id=False,
    repeats_cancels=True,
    enforces_valid_until=False,
    settle_seconds=10.0,
    feed=BrokerFeedBody(by_account=True, echo_seconds=10.0, names_executions=True, tells_corrections=False),
    commands={
        command: BrokerCommandBody(id_class, SETTLES_BY[command, LookUp.EVERY_ORDER, id_class])
        for command, id_class in ((ActionType.CREATE, IdClass.ENFORCED), (ActionType.CANCEL, IdClass.NONE))
    },
    credentials=BrokerCredentialsBody(
        kind="key_pair",
        required=True,
        fields=[
            BrokerCredentialFieldBody(name="key_id", title="Key id", secret=False, length_max=256),
            BrokerCredentialFieldBody(name="secret", title="Secret", secret=True, length_max=256),
        ],
    ),
)

BROKER_OPERATIONS: Final = (
    Described(
        path="/v1/brokers",
        operation_id="listBrokers",
        summary="List the brokers and their capabilities",
        description="All brokers that accounts can use, by name and on one page: supported orders, the guarantees of "
        "its ids, look-ups and feed, what settles an unknown outcome of each command, and the credential fields. The "
        "list changes only with the platform's version.",
        operation=Operation.READ_BROKERS,
        answer_example=BrokersBody([_EXAMPLE]),
    ),
)
