"""The routes of orders, executions and positions, described."""

from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from openbell_server.application.ports.order_lists import ListedStatus
from openbell_server.domain.authorization import Operation
from openbell_server.domain.order_aggregate import Certainty, Pending
from openbell_server.domain.orders import OrderSide, OrderType, TimeInForce
from openbell_server.transport.rest.openapi.described import (
    LIMIT,
    NEXT_CURSOR,
    SYMBOL_PATTERN,
    Described,
    Parameter,
)
from openbell_server.transport.rest.orders import (
    ExecutionPageBody,
    ExecutionRowBody,
    OrderBody,
    OrderPageBody,
    PositionBody,
    PositionsBody,
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
    told_quantity="4",
    told_price="187.54",
    changed_at=_OPEN,
)
_POSITIONS: Final = PositionsBody(
    data=[PositionBody("AAPL", "4", _OPEN), PositionBody("TSLA", "-20", _OPEN)],
    account_seq=1207,
    source="BROKER",
    is_complete=True,
    as_of=_OPEN,
)
_SYMBOL: Final = Parameter(
    name="symbol",
    place="query",
    description="Only those of this symbol, in any spelling that its broker takes.",
    schema={"type": "string", "pattern": SYMBOL_PATTERN},
    example="AAPL",
)


def _moment(name: str, description: str, example: str) -> Parameter:
    return Parameter(
        name=name,
        place="query",
        description=f"{description}; the + of an offset is written %2B.",
        schema={"type": "string", "format": "date-time"},
        example=example,
    )


ORDER_OPERATIONS: Final = (
    Described(
        method="GET",
        path=f"{_ACCOUNT}/orders",
        operation_id="listOrders",
        tag="Orders",
        summary="List orders of intents",
        description="The order of every intent as it stands, in the order they were asked for, the oldest first. No "
        "page skips or repeats an order that passes the filter throughout; a page of some may be short, even empty, "
        "where next_cursor says that there are more.",
        operation=Operation.READ_INTENTS,
        answer=OrderPageBody,
        answer_example=OrderPageBody([_ORDER], None, "AAAAAAAAACpTb3B1YmJsaWNfa2V"),
        parameters=(
            Parameter(
                name="status",
                place="query",
                description="WORKING: those that may still fill, or of which nobody knows yet; CLOSED: those that are "
                "over.",
                schema={"type": "string", "enum": list(ListedStatus), "default": ListedStatus.ALL},
                example="WORKING",
            ),
            _SYMBOL,
            Parameter(
                name="order_side",
                place="query",
                description="Only those of this side.",
                schema={"type": "string", "enum": list(OrderSide)},
                example="BUY",
            ),
            NEXT_CURSOR,
            LIMIT,
        ),
        codes=("invalid_cursor",),
    ),
    Described(
        method="GET",
        path=f"{_ACCOUNT}/orders/{{intent_id}}",
        operation_id="showOrder",
        tag="Orders",
        summary="Read the order of an intent",
        description="The order as it stands, in the words of its events.",
        operation=Operation.READ_INTENTS,
        answer=OrderBody,
        answer_example=_ORDER,
    ),
    Described(
        method="GET",
        path=f"{_ACCOUNT}/executions",
        operation_id="listExecutions",
        tag="Orders",
        summary="List executions",
        description="Executions of the account's intents as they stand, in the order they were recorded, the oldest "
        "first: one that the broker took back has kind BUST and the quantity 0, one that it corrected has kind "
        "CORRECTION and the numbers it has now. A page of a symbol may be short, even empty, where next_cursor says "
        "that there are more.",
        operation=Operation.READ_INTENTS,
        answer=ExecutionPageBody,
        answer_example=ExecutionPageBody([_EXECUTION], None),
        parameters=(
            Parameter(
                name="intent_id",
                place="query",
                description="Only those of this intent's order.",
                schema={"type": "string", "format": "uuid"},
                example=str(_INTENT_ID),
            ),
            _SYMBOL,
            _moment("since", "Only those recorded then or later", "2026-01-05T14:30:00Z"),
            _moment("until", "Only those recorded before then", "2036-01-05T21:00:00Z"),
            NEXT_CURSOR,
            LIMIT,
        ),
        codes=("invalid_cursor",),
    ),
    Described(
        method="GET",
        path=f"{_ACCOUNT}/positions",
        operation_id="listPositions",
        tag="Orders",
        summary="List positions",
        description="What the account holds, all of it as it was after the event account_seq. source is BROKER where "
        "the broker's own word was taken over at as_of and executions moved it since, EXECUTIONS where it never was.",
        operation=Operation.READ_INTENTS,
        answer=PositionsBody,
        answer_example=_POSITIONS,
    ),
)
