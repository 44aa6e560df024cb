"""Stores API keys for their organization's admins; a change and its audit row are one transaction."""

from dataclasses import dataclass
from uuid import UUID

import asyncpg

from openbell_server.adapters.postgres import audit_log, named_queries
from openbell_server.adapters.postgres.access.organizations import add_api_key
from openbell_server.adapters.postgres.audit_log import Facts, facts_of
from openbell_server.adapters.postgres.connection import Connection, DatabaseClock, PostgresStore, Role, transaction
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.api_keys import ApiKeyRecord, KeyChange, NewApiKey, PresentedKey
from openbell_server.domain.access.caps import CAPS, Cap
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.controls import loosening
from openbell_server.domain.controls.loosening import KeyChanged
from openbell_server.domain.errors import InvalidCommand
from openbell_server.domain.identifiers import OrganizationId

_queries = named_queries.load("api_key_records")
_organizations = named_queries.load("organizations")


@dataclass(frozen=True, slots=True)
class PostgresApiKeyRecords(PostgresStore):
    """Implements ApiKeyRecords."""

    ids: DatabaseClock
    cap: Cap = CAPS["api_keys"]

    async def is_organization_disabled(self, organization_id: OrganizationId) -> bool:
        row = await self._one(_organizations.read_organization, organization_id)
        return row is not None and bool(row["disabled"])

    async def add(self, principal: Principal, presented: PresentedKey, new: NewApiKey) -> ApiKeyRecord:
        organization_id = principal.organization_id
        api_key_id, audit_id = await self.ids.new_ids(2)
        async with transaction(self.pool, Role.TENANT, organization_id) as connection:
            row = await add_record(connection, principal, api_key_id, presented, new, self.cap)
            await audit_change(connection, principal, audit_id, "keys create", None, row)
        return record_of(row)

    async def list_after(
        self, organization_id: OrganizationId, after: int, limit: int
    ) -> list[tuple[int, ApiKeyRecord]]:
        rows = await self._rows(_queries.list_api_key_records, organization_id, after=after, row_limit=limit)
        return [(row["number"], record_of(row)) for row in rows]

    async def find(self, organization_id: OrganizationId, api_key_id: UUID) -> ApiKeyRecord | None:
        row = await self._one(_queries.find_api_key_record, organization_id, api_key_id=api_key_id)
        return record_of(row) if row else None

    async def change(self, principal: Principal, api_key_id: UUID, change: KeyChange) -> ApiKeyRecord | None:
        organization_id = principal.organization_id
        (audit_id,) = await self.ids.new_ids(1)
        async with transaction(self.pool, Role.TENANT, organization_id) as connection:
            before = await _queries.lock_api_key_record(
                connection, organization_id=organization_id, api_key_id=api_key_id
            )
            if before is None:
                return None
            change.check(record_of(before))
            after = await _queries.change_api_key_record(
                connection,
                organization_id=organization_id,
                api_key_id=api_key_id,
                name=change.name,
                disabled=change.disabled,
                own_orders_only=change.own_orders_only,
                revoked=change.revoked,
            )
            loosening.require_permission(principal, KeyChanged(record_of(before), record_of(after)))
            if record_of(after) != record_of(before):
                operation = "keys revoke" if change.revoked else "keys change"
                await audit_change(connection, principal, audit_id, operation, before, after)
        return record_of(after)


async def add_record(
    connection: Connection, principal: Principal, api_key_id: UUID, presented: PresentedKey, new: NewApiKey, cap: Cap
) -> asyncpg.Record:
    """Add a key in the caller's transaction, which audits it; raises Problem if the caller may not."""
    organization_id = principal.organization_id
    await add_api_key(
        connection,
        organization_id,
        api_key_id,
        presented,
        name=new.name,
        environment=new.environment,
        permissions=new.permissions,
        expires_at=new.expires_at,
        own_orders_only=new.own_orders_only,
        account_ids=new.account_ids,
    )
    # The lock that adding takes is held until the end, so that each count includes all earlier keys.
    if await _queries.has_more_keys(connection, organization_id=organization_id, keys_max=cap.limit):
        raise cap.refusal()
    if new.account_ids is not None:
        where = {"organization_id": organization_id, "environment": new.environment}
        rows = _queries.open_accounts_among(connection, **where, account_ids=sorted(new.account_ids))
        if {row["account_id"] async for row in rows} != new.account_ids:
            raise InvalidCommand("account_ids", f"must be open {new.environment} accounts of the organization")
    row: asyncpg.Record = await _queries.lock_api_key_record(
        connection, organization_id=organization_id, api_key_id=api_key_id
    )
    if row["is_expired"]:
        raise InvalidCommand("expires_at", "must be later than now")
    loosening.require_permission(principal, KeyChanged(None, record_of(row)))
    return row


async def audit_change(
    connection: Connection,
    principal: Principal,
    audit_id: UUID,
    operation: str,
    before: asyncpg.Record | None,
    after: asyncpg.Record,
) -> None:
    await audit_log.append(
        connection,
        principal.organization_id,
        audit_id,
        (principal.kind, principal.id),
        operation,
        after["api_key_id"],
        None if before is None else _facts(before),
        _facts(after),
    )


def _facts(row: asyncpg.Record) -> Facts:
    return {name: value for name, value in facts_of(row).items() if name not in {"is_expired", "last_used_at"}}


def record_of(row: asyncpg.Record) -> ApiKeyRecord:
    return ApiKeyRecord(
        id=row["api_key_id"],
        key_id=row["key_id"],
        name=row["name"],
        environment=Environment(row["environment"]),
        permissions=tuple(row["permissions"]),
        own_orders_only=row["own_orders_only"],
        account_ids=None if row["account_ids"] is None else tuple(row["account_ids"]),
        disabled=row["disabled"],
        revoked_at=row["revoked_at"],
        expires_at=row["expires_at"],
        created_at=row["created_at"],
        last_used_at=row["last_used_at"],
    )
