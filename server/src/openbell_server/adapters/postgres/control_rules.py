"""Rules at every scope: each change with its place in the rule's history, its epoch, and no door that missed it."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import asyncpg

from openbell_server.adapters.postgres import account_changes, audit_log, named_queries
from openbell_server.adapters.postgres.connection import Connection, DatabaseClock, Pool, Role, transaction
from openbell_server.adapters.postgres.control_events import append_rule_changed
from openbell_server.application.ports.rules import OrganizationStanding, RuleChange
from openbell_server.domain.control_rules import (
    Address,
    ControlChange,
    OnMissing,
    Override,
    RuleTerms,
    StoredRule,
)
from openbell_server.domain.errors import InvalidCommand, Problem
from openbell_server.domain.findings import Mode, Scope
from openbell_server.domain.identifiers import OrganizationId
from openbell_server.domain.principals import Principal

# More than there are kinds of control.
RULES_MAX: Final = 100
# Each waits for as long as a lock may take. Whoever falls silent with a door in hand loses it within ten seconds, and a
# halt must not fail because of them.
TRIES_MAX: Final = 6
_queries = named_queries.load("control_rules")


@dataclass(frozen=True, slots=True)
class PostgresRuleStore:
    """Implements RuleStore; the platform's rules need an operator's login."""

    pool: Pool

    async def standing(self, organization_id: OrganizationId) -> OrganizationStanding | None:
        """How the organization stands, if there is one."""
        async with transaction(self.pool, Role.TENANT, organization_id) as connection:
            row = await _queries.organization_standing(connection, organization_id=organization_id)
        return None if row is None else OrganizationStanding(row["disabled"], frozenset(row["entitlements"]))

    async def find_rule(self, address: Address, code: str) -> StoredRule | None:
        """The rule, unless there is none, it was removed, or it was only for a time that is over."""
        async with transaction(self.pool, _role(address), address.organization_id) as connection:
            return _there(await find_kept(connection, address, code))

    async def list_rules(self, address: Address) -> list[StoredRule]:
        """Every rule at the address, by code."""
        async with transaction(self.pool, _role(address), address.organization_id) as connection:
            rows = _queries.list_rules(connection, **_place(address), row_limit=RULES_MAX)
            return [_rule(address, row) async for row in rows]

    async def save_rule(
        self,
        address: Address,
        code: str,
        change: RuleTerms | Override | None,
        reason: str | None,
        principal: Principal,
        expected: Collection[int] | None,
    ) -> StoredRule | None:
        """Set the terms, or others for a time, or remove the rule with both; what is there after."""
        for tried in range(1, TRIES_MAX + 1):
            try:
                return await self._save_rule(address, code, change, reason, principal, expected)
            except asyncpg.LockNotAvailableError:
                if tried == TRIES_MAX:
                    raise
        raise AssertionError("the last try returns or raises")

    async def _save_rule(
        self,
        address: Address,
        code: str,
        change: RuleTerms | Override | None,
        reason: str | None,
        principal: Principal,
        expected: Collection[int] | None,
    ) -> StoredRule | None:
        # Before the transaction: whoever holds a connection waits for no other.
        (audit_id,) = await DatabaseClock(self.pool).new_ids(1)
        async with transaction(self.pool, _role(address), address.organization_id) as connection:
            await _begin(connection, address)
            before = _there(await find_kept(connection, address, code))
            _require_version(before, expected)
            if change is None and before is None:
                raise Problem("not_found", f"no rule {code} is set here")
            after = await _save(connection, address, code, _wanted(before, change), reason, principal)
            await _tell(connection, audit_id, before, after)
            if address.account_id is not None:
                change_made = _change_made(before, _there(after))
                await append_rule_changed(connection, address.organization_id, address.account_id, after, change_made)
            else:
                # Last, so that a writer that hangs keeps no door waiting.
                in_force_at = await _queries.put_in_force(connection, **_place(address), code=code)
                after = replace(after, updated_at=in_force_at)
        return _there(after)

    async def history(self, address: Address, code: str, before_version: int | None, limit: int) -> list[RuleChange]:
        """Changes of the rule, the newest first, from the one before a version."""
        async with transaction(self.pool, _role(address), address.organization_id) as connection:
            rows = _queries.list_changes(
                connection, **_place(address), code=code, before_version=before_version, row_limit=limit
            )
            return [_change(address, row) async for row in rows]


async def shut_doors(connection: Connection, organization_id: UUID) -> None:
    """Wait until no door is open in the organization, or under the platform; the last thing before a commit."""
    await _queries.shut_doors(connection, whose=organization_id)


def encode_terms(terms: RuleTerms) -> str:
    """Terms as the database keeps them."""
    return json.dumps({"mode": terms.mode, "on_missing": terms.on_missing, "parameters": dict(terms.parameters)})


def decode_terms(text: str) -> RuleTerms:
    """Terms that the database kept."""
    return _terms(json.loads(text))


def _terms(kept: Mapping[str, Any]) -> RuleTerms:
    on_missing = kept["on_missing"]
    return RuleTerms(
        mode=Mode(kept["mode"]),
        on_missing=None if on_missing is None else OnMissing(on_missing),
        parameters=kept["parameters"],
    )


def _role(address: Address) -> Role:
    return Role.OPERATOR if address.scope is Scope.PLATFORM else Role.TENANT


def _place(address: Address) -> dict[str, Any]:
    return {"organization_id": address.organization_id, "scope": address.scope, "of_whom": address.subject}


async def _begin(connection: Connection, address: Address) -> None:
    """Wait for whoever changes rules here already, and have what was evaluated before evaluated again."""
    if address.scope is Scope.PLATFORM:
        await _queries.take_turn(connection, whose=address.organization_id)
        await _queries.begin_epochs_across_organizations(connection)
    elif address.account_id is not None:
        if not await account_changes.lock_account(connection, address.organization_id, address.account_id):
            raise Problem("not_found", "there is no such account")
        await account_changes.begin_epoch(connection, address.organization_id, address.account_id)
    elif await _queries.begin_organization_epoch(connection, organization_id=address.organization_id) is None:
        raise Problem("not_found", "there is no such organization")


def _change_made(before: StoredRule | None, after: StoredRule | None) -> ControlChange:
    if after is None:
        return ControlChange.REMOVED
    return ControlChange.CREATED if before is None else ControlChange.CHANGED


async def find_kept(connection: Connection, address: Address, code: str) -> StoredRule | None:
    """The rule whatever became of it, in a transaction of the caller's."""
    row = await _queries.find_rule(connection, **_place(address), code=code)
    return None if row is None else _rule(address, row)


def _there(rule: StoredRule | None) -> StoredRule | None:
    return None if rule is None or (rule.terms is None and rule.override is None) else rule


def _require_version(before: StoredRule | None, expected: Collection[int] | None) -> None:
    """What is not there is at version 0, which no rule ever has."""
    version = 0 if before is None else before.version
    if expected is not None and version not in expected:
        raise Problem("version_mismatch", f"it is at version {version}" if version else "it is not there")


def _wanted(before: StoredRule | None, change: RuleTerms | Override | None) -> tuple[RuleTerms | None, Override | None]:
    if isinstance(change, Override):
        return None if before is None else before.terms, change
    return change, None


async def _save(
    connection: Connection,
    address: Address,
    code: str,
    wanted: tuple[RuleTerms | None, Override | None],
    reason: str | None,
    principal: Principal,
) -> StoredRule:
    terms, override = wanted
    row = await _queries.save_rule(
        connection,
        **_place(address),
        code=code,
        account_id=address.account_id,
        terms=None if terms is None else encode_terms(terms),
        override_terms=None if override is None else encode_terms(override.terms),
        override_expires_at=None if override is None else override.expires_at,
        reason=reason,
        principal_type=principal.kind,
        principal_id=principal.id,
    )
    if row["is_expired"]:
        raise InvalidCommand("expires_at", "must be later than now")
    return _rule(address, row)


async def _tell(connection: Connection, audit_id: UUID, before: StoredRule | None, after: StoredRule) -> None:
    """Into the rule's history, and into the audit log of the organization, which the platform has none of."""
    address = after.address
    facts_before, facts_after = None if before is None else _facts(before), _facts(after)
    removed = _there(after) is None
    await _queries.add_change(
        connection,
        **_place(address),
        code=after.code,
        version=after.version,
        rule_before=None if facts_before is None else json.dumps(facts_before),
        rule_after=None if removed else json.dumps(facts_after),
        reason=after.reason,
        principal_type=after.principal[0],
        principal_id=after.principal[1],
        changed_at=after.updated_at,
    )
    if address.scope is Scope.PLATFORM:
        return
    operation = "controls rule remove" if removed else "controls rule"
    subject = " ".join(part for part in (address.scope, address.subject, after.code) if part)
    await audit_log.append(
        connection,
        address.organization_id,
        audit_id,
        after.principal,
        operation,
        subject,
        facts_before,
        facts_after,
    )


def _facts(rule: StoredRule) -> audit_log.Facts:
    """The rule as JSON has it; _of_facts reads it again."""
    override = rule.override
    return {
        "terms": None if rule.terms is None else json.loads(encode_terms(rule.terms)),
        "override": None
        if override is None
        else {
            "terms": json.loads(encode_terms(override.terms)),
            "expires_at": override.expires_at.isoformat(),
        },
        "version": rule.version,
        "reason": rule.reason,
        "created_at": rule.created_at.isoformat(),
        "updated_at": rule.updated_at.isoformat(),
        "principal": list(rule.principal),
    }


def _of_facts(address: Address, code: str, text: str | None) -> StoredRule | None:
    if text is None:
        return None
    facts = json.loads(text)
    override = facts["override"]
    principal_type, principal_id = facts["principal"]
    return StoredRule(
        address=address,
        code=code,
        terms=None if facts["terms"] is None else _terms(facts["terms"]),
        override=None
        if override is None
        else Override(
            terms=_terms(override["terms"]),
            expires_at=datetime.fromisoformat(override["expires_at"]),
        ),
        version=facts["version"],
        reason=facts["reason"],
        created_at=datetime.fromisoformat(facts["created_at"]),
        updated_at=datetime.fromisoformat(facts["updated_at"]),
        principal=(principal_type, principal_id),
    )


def _change(address: Address, row: asyncpg.Record) -> RuleChange:
    return RuleChange(
        code=row["code"],
        version=row["version"],
        before=_of_facts(address, row["code"], row["before"]),
        after=_of_facts(address, row["code"], row["after"]),
        reason=row["reason"],
        principal=(row["principal_type"], row["principal_id"]),
        changed_at=row["changed_at"],
    )


def _rule(address: Address, row: asyncpg.Record) -> StoredRule:
    rule = StoredRule(
        address=address,
        code=row["code"],
        terms=None if row["terms"] is None else decode_terms(row["terms"]),
        override=None,
        version=row["version"],
        reason=row["reason"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        principal=(row["principal_type"], row["principal_id"]),
    )
    if row["override_terms"] is None:
        return rule
    until = row["override_expires_at"]
    return replace(rule, override=Override(terms=decode_terms(row["override_terms"]), expires_at=until))
