"""OpenAPI row of the halt reports."""

from dataclasses import replace
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
    HaltedAccountBody,
    HaltReportBody,
    HaltReportListBody,
    InFlightBody,
)
from openbell_server.transport.rest.openapi.operation import LIMIT, NEXT_CURSOR, Described
from openbell_server.transport.rest.openapi.operations.rules import PLACE_FILTERS

_NOON: Final = datetime(2026, 1, 5, 12, tzinfo=UTC)
_REPORT: Final = HaltReportBody(
    id=UUID("3f2c1b9e-5d1a-4c55-9a6e-0c8a1f5d7e42"),
    account_id=UUID("01981d3c-7a00-7000-8000-000000000002"),
    scope=Scope.ACCOUNT,
    status=SwitchState.HALTED,
    version=3,
    since=_NOON,
    until=None,
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
            dispatched_at=_NOON - timedelta(milliseconds=200),
            settled_at=_NOON + timedelta(milliseconds=100),
        )
    ],
    cancels=CancelsBody(1, 1, 0, 0, _NOON + timedelta(seconds=1)),
    no_working_orders=True,
    why=None,
    compared_at=_NOON + timedelta(seconds=20),
    reason="runaway strategy",
    account=HaltedAccountBody(
        as_of=_NOON + timedelta(seconds=30),
        open_orders=0,
        in_doubt=0,
        queued=0,
        orders=[],
        external_open_orders=0,
        external_orders=[],
    ),
)

HALT_OPERATIONS: Final = (
    Described(
        path="/v1/halt-reports",
        operation_id="listHaltReports",
        summary="List the reports of halts",
        description="Every halt of an account, newest first, also after it ended: who, when and why, the doors opened "
        "afterwards (0 if it is HALTED), commands in flight, queued commands that were skipped, and cancels requested "
        "and confirmed. While it is in force, also the orders that are open or UNKNOWN, and no_working_orders: true "
        "only if the whole account is halted, no order of ours is open or UNKNOWN, and the broker's list, read after "
        "the last of them ended, shows no open order; else it is false, or null if that is not known, and why contains "
        "the reason. A report lists at most 500 commands in flight, 100 orders and 100 external orders; the counts "
        "include all.",
        operation=Operation.READ_CONTROLS,
        answer_example=HaltReportListBody([_REPORT], None, "AAAAAAAAACpTb3B1YmJsaWNfa2V"),
        parameters=(
            replace(PLACE_FILTERS[0], description="The account.", required=True),
            NEXT_CURSOR,
            LIMIT,
        ),
        codes=("not_found",),
    ),
)
