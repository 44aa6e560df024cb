"""Every named statement is one that the migrated schema can run."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from openbell_server.adapters import postgres
from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Pool

FILES = sorted(path.stem for path in Path(postgres.__path__[0]).glob("*.sql"))

# What belongs to the platform and to no tenant.
PLATFORM = {"connection", "leases", "recovery", "schema"}


def statements(name: str) -> Iterator[tuple[str, Any]]:
    loaded = named_queries.load(name)
    return ((query, getattr(loaded, query)) for query in loaded.available_queries if not query.endswith("_cursor"))


def test_every_store_s_statements_are_found() -> None:
    assert {"connection", "execution", "intents", "organizations", "outbox"} <= set(FILES)
    assert all(list(statements(name)) for name in FILES)


@pytest.mark.parametrize("name", FILES)
async def test_the_database_can_prepare_every_statement(pool: Pool, name: str) -> None:
    broken = []
    async with pool.acquire() as connection:
        for query, statement in statements(name):
            try:
                await connection.prepare(statement.sql)
            except asyncpg.PostgresError as error:
                broken.append(f"{query}: {error}")
    assert broken == []


@pytest.mark.parametrize("name", [name for name in FILES if name not in PLATFORM])
def test_a_statement_that_crosses_organizations_says_so_and_every_other_names_one(name: str) -> None:
    silent = [
        query
        for query, statement in statements(name)
        if "organization_id" not in statement.sql.partition("where")[2] + statement.sql.partition("insert")[2]
        and not query.endswith("_across_organizations")
        and query != "accept_commands"
    ]
    assert silent == []
