"""Stores accounts; a change, its audit row and its events are one transaction."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

import asyncpg

from openbell_server.adapters.postgres import audit_log, named_queries
from openbell_server.adapters.postgres.access import account_changes
from openbell_server.adapters.postgres.access.account_changes import RecordedChange
from openbell_server.adapters.postgres.access.organizations import add_counters
from openbell_server.adapters.postgres.audit_log import Facts
from openbell_server.adapters.postgres.connection import Connection, DatabaseClock, PostgresStore, Role, transaction
from openbell_server.domain.access.accounts import (
    AccountChange,
    AccountRecord,
    Environment,
    NewAccount,
    changed,
    require_version,
    session_status,
)
from openbell_server.domain.access.caps import CAPS, Cap
from openbell_server.domain.access.credentials import CredentialStatus
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.controls import loosening
from openbell_server.domain.controls.loosening import AccountChanged, AccountOpened
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import AccountId, OrganizationId, slot_of

# Left out of the list of changed fields: ids, fields that every change sets, and derived fields.
_NOT_LISTED: Final = frozenset({"id", "account_id", "organization_id", "session_status", "updated_at", "version"})
# Left out of the audit log: derived fields, and halts, which are audited separately.
_NOT_AUDITED: Final = frozenset({"session_status", "halt_code", "halt_detail", "halted_at"})
_queries = named_queries.load("accounts")
_organizations = named_queries.load("organizations")


async def open_account(
    connection: Connection,
    organization_id: OrganizationId,
    account_id: AccountId,
    new: NewAccount,
    credential_status: CredentialStatus = CredentialStatus.NOT_REQUIRED,
) -> None:
    """Add an account with its counters, in the caller's transaction."""
    await _queries.open_account(
        connection,
        organization_id=organization_id,
        account_id=account_id,
        slot=slot_of(account_id),
        credential_status=credential_status,
        **asdict(new),
    )
    await add_counters(connection, organization_id, account_id)


def changed_fields(before: Facts | None, after: Facts) -> list[str]:
    """Names of the fields that differ from before; for a new object, of all that are set."""
    return [name for name, value in after.items() if name not in _NOT_LISTED and (before or {}).get(name) != value]


def account_event_payload(organization_id: UUID, account_id: UUID, version: int, changed: Sequence[str]) -> Facts:
    """The payload of an account event in the accounts' queue; a receiver reads the account again."""
    return {
        "account_id": str(account_id),
        "organization_id": str(organization_id),
        "version": version,
        "changed": changed,
    }


@dataclass(frozen=True, slots=True)
class PostgresAccountRecords(PostgresStore):
    """Implements AccountRecords."""

    ids: DatabaseClock
    cap: Cap = CAPS["accounts"]

    async def is_organization_disabled(self, organization_id: OrganizationId) -> bool | None:
        row = await self._one(_organizations.read_organization, organization_id)
        return None if row is None else bool(row["disabled"])

    async def add(self, principal: Principal, new: NewAccount, credential_status: CredentialStatus) -> AccountRecord:
        organization_id = principal.organization_id
        account_id, audit_id = await self.ids.new_ids(2)
        async with transaction(self.pool, Role.TENANT, organization_id) as connection:
            await _queries.take_turn_to_open(connection, whose=organization_id)
            stopped = await _queries.has_stopped_account(
                connection, organization_id=organization_id, environment=new.environment
            )
            loosening.require_permission(principal, AccountOpened(others_are_stopped=bool(stopped)))
            await open_account(connection, organization_id, AccountId(account_id), new, credential_status)
            # The lock that opening takes is held until the end, so that each count includes all earlier accounts.
            more = {"organization_id": organization_id, "accounts_max": self.cap.limit}
            if await _queries.has_more_accounts(connection, **more):
                raise self.cap.refusal()
            after = await _read(connection, organization_id, AccountId(account_id))
            change = _change(principal, audit_id, "accounts create", "account.created", None, after)
            await account_changes.queue_and_audit(connection, change)
        return after

    async def list_after(
        self,
        organization_id: OrganizationId,
        environment: Environment | None,
        account_ids: Collection[AccountId] | None,
        after: int,
        limit: int,
    ) -> list[tuple[int, AccountRecord]]:
        rows = await self._rows(
            _queries.list_account_records,
            organization_id,
            environment=environment,
            account_ids=account_ids,
            after=after,
            row_limit=limit,
        )
        return [(row["number"], _record(row)) for row in rows]

    async def find(self, organization_id: OrganizationId, account_id: AccountId) -> AccountRecord | None:
        row = await self._one(_queries.find_account_record, organization_id, account_id)
        return _record(row) if row else None

    async def change(
        self, principal: Principal, account_id: AccountId, change: AccountChange, expected: Collection[int] | None
    ) -> AccountRecord:
        organization_id = principal.organization_id
        (audit_id,) = await self.ids.new_ids(1)
        async with transaction(self.pool, Role.TENANT, organization_id) as connection:
            await account_changes.lock_account(connection, organization_id, account_id)
            before = await _read(connection, organization_id, account_id)
            wanted = changed(before, change)
            require_version(before.version, expected)
            if wanted == before:
                return before
            loosening.require_permission(principal, AccountChanged(before, wanted))
            if wanted.disabled:
                await account_changes.wait_for_openings(connection, organization_id)
            after = await _save(connection, wanted, closed=False)
            recorded = _change(principal, audit_id, "accounts change", "account.updated", before, after)
            await account_changes.record(connection, recorded)
        return after

    async def note(
        self,
        principal: Principal,
        account_id: AccountId,
        operation: str,
        before: Mapping[str, object],
        after: Mapping[str, object],
    ) -> None:
        organization_id = principal.organization_id
        (audit_id,) = await self.ids.new_ids(1)
        async with transaction(self.pool, Role.TENANT, organization_id) as connection:
            who = (principal.kind, principal.id)
            await audit_log.append(connection, organization_id, audit_id, who, operation, account_id, before, after)

    async def close(self, principal: Principal, account_id: AccountId, expected: Collection[int] | None) -> bool:
        organization_id = principal.organization_id
        (audit_id,) = await self.ids.new_ids(1)
        async with transaction(self.pool, Role.TENANT, organization_id) as connection:
            await account_changes.lock_account(connection, organization_id, account_id)
            before = await _read(connection, organization_id, account_id)
            if before.closed_at is not None:
                return False
            require_version(before.version, expected)
            if await _queries.is_busy(connection, organization_id=organization_id, account_id=account_id):
                raise Problem(
                    "account_busy", "an order of the account is working, or one of its actions is not settled"
                )
            after = await _save(connection, before, closed=True)
            recorded = _change(principal, audit_id, "accounts close", "account.deleted", before, after)
            await account_changes.record(connection, recorded)
        return True


async def _read(connection: Connection, organization_id: OrganizationId, account_id: AccountId) -> AccountRecord:
    row = await _queries.find_account_record(connection, organization_id=organization_id, account_id=account_id)
    assert row is not None, "accounts are never removed"
    return _record(row)


async def _save(connection: Connection, account: AccountRecord, *, closed: bool) -> AccountRecord:
    await _queries.save_account(
        connection,
        organization_id=account.organization_id,
        account_id=account.id,
        name=account.name,
        external_account_id=account.external_account_id,
        timezone=account.timezone,
        disabled=account.disabled,
        disabled_reason=account.disabled_reason,
        closed=closed,
    )
    return await _read(connection, account.organization_id, account.id)


def _change(
    principal: Principal,
    audit_id: UUID,
    operation: str,
    event_type: str,
    before: AccountRecord | None,
    after: AccountRecord,
) -> RecordedChange:
    facts_before, facts_after = None if before is None else _facts(before), _facts(after)
    changed = changed_fields(facts_before, facts_after)
    return RecordedChange(
        organization_id=after.organization_id,
        account_id=after.id,
        principal=(principal.kind, principal.id),
        audit_id=audit_id,
        operation=operation,
        object_id=after.id,
        before=facts_before,
        after=facts_after,
        event_type=event_type,
        payload=account_event_payload(after.organization_id, after.id, after.version, changed),
        changed=changed,
    )


def _facts(account: AccountRecord) -> Facts:
    return {
        name: value.isoformat() if isinstance(value, datetime) else str(value) if isinstance(value, UUID) else value
        for name, value in asdict(account).items()
        if name not in _NOT_AUDITED
    }


def _record(row: asyncpg.Record) -> AccountRecord:
    status = CredentialStatus(row["credential_status"])
    return AccountRecord(
        id=row["account_id"],
        organization_id=row["organization_id"],
        name=row["name"],
        broker=row["broker"],
        environment=Environment(row["environment"]),
        external_account_id=row["external_account_id"],
        base_currency=row["base_currency"],
        timezone=row["timezone"],
        disabled=row["disabled"],
        disabled_reason=row["disabled_reason"],
        credential_status=status,
        session_status=session_status(
            closed=row["closed_at"] is not None,
            credential_status=status,
            has_executor=row["has_executor"],
            is_connected=row["is_feed_connected"],
            is_held_back=row["is_held_back"],
            is_compared=row["is_compared"],
            is_signing_in=row["is_signing_in"],
            is_halted=row["halt_code"] is not None,
        ),
        closed_at=row["closed_at"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        version=row["version"],
        halt_code=row["halt_code"],
        halt_detail=row["halt_detail"],
        halted_at=row["halted_at"],
    )
