"""The OpenAPI row of worst cases."""

from datetime import UTC, date, datetime
from typing import Final
from uuid import UUID

from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.kinds.losses import MeasuredFrom, OnBreach
from openbell_server.domain.orders.order_terms import OrderSide
from openbell_server.transport.rest.agents.worst_case import (
    AmountBody,
    DayAmountBody,
    LossStopBody,
    WorstAccountsBody,
    WorstCaseBody,
)
from openbell_server.transport.rest.openapi.operation import Described

_DAY: Final = DayAmountBody(
    currency="USD",
    scope=Scope.KEY,
    timezone="UTC",
    today=date(2026, 1, 5),
    accepted_today="1750",
    left_today="3250",
    per_day="5000",
    later_days=2,
    left_in_all="13250",
)

AGENT_OPERATIONS: Final = (
    Described(
        path="/v1/api-keys/{api_key_id}/worst-case",
        operation_id="showWorstCase",
        summary="Read what a key can still do at worst",
        description="Computed from the rules in force of every scope, the strictest first, until the key expires; in "
        "plain sentences and as fields. A rule that ends before the key expires, that only records, or that lets pass "
        "what has no price, is no limit. Rules of single symbols are left out, so the result is an upper bound.",
        operation=Operation.MANAGE_KEYS,
        answer_example=WorstCaseBody(
            api_key_id=UUID("01981d3c-7a00-7000-8000-000000000007"),
            as_of=datetime(2026, 1, 5, 12, tzinfo=UTC),
            environment=Environment.PAPER,
            sentences=["One order is worth at most 1000 USD, at its worst price."],
            can_trade=True,
            can_change_orders_of_others=False,
            can_loosen=False,
            accounts=[
                WorstAccountsBody(
                    account_ids=[UUID("01981d3c-7a00-7000-8000-000000000002")],
                    sides=[OrderSide.BUY, OrderSide.SELL],
                    sells_only_what_is_held=True,
                    order_values=[AmountBody("1000", "USD", Scope.KEY)],
                    order_values_with_price=[],
                    day_values=[_DAY],
                    losses=[
                        LossStopBody(
                            value="200",
                            currency="USD",
                            scope=Scope.KEY,
                            timezone="UTC",
                            measured_from=MeasuredFrom.OPENING,
                            on_breach=OnBreach.REDUCE_ONLY,
                            is_reached=False,
                            lost_today="12.5",
                        )
                    ],
                    symbols=["AAPL", "MSFT"],
                    orders_per_minute=10,
                    open_orders=10,
                )
            ],
            has_more_accounts=False,
            days=[_DAY],
            expires_at=datetime(2026, 1, 8, tzinfo=UTC),
        ),
    ),
)
