"""Sets, lifts and lists halts for operators; needs only the database."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.audit_log import Facts, facts_of
from openbell_server.adapters.postgres.connection import Pool, Role, transaction
from openbell_server.adapters.postgres.controls.control_rules import PostgresRuleStore
from openbell_server.domain.access.principals import operator_principal
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.rules import PLATFORM_ID, SWITCH, Address, RuleTerms, StoredRule, SwitchState
from openbell_server.domain.errors import OperatorError, Problem
from openbell_server.domain.identifiers import AccountId, OrganizationId

LISTED_MAX: Final = 1000
_queries = named_queries.load("halt_operators")
_operators = named_queries.load("operators")


@dataclass(frozen=True, slots=True)
class PostgresHaltOperators:
    """Acts for one operator, on an account, an organization or the platform."""

    pool: Pool
    operator: str

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
        address, rules = await self._address(organization_id, account_id), PostgresRuleStore(self.pool)
        before = await rules.find_rule(address, SWITCH)
        if state is SwitchState.ACTIVE and _state(before) in (None, SwitchState.ACTIVE):
            raise OperatorError("This scope is not halted: see `openbell-server halt status`.")
        terms = RuleTerms(parameters={"state": state, "cancel_working": cancel_working})
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
            "state": str(state),
            "before": str(_state(before) or SwitchState.ACTIVE),
            "cancel_working": cancel_working,
            "version": after.version,
            "since": after.updated_at.isoformat(),
            "reason": reason,
        }

    async def list_halts(self) -> list[Facts]:
        """Every halt in force, the oldest first."""
        async with transaction(self.pool, Role.OPERATOR) as connection:
            rows = _queries.list_halts_across_organizations(connection, row_limit=LISTED_MAX)
            return [facts_of(row) async for row in rows]

    async def _address(self, organization_id: UUID | None, account_id: UUID | None) -> Address:
        if account_id is not None:
            async with transaction(self.pool, Role.OPERATOR) as connection:
                found = await _operators.find_organization_of_account_across_organizations(
                    connection, account_id=account_id
                )
            if found is None:
                raise OperatorError(f"There is no account {account_id}: see `openbell-server accounts list`.")
            return Address(organization_id=found, scope=Scope.ACCOUNT, account_id=AccountId(account_id))
        if organization_id is not None:
            return Address(organization_id=OrganizationId(organization_id), scope=Scope.ORGANIZATION)
        return Address(organization_id=PLATFORM_ID, scope=Scope.PLATFORM)


def _state(rule: StoredRule | None) -> SwitchState | None:
    """The state of the switch; a temporary override takes precedence."""
    if rule is None:
        return None
    terms = rule.override.terms if rule.override is not None else rule.terms
    parameters: Mapping[str, Any] = {} if terms is None else terms.parameters
    return SwitchState(parameters["state"]) if "state" in parameters else None
