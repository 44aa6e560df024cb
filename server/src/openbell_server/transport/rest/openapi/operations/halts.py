"""OpenAPI row of the halt report."""

from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.rules import SwitchState
from openbell_server.domain.orders.action_lifecycle import ActionState
from openbell_server.domain.orders.intents import ActionType
from openbell_server.transport.rest.controls.halt_reports import (
    CancelsBody,
    HaltBody,
    HaltReportBody,
    InFlightBody,
)
from openbell_server.transport.rest.openapi.operation import Described

_NOON: Final = datetime(2026, 1, 5, 12, tzinfo=UTC)
_REPORT: Final = HaltReportBody(
    account_id=UUID("01981d3c-7a00-7000-8000-000000000002"),
    as_of=_NOON + timedelta(seconds=30),
    no_working_orders=True,
    why=None,
    compared_at=_NOON + timedelta(seconds=20),
    halts=[
        HaltBody(
            scope=Scope.ACCOUNT,
            status=SwitchState.HALTED,
            version=3,
            since=_NOON,
            cancel_working=True,
            principal_type="API_KEY",
            principal_id="01981d3c-7a00-7000-8000-000000000003",
            noticed_at=_NOON + timedelta(milliseconds=300),
            doors_opened_after=0,
            reducing_doors_after=0,
            queued=0,
            skipped=12,
            in_flight=1,
            in_flight_commands=[
                InFlightBody(
                    intent_id=UUID("01981d3c-7a00-7000-8000-000000000004"),
                    seq=1,
                    action_id=UUID("01981d3c-7a00-7000-8000-000000000005"),
                    action_type=ActionType.CREATE,
                    symbol="AAPL",
                    status=ActionState.ACKED,
                    door_opened_at=_NOON - timedelta(milliseconds=200),
                    settled_at=_NOON + timedelta(milliseconds=100),
                )
            ],
            cancels=CancelsBody(1, 1, 0, 0, _NOON + timedelta(seconds=1)),
            reason="runaway strategy",
        )
    ],
    open_orders=0,
    in_doubt=0,
    queued=0,
    orders=[],
    external_open_orders=0,
    external_orders=[],
)

HALT_OPERATIONS: Final = (
    Described(
        path="/v1/accounts/{account_id}/halt-report",
        operation_id="showHaltReport",
        summary="Read the effect of a halt",
        description="The switches that stop all or part of the account; for each, the doors opened afterwards (0 if "
        "it is HALTED), commands in flight, queued commands that were skipped, and cancels requested and confirmed; "
        "and the orders that are open or in doubt. no_working_orders is true only if the whole account is halted, no "
        "order of ours is open or in doubt, and the broker's list, read after the last of them ended, shows no open "
        "order; else it is false, or null if that is not known, and why contains the reason. At most 20 halts, 500 "
        "commands in flight of each, 100 orders and 100 external orders are listed; the counts include all.",
        operation=Operation.READ_CONTROLS,
        answer_example=_REPORT,
    ),
)
