"""OpenAPI rows of the intent routes."""

from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.orders.action_lifecycle import ActionState
from openbell_server.domain.orders.external_orders import ExternalStatus
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_aggregate import Certainty
from openbell_server.domain.orders.order_terms import OrderSide, OrderType, RouteStrategy, TimeInForce
from openbell_server.transport.rest.intents.bodies import ActionBody, ExecutionBody, PageBody, SubmitBody
from openbell_server.transport.rest.intents.external_orders import ExternalOrderBody, ExternalOrderPageBody
from openbell_server.transport.rest.intents.statistics_bodies import LatencyBody, StatisticsBody, SymbolBody, WindowBody
from openbell_server.transport.rest.openapi.operation import (
    FILTERS,
    IDEMPOTENCY_KEY,
    LIMIT,
    NEXT_CURSOR,
    TIME_WINDOW,
    Described,
    location,
)

_INTENTS: Final = "/v1/accounts/{account_id}/intents"
_NOON: Final = datetime(2026, 1, 5, 12, tzinfo=UTC)
_INTENT_ID: Final = UUID("01981d3c-7a00-7000-8000-000000000003")
_ACTION: Final = ActionBody(
    id=UUID("01981d3c-7a00-7000-8000-000000000004"),
    intent_id=_INTENT_ID,
    account_id=UUID("01981d3c-7a00-7000-8000-000000000002"),
    organization_id=UUID("01981d3c-7a00-7000-8000-000000000001"),
    seq=1,
    action_type=ActionType.CREATE,
    symbol="AAPL",
    order_side=OrderSide.BUY,
    order_type=OrderType.LIMIT,
    route_strategy=RouteStrategy.SMART,
    quantity="10",
    time_in_force=TimeInForce.DAY,
    principal_type="API_KEY",
    principal_id="01981d3c-7a00-7000-8000-000000000007",
    receipt_id=UUID("01981d3c-7a00-7000-8000-000000000005"),
    created_at=_NOON,
    status=ActionState.QUEUED,
    limit_price="187.50",
    client_reference_id="rebalance-0042",
    execution=ExecutionBody(
        status="PENDING_NEW",
        filled_quantity="0",
        leaves_quantity="10",
        broker_order_ids=[],
        certainty=Certainty.CONFIRMED,
        updated_at=_NOON,
    ),
)
_PAGE: Final = PageBody(data=[_ACTION], next_cursor=None, last_cursor="AAAAAAAAACpTb3B1YmJsaWNfa2V")
_STATISTICS: Final = StatisticsBody(
    window=WindowBody(since=_NOON - timedelta(days=1), until=_NOON),
    intents=2,
    actions={ActionType.CREATE: 2, ActionType.REPLACE: 0, ActionType.CANCEL: 1},
    symbols=[SymbolBody("AAPL", 3)],
    sides={OrderSide.BUY: 3, OrderSide.SELL: 0, OrderSide.SELL_SHORT: 0},
    control_refusals=0,
    outcomes={ActionState.ACKED: 3},
    dispatch_latency_millis=LatencyBody(p50=8.0, p95=13.5, p99=16.0),
)


def _create(**spec: object) -> dict[str, object]:
    return {
        "command": {"type": "CREATE", "payload": {"symbol": "AAPL", "order_side": "BUY", "spec": spec}},
        "client_reference_id": "rebalance-0042",
    }


_EXTERNAL: Final = ExternalOrderPageBody(
    [
        ExternalOrderBody(
            broker_order_id="P-000071",
            symbol="AAPL",
            order_side=OrderSide.SELL,
            order_type=OrderType.LIMIT,
            status=ExternalStatus.FILLED,
            filled_quantity="25",
            accepted_at=datetime(2026, 1, 5, 14, 31, 7, tzinfo=UTC),
            client_order_id="by-phone-17",
            quantity="25",
            limit_price="191.20",
            time_in_force=TimeInForce.DAY,
            average_price="191.24",
        )
    ],
    None,
    "AAAAAAAAACpTb3B1YmJsaWNfa2V",
)

INTENT_OPERATIONS: Final = (
    Described(
        method="POST",
        path=_INTENTS,
        operation_id="submitIntent",
        summary="Submit a command",
        description="Appends CREATE, REPLACE or CANCEL to the account's record. Once you receive 202 the command is "
        "durable, and it is sent to the broker once.",
        operation=Operation.SUBMIT_INTENT,
        status=202,
        body=SubmitBody,
        body_examples={
            "limit": _create(Limit={"price": "187.50", "quantity": "10"}),
            "market": _create(Market={"quantity": "10", "time_in_force": "DAY"}),
            "stop": _create(Stop={"stop_price": "180", "quantity": "10"}),
            "stop_limit": _create(StopLimit={"stop_price": "180", "price": "179.50", "quantity": "10"}),
            "replace": {
                "command": {
                    "type": "REPLACE",
                    "payload": {
                        "ref_intent_id": str(_INTENT_ID),
                        "spec": {"Limit": {"price": "188", "quantity": "12"}},
                    },
                }
            },
            "cancel": {"command": {"type": "CANCEL", "payload": {"ref_intent_id": str(_INTENT_ID)}}},
        },
        answer_example=_ACTION,
        answer_headers={
            "Location": location("The path of the intent."),
            "Idempotency-Replayed": {
                "description": "Present with the value true if an earlier request with this key recorded this command.",
                "schema": {"const": "true"},
            },
        },
        parameters=(IDEMPOTENCY_KEY,),
        codes=(
            "entitlement_required",
            "account_closed",
            "account_disabled",
            "account_not_ready",
            "organization_disabled",
            "order_terminal",
            "order_unknown",
            "concurrent_change",
            "not_supported",
            "controls_refused",
            "replace_not_supported",
            "immutable_field",
            "quantity_not_above_filled",
            "idempotency_key_reused",
            "overloaded",
            "outcome_unknown",
        ),
    ),
    Described(
        path=_INTENTS,
        operation_id="listIntents",
        summary="List the account's actions",
        description="All commands of the account in commit order, oldest first. Pages never skip or repeat an action, "
        "even while new ones are written.",
        operation=Operation.READ_INTENTS,
        answer_example=_PAGE,
        parameters=(NEXT_CURSOR, LIMIT, *FILTERS),
    ),
    Described(
        path=f"{_INTENTS}/stats",
        operation_id="showStatistics",
        summary="Read statistics of commands",
        description="Counts of intents, actions and outcomes of a time window, and how long actions waited until they "
        "were sent. The cost does not depend on the length of the history.",
        operation=Operation.READ_INTENTS,
        answer_example=_STATISTICS,
        parameters=(TIME_WINDOW,),
    ),
    Described(
        path=f"{_INTENTS}/{{intent_id}}",
        operation_id="showIntent",
        summary="Read an intent",
        description="The latest action of the intent, and the current state of its order in execution.",
        operation=Operation.READ_INTENTS,
        answer_example=_ACTION,
    ),
    Described(
        path=f"{_INTENTS}/{{intent_id}}/actions",
        operation_id="listActions",
        summary="List the actions of an intent",
        description="All commands of the intent, oldest first.",
        operation=Operation.READ_INTENTS,
        answer_example=_PAGE,
        parameters=(NEXT_CURSOR, LIMIT),
    ),
    Described(
        path=f"{_INTENTS.removesuffix('/intents')}/external-orders",
        operation_id="listExternalOrders",
        summary="List external orders",
        description="Orders at the broker that no intent of this account created, in the order in which they were "
        "found, as the broker last reported them. Their fills count in the account's positions.",
        operation=Operation.READ_INTENTS,
        answer_example=_EXTERNAL,
        parameters=(NEXT_CURSOR, LIMIT),
    ),
)
