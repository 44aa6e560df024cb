"""Stores rules of every scope. A change adds a row to the history, starts an epoch and waits for open doors."""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, ClassVar, Final
from uuid import UUID

import asyncpg

from openbell_server.adapters.postgres import audit_log, named_queries
from openbell_server.adapters.postgres.access import account_changes
from openbell_server.adapters.postgres.connection import Connection, DatabaseClock, PostgresStore, Role, transaction
from openbell_server.adapters.postgres.controls.control_events import append_rule_changed
from openbell_server.application.controls.ports.rules import OrganizationStanding, RuleChange, RuleFilter
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.controls import loosening
from openbell_server.domain.controls.findings import Mode, Scope
from openbell_server.domain.controls.loosening import RuleChanged, RuleState
from openbell_server.domain.controls.rules import (
    SWITCH,
    Address,
    ControlChange,
    OnMissing,
    Override,
    RuleTerms,
    StoredRule,
)
from openbell_server.domain.errors import InvalidCommand, Problem
from openbell_server.domain.identifiers import AccountId, OrganizationId, Symbol

# Each attempt waits for the lock timeout (2 s). An executor that hangs loses its open door within ten seconds, so a
# halt must retry for longer than that.
TRIES_MAX: Final = 6
# The permanent and the temporary terms of a rule.
TermsAfter = tuple[RuleTerms | None, Override | None]
_queries = named_queries.load("control_rules")


@dataclass(frozen=True, slots=True)
class PostgresRuleStore(PostgresStore):
    """Implements RuleStore; the platform's rules need an operator's login."""

    async def standing(self, organization_id: OrganizationId) -> OrganizationStanding | None:
        row = await self._one(_queries.organization_standing, organization_id)
        return (
            None if row is None else OrganizationStanding(row["name"], row["disabled"], frozenset(row["entitlements"]))
        )

    async def find_rule(self, address: Address, code: str) -> StoredRule | None:
        async with transaction(self.pool, self._role(address.scope), address.organization_id) as connection:
            return _unless_removed(await find_with_removed(connection, address, code))

    async def list_rules(self, wanted: RuleFilter, after: int, limit: int) -> list[tuple[int, StoredRule]]:
        async with transaction(self.pool, self._role(wanted.scope), wanted.organization_id) as connection:
            rows = _queries.list_rules(
                connection,
                organization_id=wanted.organization_id,
                scope=wanted.scope,
                account_id=wanted.account_id,
                of_whom=wanted.subject,
                **visible_to(wanted),
                switches=wanted.switches,
                after_number=after,
                row_limit=limit,
            )
            return [(row["number"], _rule(address_of(wanted.organization_id, row), row)) async for row in rows]

    async def save_rule(
        self,
        address: Address,
        code: str,
        change: RuleTerms | Override | None,
        reason: str | None,
        principal: Principal,
        expected: Collection[int] | None,
    ) -> StoredRule | None:
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
        # Before the transaction, because a task that holds a connection must not wait for another one.
        (audit_id,) = await DatabaseClock(self.pool).new_ids(1)

        def decide(before: StoredRule | None) -> TermsAfter:
            _require_version(before, expected)
            if change is None and before is None:
                raise Problem("not_found", f"no rule {code} is set here")
            wanted = _wanted(before, change)
            loosening.require_permission(principal, _step(code, before, wanted, principal))
            return wanted

        async with transaction(self.pool, self._role(address.scope), address.organization_id) as connection:
            after = await change_rule(connection, audit_id, address, code, decide, reason, principal)
        return _unless_removed(after)

    async def list_changes(self, wanted: RuleFilter, before: int | None, limit: int) -> list[tuple[int, RuleChange]]:
        async with transaction(self.pool, self._role(wanted.scope), wanted.organization_id) as connection:
            rows = _queries.list_changes(
                connection,
                organization_id=wanted.organization_id,
                scope=wanted.scope,
                account_id=wanted.account_id,
                of_whom=wanted.subject,
                **visible_to(wanted),
                code=wanted.code,
                before_no=before,
                row_limit=limit,
            )
            return [(row["change_no"], _change(address_of(wanted.organization_id, row), row)) async for row in rows]

    def _role(self, scope: Scope | None) -> Role:
        return Role.OPERATOR if scope is Scope.PLATFORM else self.role


class OperatorRuleStore(PostgresRuleStore):
    """For operators, who change rules of every scope."""

    __slots__ = ()
    role: ClassVar[Role] = Role.OPERATOR


async def change_rule(
    connection: Connection,
    audit_id: UUID,
    address: Address,
    code: str,
    decide: Callable[[StoredRule | None], TermsAfter | None],
    reason: str | None,
    principal: Principal,
) -> StoredRule | None:
    """Change a rule in the caller's transaction, with its history, its event and the entry of the audit log.

    `decide` receives the rule under the lock of its scope and returns its terms after the change. None: no change, and
    the result is None. When the transaction commits, no command evaluated by the old rules can still be sent.
    """
    await _begin(connection, address)
    before = _unless_removed(await find_with_removed(connection, address, code))
    wanted = decide(before)
    if wanted is None:
        return None
    if code == SWITCH and address.account_id is not None:
        await account_changes.wait_for_openings(connection, address.organization_id)
    after = await _save(connection, address, code, wanted, reason, principal)
    if address.account_id is not None:
        change_made = _change_made(before, _unless_removed(after))
        await append_rule_changed(connection, address.organization_id, address.account_id, after, change_made)
    else:
        # Late, so that doors wait little.
        in_force_at = await _queries.put_in_force(connection, **place_of(address), code=code)
        after = replace(after, updated_at=in_force_at)
    # With the time from which it is in force.
    await _add_change(connection, before, after)
    # After the doors: an open one may wait to append to this log.
    await audit_rule(connection, audit_id, before, after)
    return after


def encode_terms(terms: RuleTerms) -> str:
    return json.dumps({"mode": terms.mode, "on_missing": terms.on_missing, "parameters": dict(terms.parameters)})


def decode_terms(text: str) -> RuleTerms:
    return _terms(json.loads(text))


def _terms(stored: Mapping[str, Any]) -> RuleTerms:
    return RuleTerms(
        mode=Mode(stored["mode"]),
        on_missing=stored["on_missing"] and OnMissing(stored["on_missing"]),
        parameters=stored["parameters"],
    )


def visible_to(wanted: RuleFilter) -> dict[str, Any]:
    return {"environment": wanted.environment, "account_ids": wanted.account_ids, "own_key": wanted.own_key}


def place_of(address: Address) -> dict[str, Any]:
    return {"organization_id": address.organization_id, "scope": address.scope, "of_whom": address.subject}


async def _begin(connection: Connection, address: Address) -> None:
    """Wait for other changes of rules at this scope, then start new epochs, so commands are evaluated again."""
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


async def find_with_removed(connection: Connection, address: Address, code: str) -> StoredRule | None:
    """The rule, also if it was removed, read in the caller's transaction."""
    row = await _queries.find_rule(connection, **place_of(address), code=code)
    return None if row is None else _rule(address, row)


def _unless_removed(rule: StoredRule | None) -> StoredRule | None:
    return None if rule is None or (rule.terms is None and rule.override is None) else rule


def _require_version(before: StoredRule | None, expected: Collection[int] | None) -> None:
    """A missing rule has version 0; stored versions begin at 1."""
    version = before.version if before else 0
    if expected is not None and version not in expected:
        raise Problem("version_mismatch", f"the rule is at version {version}" if version else "the rule is not set")


def _wanted(before: StoredRule | None, change: RuleTerms | Override | None) -> TermsAfter:
    if isinstance(change, Override):
        return None if before is None else before.terms, change
    return change, None


def _step(code: str, before: StoredRule | None, wanted: TermsAfter, principal: Principal) -> RuleChanged:
    return RuleChanged(
        code=code,
        before=RuleState() if before is None else RuleState(before.terms, before.override),
        after=RuleState(*wanted),
        # A key's environment is the account's.
        environment=principal.environment or Environment.LIVE,
    )


async def set_first_rules(
    connection: Connection, address: Address, rules: Mapping[str, RuleTerms], reason: str, principal: Principal
) -> list[StoredRule]:
    """Set rules of a key that is added in the same transaction, which audits them. No door is open for it."""
    await _begin(connection, address)
    saved = [await _save(connection, address, code, (terms, None), reason, principal) for code, terms in rules.items()]
    for rule in saved:
        await _add_change(connection, None, rule)
    return saved


async def _save(
    connection: Connection,
    address: Address,
    code: str,
    wanted: TermsAfter,
    reason: str | None,
    principal: Principal,
) -> StoredRule:
    terms, override = wanted
    row = await _queries.save_rule(
        connection,
        **place_of(address),
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


async def _add_change(connection: Connection, before: StoredRule | None, after: StoredRule) -> None:
    """Add to the rule's history."""
    await _queries.add_change(
        connection,
        **place_of(after.address),
        code=after.code,
        version=after.version,
        rule_before=None if before is None else json.dumps(_facts(before)),
        rule_after=None if _unless_removed(after) is None else json.dumps(_facts(after)),
        reason=after.reason,
        principal_type=after.principal[0],
        principal_id=after.principal[1],
        changed_at=after.updated_at,
    )


async def audit_rule(connection: Connection, audit_id: UUID, before: StoredRule | None, after: StoredRule) -> None:
    address = after.address
    operation = "controls rule remove" if _unless_removed(after) is None else "controls rule"
    subject = " ".join(part for part in (address.scope, address.subject, after.code) if part)
    await audit_log.append(
        connection,
        address.organization_id,
        audit_id,
        after.principal,
        operation,
        subject,
        None if before is None else _facts(before),
        _facts(after),
    )


def _facts(rule: StoredRule) -> audit_log.Facts:
    """The rule as JSON values; _of_facts is the inverse."""
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
        address=address,
        code=row["code"],
        version=row["version"],
        before=_of_facts(address, row["code"], row["before"]),
        after=_of_facts(address, row["code"], row["after"]),
        reason=row["reason"],
        principal=(row["principal_type"], row["principal_id"]),
        changed_at=row["changed_at"],
    )


def address_of(organization_id: OrganizationId, row: asyncpg.Record) -> Address:
    scope, subject = Scope(row["scope"]), row["subject"]
    return Address(
        organization_id=organization_id,
        scope=scope,
        account_id=None if row["of_account"] is None else AccountId(row["of_account"]),
        symbol=Symbol(subject.partition(" ")[2]) if scope is Scope.SYMBOL else None,
        api_key_id=subject if scope is Scope.KEY else None,
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
    terms, until = row["override_terms"], row["override_expires_at"]
    return rule if terms is None else replace(rule, override=Override(terms=decode_terms(terms), expires_at=until))
