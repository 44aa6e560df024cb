"""The routes of fault plans: which faults the broker of a paper account simulates."""

from typing import Annotated, Any, Final
from uuid import UUID

from litestar import Router, delete, get, put
from litestar.params import FromPath
from msgspec import UNSET, Meta, Struct, UnsetType

from openbell_server.application.access.ports.fault_plans import FaultPlan
from openbell_server.application.access.set_fault_plan import SetFaultPlan
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.errors import InvalidCommand, escaped
from openbell_server.domain.identifiers import AccountId
from openbell_server.transport.rest.entry import AnyRequest, Enter
from openbell_server.transport.rest.strict_json import read_body
from openbell_server.transport.rest.wire_types import Moment

SEED_MAX: Final = 2**63 - 1
# The broker checks these against its own table.
Seed = Annotated[
    int,
    Meta(
        description="the same seed causes the same faults for the same orders",
        extra_json_schema={"minimum": 0, "maximum": SEED_MAX},
    ),
]
NamedFaults = Annotated[
    dict[str, Any],
    Meta(
        description="rates from 0 to 1 and times in milliseconds, by the names that the page of the paper broker lists",
        examples=[{"accept_then_hang": 0.1, "duplicate_fills": 0.5, "late_ms": 2000}],
        extra_json_schema={"format": "faults", "additionalProperties": {"type": "number"}},
    ),
]


class FaultPlanRequest(Struct, forbid_unknown_fields=True, frozen=True):
    """The request to simulate faults."""

    faults: NamedFaults
    seed: Seed = 0


class FaultPlanBody(Struct, frozen=True):
    """The faults that the account's broker simulates; empty without a plan."""

    seed: int
    faults: dict[str, float]
    set_at: Moment | UnsetType = UNSET


def fault_plan_routes(enter: Enter, plans: SetFaultPlan) -> Router:
    @get("/")
    async def show_fault_plan(request: AnyRequest, account_id: FromPath[UUID]) -> FaultPlanBody:
        caller = await enter(request, Operation.READ_ACCOUNTS)
        return _body(await plans.read(caller, AccountId(account_id)))

    @put("/")
    async def put_fault_plan(request: AnyRequest, account_id: FromPath[UUID]) -> FaultPlanBody:
        caller = await enter(request, Operation.EDIT_ACCOUNTS)

        async def decode() -> FaultPlan:
            body = await read_body(request, FaultPlanRequest)
            return FaultPlan(body.seed, {name: _number(name, value) for name, value in body.faults.items()})

        return _body(await plans.put(caller, AccountId(account_id), decode))

    @delete("/")
    async def delete_fault_plan(request: AnyRequest, account_id: FromPath[UUID]) -> None:
        caller = await enter(request, Operation.EDIT_ACCOUNTS)
        await plans.clear(caller, AccountId(account_id))

    return Router(
        "/v1/accounts/{account_id:uuid}/paper/faults",
        route_handlers=[show_fault_plan, put_fault_plan, delete_fault_plan],
    )


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidCommand(f"/faults/{escaped(name)}", "must be a number")
    return value


def _body(plan: FaultPlan) -> FaultPlanBody:
    return FaultPlanBody(plan.seed, dict(plan.faults), plan.set_at or UNSET)
