"""Appends changes of controls to the event log of an account, under the account's lock."""

import json
from uuid import UUID

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Connection
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.rules import SWITCH, ControlChange, StoredRule, SwitchState

_queries = named_queries.load("account_changes")


async def append_control_changed(
    connection: Connection,
    organization_id: UUID,
    account_id: UUID,
    *,
    scope: Scope,
    subject: str | None,
    code: str,
    change: ControlChange,
    version: int,
    state: SwitchState | None = None,
    reason: str | None = None,
    principal_type: str,
    principal_id: str | None,
) -> None:
    """Append the event after the change is written; the subject is a symbol or a key id, or None for other scopes."""
    body = {
        "scope": scope,
        "subject": subject,
        "code": code,
        "change": change,
        "version": version,
        "status": state,
        "reason": reason,
        "principal_type": principal_type,
        "principal_id": principal_id,
    }
    await _queries.append_control_changed(
        connection,
        organization_id=organization_id,
        account_id=account_id,
        body=json.dumps(body, separators=(",", ":"), ensure_ascii=False),
    )


async def append_rule_changed(
    connection: Connection,
    organization_id: UUID,
    account_id: UUID,
    rule: StoredRule,
    change: ControlChange,
    state: SwitchState | None = None,
) -> None:
    """Append the event of a rule or a switch; without a state, the current state of the switch is used."""
    kind, who = rule.principal
    # Customers do not see the names of the platform's operators.
    is_named = rule.address.scope is not Scope.PLATFORM
    await append_control_changed(
        connection,
        organization_id,
        account_id,
        scope=rule.address.scope,
        subject=rule.address.symbol or rule.address.api_key_id,
        code=rule.code,
        change=change,
        version=rule.version,
        state=state or switch_state(rule),
        reason=rule.reason,
        principal_type=kind,
        principal_id=who if is_named else None,
    )


def switch_state(rule: StoredRule) -> SwitchState | None:
    """The state that is in force, of the override if there is one; None if the rule is not a switch."""
    if rule.code != SWITCH:
        return None
    terms = rule.terms if rule.override is None else rule.override.terms
    return SwitchState.ACTIVE if terms is None else SwitchState(terms.parameters["status"])
