"""OpenAPI rows of orders, executions and changes of positions."""

from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from openbell_server.application.intents.ports import ListedStatus
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.controls.rules import SwitchState
from openbell_server.domain.orders.order_aggregate import Certainty, Pending
from openbell_server.domain.orders.order_terms import OrderSide, OrderType, TimeInForce
from openbell_server.domain.orders.positions import PositionCause
from openbell_server.transport.rest.intents.cancel_orders import (
    CancelOrdersBody,
    CancelResultBody,
    CancelResultsBody,
)
from openbell_server.transport.rest.intents.orders import (
    ExecutionPageBody,
    ExecutionRowBody,
    OrderBody,
    OrderPageBody,
    PositionChangeBody,
    PositionChangePageBody,
)
from openbell_server.transport.rest.intents.overview import AccountOverviewBody, OverviewPageBody
from openbell_server.transport.rest.openapi.operation import (
    ACCOUNT_FILTER,
    LIMIT,
    NEXT_CURSOR,
    OF_INTENT,
    ORDER,
    SYMBOL_PATTERN,
    Described,
    Parameter,
    moment,
)

_ACCOUNT_ID: Final = UUID("01981d3c-7a00-7000-8000-000000000002")
_OPEN: Final = datetime(2026, 1, 5, 14, 30, tzinfo=UTC)
_INTENT_ID: Final = UUID("01981d3c-7a00-7000-8000-000000000003")
_ORDER: Final = OrderBody(
    account_id=_ACCOUNT_ID,
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
    account_id=_ACCOUNT_ID,
    execution_id="P-000070-1",
    intent_id=_INTENT_ID,
    symbol="AAPL",
    order_side=OrderSide.BUY,
    kind="CORRECTION",
    quantity="4",
    price="187.45",
    executed_at=_OPEN,
    recorded_at=_OPEN,
    fee="0.004",
    reported_quantity="4",
    reported_price="187.54",
    changed_at=_OPEN,
)
_CHANGE: Final = PositionChangeBody("AAPL", PositionCause.EXECUTION, "4", "4", _OPEN, _INTENT_ID)
_SALE: Final = PositionChangeBody("AAPL", PositionCause.EXTERNAL_ORDER, "-1", "3", _OPEN, value="-187.5")
_OVERVIEW: Final = AccountOverviewBody(
    account_id=_ACCOUNT_ID,
    name="Momentum",
    environment=Environment.PAPER,
    disabled=False,
    switch=SwitchState.ACTIVE,
    open_orders=12,
    unknown_orders=1,
    executions_last_minute=4,
    oldest_queued_at=_OPEN,
)
SYMBOL: Final = Parameter(
    name="symbol",
    description="Only this symbol, in any spelling that its broker accepts.",
    schema={"type": "string", "pattern": SYMBOL_PATTERN},
    example="AAPL",
)

ORDER_OPERATIONS: Final = (
    Described(
        path="/v1/orders",
        operation_id="listOrders",
        summary="List orders of intents",
        description="The current order of every intent of the organization, by the ids of the intents, which increase "
        "with time. Pages never repeat an order, and skip none that was there when the first page was read and matches "
        "the filter all the time. A filtered page can be short or even empty; next_cursor shows that there are more. "
        "A key sees the accounts of its environment.",
        operation=Operation.READ_INTENTS,
        answer_example=OrderPageBody([_ORDER], None, "AAAAAAAAACpTb3B1YmJsaWNfa2V"),
        parameters=(
            ACCOUNT_FILTER,
            OF_INTENT,
            Parameter(
                name="status",
                description="WORKING: orders that may still fill or whose state is unknown; CLOSED: finished orders.",
                schema={"type": "string", "enum": list(ListedStatus), "default": ListedStatus.ALL},
                example="WORKING",
            ),
            Parameter(
                name="certainty",
                description="UNKNOWN: orders of which it is not known what the broker did with a command.",
                schema={"type": "string", "enum": list(Certainty)},
                example="CONFIRMED",
            ),
            SYMBOL,
            Parameter(
                name="order_side",
                description="Only orders of this side.",
                schema={"type": "string", "enum": list(OrderSide)},
                example="BUY",
            ),
            ORDER,
            NEXT_CURSOR,
            LIMIT,
        ),
    ),
    Described(
        method="POST",
        path="/v1/accounts/{account_id}/orders/cancel",
        operation_id="cancelOrders",
        summary="Cancel orders as a user",
        description="Records a CANCEL for each of these intents, at most 100, as if it were submitted; keys submit "
        "CANCEL instead. A row of the answer has the id of the recorded action, or the code and the reason why none "
        "was recorded. Nothing disabled and no control stops a cancel.",
        operation=Operation.CANCEL_ORDERS,
        body=CancelOrdersBody,
        body_examples={"one order": {"intent_ids": [str(_INTENT_ID)]}},
        answer_example=CancelResultsBody(
            [CancelResultBody(_INTENT_ID, action_id=UUID("01981d3c-7a00-7000-8000-000000000004"))]
        ),
    ),
    Described(
        path="/v1/executions",
        operation_id="listExecutions",
        summary="List executions",
        description="Executions of the organization's intents with their current values, in the order in which they "
        "were recorded. One that the broker busted has kind BUST and the quantity 0; one that it corrected "
        "has kind CORRECTION and the corrected values. A filtered page can be short or even empty; next_cursor shows "
        "that there are more. A key sees the accounts of its environment.",
        operation=Operation.READ_INTENTS,
        answer_example=ExecutionPageBody([_EXECUTION], None),
        parameters=(
            ACCOUNT_FILTER,
            OF_INTENT,
            SYMBOL,
            moment("since", "Only executions recorded at this time or later", "2026-01-05T14:30:00Z"),
            moment("until", "Only executions recorded before this time", "2036-01-05T21:00:00Z"),
            ORDER,
            NEXT_CURSOR,
            LIMIT,
        ),
    ),
    Described(
        path="/v1/overview",
        operation_id="showOverview",
        summary="See what is going on in every account",
        description="Of every account that is not closed: open and unknown orders, executions of the last minute, "
        "halts, and since when its oldest command waits to be sent. Counts go up to 1000. A key sees the accounts of "
        "its environment.",
        operation=Operation.READ_INTENTS,
        answer_example=OverviewPageBody([_OVERVIEW], None, "AAAAAAAAACpTb3B1YmJsaWNfa2V"),
        parameters=(NEXT_CURSOR, LIMIT),
    ),
    Described(
        path="/v1/accounts/{account_id}/positions/changes",
        operation_id="listPositionChanges",
        summary="List changes of positions",
        description="Each change of the account's positions with the position after it, in the order of the changes. "
        "cause is EXECUTION for an execution of an intent, its bust or its correction; EXTERNAL_ORDER for a fill of an "
        "order that was not submitted here; OPENING for what the account held before its first reconciliation; "
        "UNEXPLAINED where the broker's position differed for another reason. value is quantity multiplied by price of "
        "the fills of an external order, negative for sells; average_price is the broker's average price of the whole "
        "position after OPENING or UNEXPLAINED; each is absent if it is not known.",
        operation=Operation.READ_INTENTS,
        answer_example=PositionChangePageBody([_CHANGE, _SALE], None, "AAAAAAAAACpTb3B1YmJsaWNfa2V"),
        parameters=(SYMBOL, ORDER, NEXT_CURSOR, LIMIT),
    ),
)
