"""Stores organizations, their API keys and their trading accounts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar
from uuid import UUID

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Connection, PostgresStore, Role
from openbell_server.domain.access.accounts import Environment, TradingAccount
from openbell_server.domain.access.api_keys import ApiKey, PresentedKey
from openbell_server.domain.access.credentials import CredentialStatus
from openbell_server.domain.identifiers import AccountId, OrganizationId, slot_of

_queries = named_queries.load("organizations")


async def add_organization(
    connection: Connection,
    organization_id: OrganizationId,
    *,
    external_id: str,
    provider: str,
    name: str,
    entitlements: Iterable[str] = (),
) -> None:
    """Add an organization, in the caller's transaction."""
    await _queries.create_organization(
        connection,
        organization_id=organization_id,
        external_id=external_id,
        provider=provider,
        name=name,
        entitlements=sorted(entitlements),
    )


async def add_api_key(
    connection: Connection,
    organization_id: OrganizationId,
    api_key_id: UUID,
    presented: PresentedKey,
    *,
    name: str,
    environment: Environment,
    permissions: Iterable[str],
    expires_at: datetime | None = None,
    own_orders_only: bool = False,
    account_ids: Iterable[AccountId] | None = None,
) -> None:
    """Store a key's hash, in the caller's transaction; the key itself is not stored."""
    await _queries.create_api_key(
        connection,
        organization_id=organization_id,
        api_key_id=api_key_id,
        key_id=presented.key_id,
        name=name,
        environment=environment,
        permissions=sorted(permissions),
        secret_hash=presented.secret_hash,
        expires_at=expires_at,
        own_orders_only=own_orders_only,
        account_ids=None if account_ids is None else sorted(account_ids),
    )


async def add_counters(connection: Connection, organization_id: OrganizationId, account_id: AccountId) -> None:
    """Add the row that numbers a new account's actions and events, in the caller's transaction."""
    await _queries.create_counters(
        connection, organization_id=organization_id, account_id=account_id, slot=slot_of(account_id)
    )


@dataclass(frozen=True, slots=True)
class PostgresOrganizationStore(PostgresStore):
    """Implements AccountStore, and reads keys for BatchedKeyLookup."""

    role: ClassVar[Role] = Role.READER

    async def find_keys_across_organizations(self, key_ids: Sequence[str]) -> dict[str, ApiKey]:
        """The keys with these public ids; ids without a key are left out."""
        rows = await self._rows_across(Role.KEYS, _queries.find_keys_across_organizations, key_ids=key_ids)
        return {
            row["key_id"]: ApiKey(
                id=str(row["api_key_id"]),
                key_id=row["key_id"],
                organization_id=row["organization_id"],
                environment=Environment(row["environment"]),
                permissions=frozenset(row["permissions"]),
                own_orders_only=row["own_orders_only"],
                account_ids=None if row["account_ids"] is None else frozenset(row["account_ids"]),
                secret_hash=row["secret_hash"],
                disabled=row["disabled"],
                revoked_at=row["revoked_at"],
                expires_at=row["expires_at"],
                created_at=row["created_at"],
            )
            for row in rows
        }

    async def note_key_uses_across_organizations(self, key_ids: Sequence[str]) -> None:
        await self._one_across(Role.KEYS, _queries.note_key_uses_across_organizations, key_ids=key_ids)

    async def find_account(self, organization_id: OrganizationId, account_id: AccountId) -> TradingAccount | None:
        row = await self._one(_queries.find_account, organization_id, account_id)
        if row is None:
            return None
        types = {
            "environment": Environment(row["environment"]),
            "entitlements": frozenset(row["entitlements"]),
            "credential_status": CredentialStatus(row["credential_status"]),
        }
        return TradingAccount(**{**row, **types})
