"""Set the faults that a paper broker injects for an account, so that a customer can test how a client handles them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from openbell_server.application.access.find_account import find_account
from openbell_server.application.access.ports.account_records import AccountRecords, AccountStore
from openbell_server.application.access.ports.fault_plans import FaultPlan, FaultPlans, PlansUnavailable
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import AccountId

Answer = TypeVar("Answer")
_EMPTY: Final = FaultPlan(0, {})


@dataclass(frozen=True, slots=True)
class SetFaultPlan:
    """The fault plans of accounts; a change is audited before it is sent to the broker."""

    accounts: AccountStore
    records: AccountRecords
    plans: FaultPlans

    async def read(self, caller: Principal, account_id: AccountId) -> FaultPlan:
        await self._enter(caller, Operation.READ_ACCOUNTS, account_id)
        return await _answered(self.plans.read(account_id))

    async def put(
        self, caller: Principal, account_id: AccountId, decode: Callable[[], Awaitable[FaultPlan]]
    ) -> FaultPlan:
        await self._enter(caller, Operation.EDIT_ACCOUNTS, account_id)
        plan = await decode()
        self.plans.judge(plan)
        await self._note(caller, account_id, plan)
        return await _answered(self.plans.set(account_id, plan))

    async def clear(self, caller: Principal, account_id: AccountId) -> None:
        """Remove the plan; without one this changes nothing."""
        await self._enter(caller, Operation.EDIT_ACCOUNTS, account_id)
        await self._note(caller, account_id, _EMPTY)
        await _answered(self.plans.clear(account_id))

    async def _note(self, caller: Principal, account_id: AccountId, plan: FaultPlan) -> None:
        before = await _answered(self.plans.read(account_id))
        await self.records.note(caller, account_id, "accounts faults", _facts(before), _facts(plan))

    async def _enter(self, caller: Principal, operation: Operation, account_id: AccountId) -> None:
        account = await find_account(self.accounts, caller, operation, account_id)
        if operation is Operation.EDIT_ACCOUNTS and account.closed:
            raise Problem("account_closed", "the account is closed")
        if not self.plans.is_for(account.broker):
            raise Problem("faults_not_supported", f"{account.broker} cannot inject faults")


def _facts(plan: FaultPlan) -> dict[str, object]:
    return {"seed": plan.seed, "faults": dict(plan.faults)}


async def _answered(call: Awaitable[Answer]) -> Answer:
    try:
        return await call
    except PlansUnavailable as trouble:
        raise Problem("paper_broker_unavailable", str(trouble)) from trouble
