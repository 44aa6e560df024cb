"""OpenAPI rows of fault plans."""

from datetime import UTC, datetime
from typing import Final

from openbell_server.domain.access.authorization import Operation
from openbell_server.transport.rest.access.fault_plans import FaultPlanBody, FaultPlanRequest
from openbell_server.transport.rest.openapi.operation import Described

_PATH: Final = "/v1/accounts/{account_id}/paper/faults"
_PLAN: Final = FaultPlanBody(7, {"accept_then_hang": 0.1, "duplicate_fills": 0.5}, datetime(2026, 1, 5, 12, tzinfo=UTC))

FAULT_OPERATIONS: Final = (
    Described(
        path=_PATH,
        operation_id="showFaultPlan",
        summary="Read the fault plan of a paper account",
        description="Without a plan, faults is empty and set_at is absent.",
        operation=Operation.READ_ACCOUNTS,
        answer_example=_PLAN,
        codes=("faults_not_supported", "paper_broker_unavailable"),
    ),
    Described(
        method="PUT",
        path=_PATH,
        operation_id="putFaultPlan",
        summary="Simulate faults on a paper account",
        description="For accounts of the built-in paper brokers. The plan takes effect at once, replaces the previous "
        "one and stays until it is removed. The seed and the client order id determine which order gets which fault.",
        operation=Operation.EDIT_ACCOUNTS,
        body=FaultPlanRequest,
        body_examples={
            "lost answers": {"seed": 7, "faults": {"accept_then_hang": 0.1, "refused_but_placed": 0.1}},
            "odd fills": {"seed": 7, "faults": {"duplicate_fills": 1, "bust": 0.2, "late_ms": 2000}},
        },
        answer_example=_PLAN,
        codes=("organization_disabled", "account_closed", "faults_not_supported", "paper_broker_unavailable"),
    ),
    Described(
        method="DELETE",
        path=_PATH,
        operation_id="deleteFaultPlan",
        summary="Stop simulating faults",
        description="Removing a plan that does not exist changes nothing and is not an error.",
        operation=Operation.EDIT_ACCOUNTS,
        status=204,
        codes=("organization_disabled", "account_closed", "faults_not_supported", "paper_broker_unavailable"),
    ),
)
