"""OpenAPI rows of orders, executions and positions."""

from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from openbell_server.application.intents.ports import ListedStatus
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.orders.order_aggregate import Certainty, Pending
from openbell_server.domain.orders.order_terms import OrderSide, OrderType, TimeInForce
from openbell_server.transport.rest.intents.orders import (
    ExecutionPageBody,
    ExecutionRowBody,
    OrderBody,
    OrderPageBody,
    PositionBody,
    PositionsBody,
)
from openbell_server.transport.rest.openapi.operation import (
    LIMIT,
    NEXT_CURSOR,
    SYMBOL_PATTERN,
    Described,
    Parameter,
    moment,
)

_ACCOUNT: Final = "/v1/accounts/{account_id}"
_OPEN: Final = datetime(2026, 1, 5, 14, 30, tzinfo=UTC)
_INTENT_ID: Final = UUID("01981d3c-7a00-7000-8000-000000000003")
_ORDER: Final = OrderBody(
    intent_id=_INTENT_ID,
    client_order_id="ob-01981d3c7a0070008000000000000004",
    symbol="AAPL",
    order_side=OrderSide.BUY,
    order_type=OrderType.LIMIT,
    quantity="10",
    time_in_force=TimeInForce.DAY,
    status="PARTIALLY_FILLED",
    pending=Pending.NONE,
    certainty=Certainty.CONFIRMED,
    filled_quantity="4",
    leaves_quantity="6",
    created_at=_OPEN,
    updated_at=_OPEN,
    broker_order_ids=["P-000070"],
    client_reference_id="rebalance-0042",
    limit_price="187.50",
    average_price="187.45",
)
_EXECUTION: Final = ExecutionRowBody(
    execution_id="P-000070-1",
    intent_id=_INTENT_ID,
    symbol="AAPL",
    order_side=OrderSide.BUY,
    kind="CORRECTION",
    quantity="4",
    price="187.45",
    executed_at=_OPEN,
    recorded_at=_OPEN,
    reported_quantity="4",
    reported_price="187.54",
    changed_at=_OPEN,
)
_POSITIONS: Final = PositionsBody(
    data=[PositionBody("AAPL", "4", _OPEN), PositionBody("TSLA", "-20", _OPEN)],
    account_seq=1207,
    source="BROKER",
    complete=True,
    as_of=_OPEN,
)
_SYMBOL: Final = Parameter(
    name="symbol",
    description="Only this symbol, in any spelling that its broker accepts.",
    schema={"type": "string", "pattern": SYMBOL_PATTERN},
    example="AAPL",
)

ORDER_OPERATIONS: Final = (
    Described(
        path=f"{_ACCOUNT}/orders",
        operation_id="listOrders",
        summary="List orders of intents",
        description="The current order of every intent, in the order in which they were submitted, oldest first. Pages "
        "never skip or repeat an order that matches the filter all the time. A filtered page can be short or even "
        "empty; next_cursor shows that there are more.",
        operation=Operation.READ_INTENTS,
        answer_example=OrderPageBody([_ORDER], None, "AAAAAAAAACpTb3B1YmJsaWNfa2V"),
        parameters=(
            Parameter(
                name="status",
                description="WORKING: orders that may still fill or whose state is unknown; CLOSED: finished orders.",
                schema={"type": "string", "enum": list(ListedStatus), "default": ListedStatus.ALL},
                example="WORKING",
            ),
            _SYMBOL,
            Parameter(
                name="order_side",
                description="Only orders of this side.",
                schema={"type": "string", "enum": list(OrderSide)},
                example="BUY",
            ),
            NEXT_CURSOR,
            LIMIT,
        ),
    ),
    Described(
        path=f"{_ACCOUNT}/orders/{{intent_id}}",
        operation_id="showOrder",
        summary="Read the order of an intent",
        description="The current order, with the fields of its events.",
        operation=Operation.READ_INTENTS,
        answer_example=_ORDER,
    ),
    Described(
        path=f"{_ACCOUNT}/executions",
        operation_id="listExecutions",
        summary="List executions",
        description="Executions of the account's intents with their current values, in the order in which they were "
        "recorded, oldest first. One that the broker busted has kind BUST and the quantity 0; one that it corrected "
        "has kind CORRECTION and the corrected values. A page of one symbol can be short or even empty; next_cursor "
        "shows that there are more.",
        operation=Operation.READ_INTENTS,
        answer_example=ExecutionPageBody([_EXECUTION], None),
        parameters=(
            Parameter(
                name="intent_id",
                description="Only executions of this intent's order.",
                schema={"type": "string", "format": "uuid"},
                example=str(_INTENT_ID),
            ),
            _SYMBOL,
            moment("since", "Only executions recorded at this time or later", "2026-01-05T14:30:00Z"),
            moment("until", "Only executions recorded before this time", "2036-01-05T21:00:00Z"),
            NEXT_CURSOR,
            LIMIT,
        ),
    ),
    Described(
        path=f"{_ACCOUNT}/positions",
        operation_id="listPositions",
        summary="List positions",
        description="All positions of the account as of the event account_seq. source is BROKER if the broker's own "
        "positions were taken over at as_of and executions were added since, EXECUTIONS if they never were.",
        operation=Operation.READ_INTENTS,
        answer_example=_POSITIONS,
    ),
)
