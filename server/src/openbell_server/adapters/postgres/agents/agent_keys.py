"""Stores keys of agents: the key and its rules are one transaction."""

from collections.abc import Mapping
from dataclasses import dataclass

from openbell_server.adapters.postgres.access.api_key_records import add_record, audit_change, record_of
from openbell_server.adapters.postgres.connection import DatabaseClock, PostgresStore, Role, transaction
from openbell_server.adapters.postgres.controls.control_rules import audit_rule, set_first_rules
from openbell_server.domain.access.api_keys import ApiKeyRecord, NewApiKey, PresentedKey
from openbell_server.domain.access.caps import CAPS, Cap
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.rules import Address, RuleTerms


@dataclass(frozen=True, slots=True)
class PostgresAgentKeys(PostgresStore):
    """Implements AgentKeyStore."""

    ids: DatabaseClock
    cap: Cap = CAPS["api_keys"]

    async def add_with_rules(
        self, principal: Principal, presented: PresentedKey, new: NewApiKey, rules: Mapping[str, RuleTerms], reason: str
    ) -> ApiKeyRecord:
        organization_id = principal.organization_id
        api_key_id, audit_id, *audit_ids = await self.ids.new_ids(2 + len(rules))
        address = Address(organization_id=organization_id, scope=Scope.KEY, api_key_id=str(api_key_id))
        async with transaction(self.pool, Role.TENANT, organization_id) as connection:
            row = await add_record(connection, principal, api_key_id, presented, new, self.cap)
            saved = await set_first_rules(connection, address, rules, reason, principal)
            # Last, because the head of the audit log is the last lock that a transaction takes.
            await audit_change(connection, principal, audit_id, "keys create", None, row)
            for rule_audit_id, rule in zip(audit_ids, saved, strict=True):
                await audit_rule(connection, rule_audit_id, None, rule)
        return record_of(row)
