"""Stores sealed secrets: written with their credential, read only by executors."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import asyncpg

from openbell_server.adapters.postgres import audit_log, named_queries
from openbell_server.adapters.postgres.connection import Connection, DatabaseClock, PostgresStore, Role, transaction
from openbell_server.adapters.postgres.schema import operators_pool
from openbell_server.application.access.ports.vault import Rewrapped, VaultObject
from openbell_server.domain.access.credentials import SealedSecrets, SecretPlace
from openbell_server.domain.identifiers import AccountId, OrganizationId

_queries = named_queries.load("vault_objects")
_BEFORE_ALL = SecretPlace(OrganizationId(UUID(int=0)), AccountId(UUID(int=0)), UUID(int=0), 0)


async def add_vault_object(connection: Connection, place: SecretPlace, sealed: SealedSecrets) -> None:
    """Store the secrets, in the transaction that writes their credential."""
    await _queries.add_vault_object(
        connection,
        **_named(place),
        key_id=sealed.key_id,
        wrapped_key=sealed.wrapped_key,
        sealed=sealed.sealed,
    )


@asynccontextmanager
async def rotating_objects(url: str, operator: str) -> AsyncIterator["PostgresVaultObjects"]:
    """The store for an operator. Raises OperatorError with what to fix if the database cannot be used."""
    not_allowed = (
        "This login may not read the vault: use the executors' login, PREFIX_executor of `openbell-server migrate"
        " --logins PREFIX`."
    )
    then = "and run the command again; it continues where it stopped."
    async with operators_pool(url, 2, not_allowed=not_allowed, then=then) as pool:
        yield PostgresVaultObjects(pool, operator)


@dataclass(frozen=True, slots=True)
class PostgresVaultObjects(PostgresStore):
    """Implements VaultObjects, with the executors' login."""

    # Who rewraps objects, for the audit log.
    operator: str = ""

    async def read(self, place: SecretPlace) -> SealedSecrets | None:
        row = await self._one_across(Role.VAULT, _queries.read_vault_object, **_named(place))
        return SealedSecrets(**row) if row else None

    async def count_across_organizations(self) -> dict[str, int]:
        rows = await self._rows_across(Role.VAULT, _queries.count_vault_objects_across_organizations)
        return {row["key_id"]: row["count"] for row in rows}

    async def list_wrapped_by_others_across_organizations(
        self, key_id: str, after: SecretPlace | None, limit: int
    ) -> list[VaultObject]:
        last = {f"after_{name}": value for name, value in _named(after or _BEFORE_ALL).items()}
        rows = await self._rows_across(
            Role.VAULT,
            _queries.list_wrapped_by_others_across_organizations,
            wrapping_key_id=key_id,
            row_limit=limit,
            **last,
        )
        return [_object(row) for row in rows]

    async def save(self, organization_id: OrganizationId, rewrapped: Sequence[Rewrapped]) -> int:
        places = [each.before.place for each in rewrapped]
        (audit_id,) = await DatabaseClock(self.pool).new_ids(1)
        async with transaction(self.pool, Role.VAULT, organization_id) as connection:
            rows = _queries.rewrap_vault_objects(
                connection,
                organization_id=organization_id,
                account_ids=[place.account_id for place in places],
                credential_ids=[place.credential_id for place in places],
                versions=[place.version for place in places],
                earlier_key_ids=[each.before.sealed.key_id for each in rewrapped],
                wrapping_key_ids=[each.after.key_id for each in rewrapped],
                wrapped_keys=[each.after.wrapped_key for each in rewrapped],
            )
            saved = len([row async for row in rows])
            if saved:
                await self._audit(connection, organization_id, audit_id, rewrapped, saved)
        return saved

    async def _audit(
        self,
        connection: Connection,
        organization_id: OrganizationId,
        audit_id: UUID,
        rewrapped: Sequence[Rewrapped],
        saved: int,
    ) -> None:
        before = {"key_ids": sorted({each.before.sealed.key_id for each in rewrapped})}
        after = {"key_ids": sorted({each.after.key_id for each in rewrapped}), "objects": saved}
        principal = ("OPERATOR", self.operator)
        await audit_log.append(connection, organization_id, audit_id, principal, "vault rotate", "vault", before, after)


def _named(place: SecretPlace) -> dict[str, Any]:
    return {
        "organization_id": place.organization_id,
        "account_id": place.account_id,
        "credential_id": place.credential_id,
        "version": place.version,
    }


def _object(row: asyncpg.Record) -> VaultObject:
    place = SecretPlace(
        OrganizationId(row["organization_id"]), AccountId(row["account_id"]), row["credential_id"], row["version"]
    )
    return VaultObject(place, SealedSecrets(row["key_id"], row["wrapped_key"], row["sealed"]))
