"""OpenAPI row of the back-test route."""

from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.controls.findings import Comparison, Mode, Scope, Verdict
from openbell_server.domain.orders.intents import ActionType
from openbell_server.transport.rest.controls.backtest import (
    BacktestBody,
    BacktestFindingBody,
    BacktestRequestBody,
    ExampleBody,
    RuleTallyBody,
)
from openbell_server.transport.rest.intents.statistics_bodies import WindowBody
from openbell_server.transport.rest.openapi.operation import Described

_ACCOUNT: Final = UUID("01981d3c-7a00-7000-8000-000000000002")
_FRIDAY: Final = datetime(2026, 1, 9, 12, tzinfo=UTC)
_EXAMPLE: Final = BacktestBody(
    account_id=_ACCOUNT,
    window=WindowBody(since=datetime(2026, 1, 2, 12, tzinfo=UTC), until=_FRIDAY),
    intents=2_313,
    judged=2_310,
    refused=14,
    undecided=3,
    newly_refused=14,
    newly_accepted=0,
    by_rule=[RuleTallyBody(scope=Scope.ACCOUNT, code="QTY_MAX", refused=14, would_refuse=0, undecided=0)],
    examples=[
        ExampleBody(
            at=_FRIDAY,
            symbol="AAPL",
            action_type=ActionType.CREATE,
            was_refused=False,
            would_be_refused=True,
            findings=[
                BacktestFindingBody(
                    code="QTY_MAX",
                    scope=Scope.ACCOUNT,
                    mode=Mode.HARD,
                    verdict=Verdict.REFUSED,
                    comparison=Comparison.AT_MOST,
                    limit="500",
                    observed="800",
                    would_pass="a quantity of at most 500",  # noqa: S106 - no password
                    headroom="-300",
                )
            ],
            action_id=UUID("01981d3c-7a00-7000-8000-000000000004"),
        )
    ],
)

BACKTEST_OPERATIONS: Final = (
    Described(
        method="POST",
        path="/v1/controls/backtest",
        operation_id="backtestRules",
        summary="Test rules against recorded commands",
        description="Evaluates the rules of the body for every recorded command of a time window that creates or "
        "enlarges an order, with the data known at that time. A command without enough recorded data counts as "
        "undecided. At most 31 days and 200,000 commands per request; nothing is written.",
        operation=Operation.READ_CONTROLS,
        body=BacktestRequestBody,
        body_examples={
            "smaller orders": {
                "account_id": str(_ACCOUNT),
                "rules": [{"scope": "ACCOUNT", "code": "QTY_MAX", "parameters": {"quantity": "500"}}],
            },
        },
        answer_example=_EXAMPLE,
        codes=("backtest_running",),
    ),
)
