"""A console with its own login, before a REST server and a scripted provider."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.devtools.local_services import LocalServices
from openbell_server.devtools.stack import LOGINS
from support.builders.tenant import Tenant, a_tenant
from support.console.served_console import ServedConsole, served_console
from support.environment.logins import allow_every_login


@pytest.fixture
async def tenant(pool: Pool) -> Tenant:
    return await a_tenant(pool)


@pytest.fixture
async def login_url(services: LocalServices, database: str) -> str:
    """The database for the console's login."""
    await asyncio.to_thread(allow_every_login, database)
    return services.postgres.url("openbell_test", f"{LOGINS}_console")


@pytest.fixture
async def console(pool: Pool, login_url: str, tenant: Tenant) -> AsyncIterator[ServedConsole]:
    async with served_console(pool, login_url, tenant) as running:
        yield running
