"""Ask the broker of a paper account to misbehave, so that a customer meets trouble before it costs money."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from openbell_server.application.ports.account_records import AccountRecords
from openbell_server.application.ports.fault_plans import FaultPlan, FaultPlans, PlansUnavailable
from openbell_server.application.ports.stores import AccountStore
from openbell_server.domain.authorization import Operation, admit_to_account
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.principals import Principal

Answer = TypeVar("Answer")
_EMPTY: Final = FaultPlan(0, {})


@dataclass(frozen=True, slots=True)
class SetFaultPlan:
    """The fault plans of accounts; what is asked for is audited before the broker hears of it."""

    accounts: AccountStore
    records: AccountRecords
    plans: FaultPlans

    async def read(self, caller: Principal, account_id: AccountId) -> FaultPlan:
        """The plan of an account; without one it is empty."""
        await self._enter(caller, Operation.READ_ACCOUNTS, account_id)
        return await _answered(self.plans.read(account_id))

    async def put(
        self, caller: Principal, account_id: AccountId, decode: Callable[[], Awaitable[FaultPlan]]
    ) -> FaultPlan:
        """Have a plan hold from now on, in place of the one before."""
        await self._enter(caller, Operation.EDIT_ACCOUNTS, account_id)
        plan = await decode()
        self.plans.judge(plan)
        await self._note(caller, account_id, plan)
        return await _answered(self.plans.set(account_id, plan))

    async def clear(self, caller: Principal, account_id: AccountId) -> None:
        """Have the broker behave again; if it does already, that is no mistake."""
        await self._enter(caller, Operation.EDIT_ACCOUNTS, account_id)
        await self._note(caller, account_id, _EMPTY)
        await _answered(self.plans.clear(account_id))

    async def _note(self, caller: Principal, account_id: AccountId, plan: FaultPlan) -> None:
        before = await _answered(self.plans.read(account_id))
        await self.records.note(caller, account_id, "accounts faults", _facts(before), _facts(plan))

    async def _enter(self, caller: Principal, operation: Operation, account_id: AccountId) -> None:
        account = await self.accounts.find_account(caller.organization_id, account_id)
        if account is None:
            raise Problem("not_found", "there is no such account")
        admit_to_account(caller, operation, account)
        if operation is Operation.EDIT_ACCOUNTS and account.organization_disabled:
            raise Problem("organization_disabled", "the organization is disabled")
        if operation is Operation.EDIT_ACCOUNTS and account.closed:
            raise Problem("account_closed", "the account is closed")
        if not self.plans.is_for(account.broker):
            raise Problem("faults_not_supported", f"{account.broker} does not misbehave on request")


def _facts(plan: FaultPlan) -> dict[str, object]:
    return {"seed": plan.seed, "faults": dict(plan.faults)}


async def _answered(call: Awaitable[Answer]) -> Answer:
    try:
        return await call
    except PlansUnavailable as trouble:
        raise Problem("paper_broker_unavailable", "the paper broker did not answer") from trouble
