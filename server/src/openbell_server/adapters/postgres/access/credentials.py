"""Stores the credentials of accounts, without their secrets."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import asyncpg

from openbell_server.adapters.postgres import audit_log, named_queries
from openbell_server.adapters.postgres.access import account_changes
from openbell_server.adapters.postgres.access.account_changes import RecordedChange
from openbell_server.adapters.postgres.access.vault_objects import add_vault_object
from openbell_server.adapters.postgres.connection import Connection, DatabaseClock, PostgresStore, Role, transaction
from openbell_server.application.access.ports.credentials import RunningOut, Standing
from openbell_server.domain.access.credentials import (
    CREDENTIAL_EXPIRED,
    CREDENTIAL_EXPIRING,
    Credential,
    CredentialStatus,
    NewCredential,
    SealedSecrets,
    SecretPlace,
)
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.errors import InvalidCommand
from openbell_server.domain.identifiers import AccountId, OrganizationId
from openbell_server.domain.orders.action_lifecycle import Reason

# The principal in the audit log when a credential expires.
_SYSTEM: Final = ("SYSTEM", "expiry")
# Names of changed fields in account events.
_STATUS: Final = ("credential_status",)
_REPLACED: Final = ("credential", *_STATUS)
_queries = named_queries.load("credentials")


@dataclass(frozen=True, slots=True)
class PostgresCredentialStore(PostgresStore):
    """Implements CredentialStore and ExpiryStore."""

    ids: DatabaseClock

    async def read(self, organization_id: OrganizationId, account_id: AccountId) -> Standing:
        async with transaction(self.pool, Role.TENANT, organization_id) as connection:
            return await _read(connection, organization_id, account_id)

    async def save(
        self, principal: Principal, place: SecretPlace, new: NewCredential, sealed: SealedSecrets
    ) -> Credential | None:
        which = {"credential_id": place.credential_id, "version": place.version}
        async with self._changing(place.organization_id, place.account_id, _who(principal)) as change:
            standing = await change.read()
            standing.require_open()
            if standing.versions != place.version - 1:
                return None
            if not await change.run(_queries.save_credential, **which, **asdict(new)):
                raise InvalidCommand("expires_at", "must be later than now")
            await add_vault_object(change.connection, place, sealed)
            await change.run(
                _queries.use_credential_version,
                status=CredentialStatus.UNVERIFIED,
                credential_version=place.version,
            )
            after = (await change.read()).credential
            assert after is not None
            event_type = "credential.updated" if standing.credential else "credential.created"
            await change.record("credentials put", event_type, standing.credential, after, _REPLACED)
        return after

    async def remove(
        self, principal: Principal, account_id: AccountId, check: Callable[[Standing], None], status: CredentialStatus
    ) -> None:
        async with self._changing(principal.organization_id, account_id, _who(principal)) as change:
            standing = await change.read()
            check(standing)
            before = standing.credential
            assert before is not None
            await change.run(_queries.remove_credential)
            await change.run(_queries.use_credential_version, status=status, credential_version=None)
            after = replace(before, status=status)
            await change.record("credentials delete", "credential.deleted", before, after, _REPLACED)

    async def request_verification(self, organization_id: OrganizationId, account_id: AccountId) -> datetime | None:
        asked_at: datetime | None = await self._one(_queries.request_verification, organization_id, account_id)
        return asked_at

    async def running_out_across_organizations(self, limit: int) -> list[RunningOut]:
        rows = await self._rows_across(
            Role.RELAY, _queries.credentials_running_out_across_organizations, row_limit=limit
        )
        return [RunningOut(**row) for row in rows]

    async def record_warning(self, credential: RunningOut) -> bool:
        organization_id, account_id = credential.organization_id, credential.account_id
        async with self._changing(organization_id, account_id, _SYSTEM, Role.DELIVERY) as change:
            found = {"expires_at": credential.expires_at, "due_at": credential.due_at}
            if await change.run(_queries.note_warning, **found) != "UPDATE 1":
                return False
            before = (await change.read()).credential
            assert before is not None
            if not credential.is_expired:
                await account_changes.append_account_changed(
                    change.connection, organization_id, account_id, [], Reason(CREDENTIAL_EXPIRING)
                )
            elif before.status is not CredentialStatus.EXPIRED:
                await change.run(_queries.set_credential_status, status=CredentialStatus.EXPIRED)
                after = replace(before, status=CredentialStatus.EXPIRED)
                reason = Reason(CREDENTIAL_EXPIRED)
                await change.record("credentials expire", "credential.updated", before, after, _STATUS, reason)
        return True

    @asynccontextmanager
    async def _changing(
        self,
        organization_id: OrganizationId,
        account_id: AccountId,
        principal: tuple[str, str],
        role: Role = Role.TENANT,
    ) -> AsyncIterator["_Change"]:
        # Before the transaction: a task that holds a connection must not wait for a second one.
        (audit_id,) = await self.ids.new_ids(1)
        async with transaction(self.pool, role, organization_id) as connection:
            locked = await account_changes.lock_account(connection, organization_id, account_id)
            assert locked, "the organization has no such account: nothing is locked"
            yield _Change(connection, organization_id, account_id, audit_id, principal)


@dataclass(frozen=True, slots=True)
class _Change:
    """One change of a credential, under the account's lock."""

    connection: Connection
    organization_id: OrganizationId
    account_id: AccountId
    audit_id: UUID
    principal: tuple[str, str]

    async def read(self) -> Standing:
        return await _read(self.connection, self.organization_id, self.account_id)

    async def run(self, query: Callable[..., Awaitable[Any]], **values: object) -> Any:  # noqa: ANN401 - the query's result
        return await query(self.connection, organization_id=self.organization_id, account_id=self.account_id, **values)

    async def record(
        self,
        operation: str,
        event_type: str,
        before: Credential | None,
        after: Credential,
        changed: Sequence[str],
        reason: Reason | None = None,
    ) -> None:
        payload = {
            "credential_id": str(after.id),
            "account_id": str(self.account_id),
            "organization_id": str(self.organization_id),
            "version": after.version,
        }
        await account_changes.record(
            self.connection,
            RecordedChange(
                organization_id=self.organization_id,
                account_id=self.account_id,
                principal=self.principal,
                audit_id=self.audit_id,
                operation=operation,
                object_id=after.id,
                before=None if before is None else _facts(before),
                after=_facts(after),
                event_type=event_type,
                payload=payload,
                changed=changed,
                reason=reason,
            ),
        )


def _who(principal: Principal) -> tuple[str, str]:
    return principal.kind, principal.id


async def _read(connection: Connection, organization_id: OrganizationId, account_id: AccountId) -> Standing:
    row = await _queries.read_credential(connection, organization_id=organization_id, account_id=account_id)
    assert row is not None, "the organization has no such account"
    return Standing(
        closed=row["closed_at"] is not None,
        credential=_credential(account_id, row) if row["credential_id"] else None,
        versions=row["credential_versions"],
        answered_at=row["answered_at"],
        refusal_code=row["refusal_code"],
    )


def _credential(account_id: AccountId, row: asyncpg.Record) -> Credential:
    return Credential(
        id=row["credential_id"],
        account_id=account_id,
        broker=row["broker"],
        kind=row["kind"],
        hint=row["hint"],
        status=CredentialStatus(row["status"]),
        verified_at=row["verified_at"],
        expires_at=row["expires_at"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        version=row["version"],
    )


def _facts(credential: Credential) -> audit_log.Facts:
    return {
        "credential_id": str(credential.id),
        "kind": credential.kind,
        "hint": credential.hint,
        "status": credential.status,
        "expires_at": credential.expires_at and credential.expires_at.isoformat(),
        "version": credential.version,
    }
