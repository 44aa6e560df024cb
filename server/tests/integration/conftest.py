"""A database of its own for every test, cloned from a template that is migrated once per worker."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from openbell_server.adapters.postgres.connection import Pool, open_pool
from openbell_server.adapters.postgres.migrate import migrate
from openbell_server.processes.local_services import LocalServices

TEMPLATE = "openbell_template"


async def administer(services: LocalServices, statement: str) -> None:
    connection = await asyncpg.connect(services.postgres.url("postgres"), timeout=10)
    try:
        await connection.execute(statement, timeout=30)
    finally:
        await connection.close()


@pytest.fixture(scope="session")
def template(services: LocalServices) -> str:
    asyncio.run(administer(services, f"create database {TEMPLATE}"))
    migrate(services.postgres.url(TEMPLATE))
    return TEMPLATE


@pytest.fixture
async def database(services: LocalServices, template: str) -> str:
    """The URL of a fresh database."""
    await administer(services, "drop database if exists openbell_test with (force)")
    await administer(services, f"create database openbell_test template {template}")
    return services.postgres.url("openbell_test")


@pytest.fixture
async def pool(database: str) -> AsyncIterator[Pool]:
    opened = await open_pool(database)
    yield opened
    await opened.close()
