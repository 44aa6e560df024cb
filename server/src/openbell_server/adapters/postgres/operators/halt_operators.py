"""Sets, lifts and lists halts for operators; needs only the database."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.audit_log import Facts
from openbell_server.adapters.postgres.controls.control_events import switch_state
from openbell_server.adapters.postgres.controls.control_rules import OperatorRuleStore
from openbell_server.adapters.postgres.operators.operator_store import OperatorStore
from openbell_server.domain.access.principals import operator_principal
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.rules import PLATFORM_ID, SWITCH, Address, RuleTerms, SwitchState
from openbell_server.domain.errors import OperatorError, Problem
from openbell_server.domain.identifiers import AccountId, OrganizationId

LISTED_MAX: Final = 1000
_queries = named_queries.load("halt_operators")
_operators = named_queries.load("operators")


@dataclass(frozen=True, slots=True)
class PostgresHaltOperators(OperatorStore):
    """Acts on an account, an organization or the platform."""

    async def set_switch(
        self,
        organization_id: UUID | None,
        account_id: UUID | None,
        state: SwitchState,
        reason: str,
        *,
        cancel_working: bool = False,
    ) -> Facts:
        """Set the switch; it is in force when this returns."""
        address, rules = await self._address(organization_id, account_id), OperatorRuleStore(self.pool)
        before = await rules.find_rule(address, SWITCH)
        state_before = SwitchState.ACTIVE if before is None else switch_state(before)
        if state is SwitchState.ACTIVE and state_before is SwitchState.ACTIVE:
            raise OperatorError("This scope is not halted: see `openbell-server halt status`.")
        terms = RuleTerms(parameters={"status": state, "cancel_working": cancel_working})
        try:
            who = operator_principal(self.operator, address.organization_id)
            after = await rules.save_rule(address, SWITCH, terms, reason, who, None)
        except Problem as problem:
            raise OperatorError(f"{problem.detail[:1].upper()}{problem.detail[1:]}.") from problem
        assert after is not None
        return {
            "scope": str(address.scope),
            "organization_id": None if address.scope is Scope.PLATFORM else str(address.organization_id),
            "account_id": None if address.account_id is None else str(address.account_id),
            "status": str(state),
            "before": str(state_before),
            "cancel_working": cancel_working,
            "version": after.version,
            "since": after.updated_at.isoformat(),
            "reason": reason,
        }

    async def list_halts(self) -> list[Facts]:
        """Every halt in force, the oldest first."""
        return await self._list(_queries.list_halts_across_organizations, row_limit=LISTED_MAX)

    async def _address(self, organization_id: UUID | None, account_id: UUID | None) -> Address:
        if account_id is not None:
            find = _operators.find_organization_of_account_across_organizations
            found = await self._find(find, account_id=account_id)
            if found is None:
                raise OperatorError(f"There is no account {account_id}: see `openbell-server accounts list`.")
            return Address(organization_id=found, scope=Scope.ACCOUNT, account_id=AccountId(account_id))
        if organization_id is not None:
            return Address(organization_id=OrganizationId(organization_id), scope=Scope.ORGANIZATION)
        return Address(organization_id=PLATFORM_ID, scope=Scope.PLATFORM)
