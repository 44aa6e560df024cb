"""Changes of controls in the log of an account, each under the account's lock."""

import json
from uuid import UUID

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Connection
from openbell_server.domain.account_events import EventKind
from openbell_server.domain.control_rules import SWITCH, ControlChange, StoredRule, SwitchState
from openbell_server.domain.findings import Scope

_execution = named_queries.load("execution")


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
    changed_by: str | None = None,
) -> None:
    """Append the event, after the change is written; the subject is a symbol or a key, where the scope is one."""
    body = {
        "scope": scope,
        "subject": subject,
        "code": code,
        "change": change,
        "version": version,
        "state": state,
        "reason": reason,
        "changed_by": changed_by,
    }
    await _execution.append_events(
        connection,
        organization_id=organization_id,
        account_id=account_id,
        kinds=[int(EventKind.CONTROL_CHANGED)],
        intent_ids=[None],
        seqs=[None],
        bodies=[json.dumps(body, separators=(",", ":"), ensure_ascii=False)],
    )


async def append_rule_changed(
    connection: Connection,
    organization_id: UUID,
    account_id: UUID,
    rule: StoredRule,
    change: ControlChange,
    state: SwitchState | None = None,
) -> None:
    """The same for a rule or a switch, with the state of a switch."""
    kind, who = rule.principal
    # Whoever operates the platform is not named to its customers.
    is_named = rule.address.scope is not Scope.PLATFORM
    await append_control_changed(
        connection,
        organization_id,
        account_id,
        scope=rule.address.scope,
        subject=rule.address.symbol or rule.address.key_id,
        code=rule.code,
        change=change,
        version=rule.version,
        state=state or switch_state(rule),
        reason=rule.reason,
        changed_by=f"{kind} {who}" if is_named else kind,
    )


def switch_state(rule: StoredRule) -> SwitchState | None:
    """What a switch says, for a time or for good; None of a rule that is no switch."""
    if rule.code != SWITCH:
        return None
    terms = rule.terms if rule.override is None else rule.override.terms
    return SwitchState.ACTIVE if terms is None else SwitchState(terms.parameters["state"])
