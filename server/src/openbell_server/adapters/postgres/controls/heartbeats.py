"""Stores promised heartbeats. Who notices a missed one sets the switch of its scope, in the same transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final
from uuid import UUID

import asyncpg

from openbell_server.adapters.postgres import audit_log, named_queries
from openbell_server.adapters.postgres.audit_log import Facts
from openbell_server.adapters.postgres.connection import Connection, DatabaseClock, PostgresStore, Role, transaction
from openbell_server.adapters.postgres.controls.control_events import switch_state
from openbell_server.adapters.postgres.controls.control_rules import (
    TermsAfter,
    address_of,
    change_rule,
    find_with_removed,
    place_of,
    visible_to,
)
from openbell_server.application.controls.ports.rules import RuleFilter
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.controls import loosening
from openbell_server.domain.controls.heartbeats import (
    Heartbeat,
    HeartbeatStatus,
    HeartbeatTerms,
    halt_reason,
    halting_terms,
    is_own,
    missed,
    system_principal,
)
from openbell_server.domain.controls.loosening import HeartbeatChanged
from openbell_server.domain.controls.rules import SWITCH, Address, StoredRule, SwitchState
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import OrganizationId

MISSED_AT_ONCE_MAX: Final = 100
# Entries of the audit log: of the promise, and of the switch if it was missed.
_AUDIT_IDS: Final = 2
_queries = named_queries.load("heartbeats")


@dataclass(frozen=True, slots=True)
class PostgresHeartbeatStore(PostgresStore):
    """Implements HeartbeatStore and MissedHeartbeatStore for the api.

    Every transaction takes its locks in this order: the promise, the account or organization, the audit log.
    """

    # Finds missed heartbeats of every organization.
    finder: ClassVar[Role] = Role.HEALTH

    async def beat(self, address: Address, terms: HeartbeatTerms, principal: Principal) -> Heartbeat:
        place, own = place_of(address), is_own(address, principal)
        wanted: dict[str, Any] = {"timeout_seconds": terms.timeout_seconds, "cancel_working": terms.cancel_working}
        # Nearly every call ends here, so it is one statement.
        async with transaction(self.pool, self.role, address.organization_id) as connection:
            row = await _queries.renew_heartbeat(connection, **place, **wanted, is_own=own)
        if row is not None:
            return _heartbeat(address, row)
        # Before the transaction, because a task that holds a connection must not wait for another one.
        ids = await DatabaseClock(self.pool).new_ids(_AUDIT_IDS)
        async with transaction(self.pool, self.role, address.organization_id) as connection:
            was, late = await _lock(connection, address, ids)
            if late is None:
                setter = {"principal_type": principal.kind, "principal_id": principal.id}
                if was is None:
                    row = await _queries.add_heartbeat(
                        connection, **place, **wanted, **setter, account_id=address.account_id, required=not own
                    )
                else:
                    if was.required:
                        loosening.require_permission(principal, HeartbeatChanged(was.terms, terms))
                    required = was.required or not own
                    row = await _queries.arm_heartbeat(connection, **place, **wanted, **setter, required=required)
                if row is None:
                    raise Problem("concurrent_change", "another caller armed the promise at the same time")
                await _audit(connection, ids[0], principal, "heartbeats arm", was, _heartbeat(address, row))
        if late is not None:
            # After the commit: the scope is halted.
            raise missed(late)
        return _heartbeat(address, row)

    async def disarm(self, address: Address, principal: Principal) -> bool:
        ids = await DatabaseClock(self.pool).new_ids(_AUDIT_IDS)
        async with transaction(self.pool, self.role, address.organization_id) as connection:
            was, late = await _lock(connection, address, ids)
            if was is not None and late is None:
                if was.required:
                    loosening.require_permission(principal, HeartbeatChanged(was.terms, None))
                await _queries.remove_heartbeat(connection, **place_of(address))
                await _audit(connection, ids[0], principal, "heartbeats disarm", was, None)
        if late is not None:
            raise missed(late)
        return was is not None

    async def list_heartbeats(self, wanted: RuleFilter, after: int, limit: int) -> list[tuple[int, Heartbeat]]:
        async with transaction(self.pool, self.role, wanted.organization_id) as connection:
            rows = _queries.list_heartbeats(
                connection,
                organization_id=wanted.organization_id,
                scope=wanted.scope,
                account_id=wanted.account_id,
                of_whom=wanted.subject,
                **visible_to(wanted),
                after_number=after,
                row_limit=limit,
            )
            return [(row["number"], _heartbeat(address_of(wanted.organization_id, row), row)) async for row in rows]

    async def missed_across_organizations(self) -> list[Address]:
        rows = await self._rows_across(
            self.finder, _queries.heartbeats_missed_across_organizations, row_limit=MISSED_AT_ONCE_MAX
        )
        return [address_of(OrganizationId(row["organization_id"]), row) for row in rows]

    async def expire(self, address: Address) -> bool:
        ids = await DatabaseClock(self.pool).new_ids(_AUDIT_IDS)
        async with transaction(self.pool, self.role, address.organization_id) as connection:
            row = await _queries.lock_missed_heartbeat(connection, **place_of(address))
            if row is None:
                return False
            await _expire(connection, _heartbeat(address, row), ids)
        return True


class ExecutorHeartbeatStore(PostgresHeartbeatStore):
    """Implements MissedHeartbeatStore for executors."""

    __slots__ = ()
    role: ClassVar[Role] = Role.EXECUTION
    finder: ClassVar[Role] = Role.EXECUTOR


async def _lock(
    connection: Connection, address: Address, ids: Sequence[UUID]
) -> tuple[Heartbeat | None, Heartbeat | None]:
    """Lock the promise; also return it expired if it was missed and its scope is still halted.

    If it is late, this halts the scope, however late the next sweep is.
    """
    row = await _queries.lock_heartbeat(connection, **place_of(address))
    if row is None:
        return None, None
    was = _heartbeat(address, row)
    if row["is_late"]:
        return was, await _expire(connection, was, ids)
    if was.status is HeartbeatStatus.EXPIRED:
        switch = await find_with_removed(connection, address, SWITCH)
        return was, was if switch is not None and switch_state(switch) is SwitchState.HALTED else None
    return was, None


async def _expire(connection: Connection, was: Heartbeat, ids: Sequence[UUID]) -> Heartbeat:
    """Halt the scope of a locked promise and mark the promise as missed."""
    address, principal = was.address, system_principal(was.address.organization_id)

    def decide(before: StoredRule | None) -> TermsAfter | None:
        terms = halting_terms(before, cancel_working=was.terms.cancel_working)
        return None if terms is None else (terms, None)

    await change_rule(connection, ids[1], address, SWITCH, decide, halt_reason(was), principal)
    after = _heartbeat(address, await _queries.expire_heartbeat(connection, **place_of(address)))
    await _audit(connection, ids[0], principal, "heartbeats expire", was, after)
    return after


async def _audit(
    connection: Connection,
    audit_id: UUID,
    principal: Principal,
    operation: str,
    before: Heartbeat | None,
    after: Heartbeat | None,
) -> None:
    known = after or before
    assert known is not None
    await audit_log.append(
        connection,
        known.address.organization_id,
        audit_id,
        (principal.kind, principal.id),
        operation,
        f"{known.address.scope} {known.address.subject}",
        None if before is None else _facts(before),
        {"status": "DISARMED"} if after is None else _facts(after),
    )


def _facts(heartbeat: Heartbeat) -> Facts:
    return {
        "status": heartbeat.status,
        "timeout_seconds": heartbeat.terms.timeout_seconds,
        "cancel_working": heartbeat.terms.cancel_working,
        "required": heartbeat.required,
        "last_beat_at": heartbeat.last_beat_at.isoformat(),
        "expires_at": heartbeat.expires_at.isoformat(),
    }


def _heartbeat(address: Address, row: asyncpg.Record) -> Heartbeat:
    return Heartbeat(
        address=address,
        terms=HeartbeatTerms(timeout_seconds=row["timeout_seconds"], cancel_working=row["cancel_working"]),
        required=row["required"],
        status=HeartbeatStatus(row["status"]),
        armed_at=row["armed_at"],
        last_beat_at=row["last_beat_at"],
        expires_at=row["expires_at"],
        principal=(row["principal_type"], row["principal_id"]),
    )
