"""OpenAPI rows of positions with their money, and of profit."""

from datetime import UTC, date, datetime
from typing import Final

from openbell_server.application.money.read_profit import DAYS_DEFAULT, DAYS_MAX, GroupBy
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.money.profit import CostMethod
from openbell_server.transport.rest.money.positions import (
    PositionBody,
    PositionsBody,
    ProfitBody,
    ProfitPageBody,
)
from openbell_server.transport.rest.openapi.operation import LIMIT, NEXT_CURSOR, ORDER, Described, Parameter, moment
from openbell_server.transport.rest.openapi.operations.orders import SYMBOL

_OPEN: Final = datetime(2026, 1, 5, 14, 30, tzinfo=UTC)
_LONG: Final = PositionBody(
    symbol="AAPL",
    quantity="4",
    updated_at=_OPEN,
    currency="USD",
    cost="749.80",
    average_cost="187.45",
    market_price="188.10",
    market_price_at=_OPEN,
    market_value="752.40",
    unrealized="2.60",
    realized="31.20",
    fees="0.40",
    profit_complete=True,
)
_SHORT: Final = PositionBody(symbol="TSLA", quantity="-20", updated_at=_OPEN, profit_complete=False)
_POSITIONS: Final = PositionsBody(
    data=[_LONG, _SHORT],
    account_seq=1207,
    source="BROKER",
    complete=True,
    cost_method=CostMethod.AVERAGE,
    as_of=_OPEN,
)
_PROFIT: Final = ProfitBody(
    day=date(2026, 1, 5),
    symbol="AAPL",
    currency="USD",
    realized="31.20",
    fees="0.40",
    bought_value="7498.00",
    sold_value="6779.40",
    trades=12,
    profit_complete=True,
)
_COST_METHOD: Final = Parameter(
    name="cost_method",
    description="What the units cost that a trade closes: AVERAGE, as all open units on average; FIFO, as those that "
    "were opened first.",
    schema={"type": "string", "enum": list(CostMethod), "default": CostMethod.AVERAGE},
    example="FIFO",
)

MONEY_OPERATIONS: Final = (
    Described(
        path="/v1/accounts/{account_id}/positions",
        operation_id="listPositions",
        summary="List positions",
        description="All positions of the account as of the event account_seq. source is BROKER if the broker's own "
        "positions were taken over at as_of and executions were added since, EXECUTIONS if they never were. Cost and "
        "profit are computed from the executions, in the order in which they were made. What is not known is left out: "
        "the cost of units that were not bought here, and prices until the broker reports them, a few seconds after "
        "the first read.",
        operation=Operation.READ_INTENTS,
        answer_example=_POSITIONS,
        parameters=(_COST_METHOD,),
    ),
    Described(
        path="/v1/accounts/{account_id}/profit",
        operation_id="listProfit",
        summary="List profit by day and symbol",
        description="What the trades of each day brought, before fees. A trade counts on the day on which it was made; "
        "if the broker busts or corrects it later, that day changes. profit_complete is false where a price or a cost "
        f"is unknown or the broker reported no fee. Whole days, at most {DAYS_MAX}.",
        operation=Operation.READ_INTENTS,
        answer_example=ProfitPageBody([_PROFIT], None, "AAAAAAAAACpTb3B1YmJsaWNfa2V"),
        parameters=(
            SYMBOL,
            moment(
                "since",
                f"From the day of this time on; by default {DAYS_DEFAULT} days before until",
                "2026-01-05T14:30:00Z",
            ),
            moment("until", "To the end of the day of this time; by default now", "2026-01-31T21:00:00Z"),
            Parameter(
                name="timezone",
                description="The zone of the days; by default that of the account.",
                schema={"type": "string", "format": "timezone"},
                example="America/New_York",
            ),
            Parameter(
                name="group_by",
                description="What one row is about. Rows of different currencies are never added.",
                schema={"type": "string", "enum": list(GroupBy), "default": GroupBy.SYMBOL_AND_DAY},
                example="DAY",
            ),
            _COST_METHOD,
            ORDER,
            NEXT_CURSOR,
            LIMIT,
        ),
    ),
)
