"""Deletes sealed secrets that no credential uses any more."""

from collections.abc import Sequence
from uuid import UUID

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Pool, Role, transaction

_queries = named_queries.load("orphaned_secrets")


async def destroy_orphaned_across_organizations(pool: Pool, account_ids: Sequence[UUID]) -> None:
    """Delete the orphaned secrets of these accounts; safe to repeat."""
    async with transaction(pool, Role.RELAY) as connection:
        await _queries.destroy_across_organizations(connection, account_ids=list(account_ids))
