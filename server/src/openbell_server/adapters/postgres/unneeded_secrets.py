"""Destroys sealed secrets that no credential needs any more."""

from collections.abc import Sequence
from uuid import UUID

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Pool, Role, transaction

_queries = named_queries.load("unneeded_secrets")


async def destroy_unneeded_across_organizations(pool: Pool, account_ids: Sequence[UUID]) -> None:
    """Of these accounts; doing it again does nothing."""
    async with transaction(pool, Role.RELAY) as connection:
        await _queries.destroy_across_organizations(connection, account_ids=list(account_ids))
