"""The routes of fault plans, described."""

from datetime import UTC, datetime
from typing import Final

from openbell_server.domain.authorization import Operation
from openbell_server.transport.rest.fault_plans import FaultPlanBody, FaultPlanRequest
from openbell_server.transport.rest.openapi.described import Described

_PATH: Final = "/v1/accounts/{account_id}/paper/faults"
_PLAN: Final = FaultPlanBody(7, {"accept_then_hang": 0.1, "duplicate_fills": 0.5}, datetime(2026, 1, 5, 12, tzinfo=UTC))

FAULT_OPERATIONS: Final = (
    Described(
        method="GET",
        path=_PATH,
        operation_id="showFaultPlan",
        tag="Accounts",
        summary="Read how the account's paper broker misbehaves",
        description="Without a plan the faults are empty and set_at is not there.",
        operation=Operation.READ_ACCOUNTS,
        answer=FaultPlanBody,
        answer_example=_PLAN,
        codes=("faults_not_supported", "paper_broker_unavailable"),
    ),
    Described(
        method="PUT",
        path=_PATH,
        operation_id="putFaultPlan",
        tag="Accounts",
        summary="Have the account's paper broker misbehave",
        description="For accounts of the built-in paper brokers. The plan holds at once, in place of the one before, "
        "and until it is removed; which order meets which fault follows from the seed and the order's client id.",
        operation=Operation.EDIT_ACCOUNTS,
        body=FaultPlanRequest,
        body_examples={
            "lost answers": {"seed": 7, "faults": {"accept_then_hang": 0.1, "refused_but_placed": 0.1}},
            "odd fills": {"seed": 7, "faults": {"duplicate_fills": 1, "bust": 0.2, "late_ms": 2000}},
        },
        answer=FaultPlanBody,
        answer_example=_PLAN,
        codes=("organization_disabled", "account_closed", "faults_not_supported", "paper_broker_unavailable"),
    ),
    Described(
        method="DELETE",
        path=_PATH,
        operation_id="deleteFaultPlan",
        tag="Accounts",
        summary="Have the account's paper broker behave",
        description="To remove a plan that is not there changes nothing and is no error.",
        operation=Operation.EDIT_ACCOUNTS,
        status=204,
        codes=("organization_disabled", "account_closed", "faults_not_supported", "paper_broker_unavailable"),
    ),
)
