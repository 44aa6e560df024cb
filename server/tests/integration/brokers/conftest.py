"""A database of its own for each paper broker."""

from uuid import uuid4

import asyncpg
import pytest

from openbell_server.processes.local_services import LocalServices


@pytest.fixture
async def ledger_url(services: LocalServices) -> str:
    name = f"paper_{uuid4().hex}"
    connection = await asyncpg.connect(services.postgres.url("postgres"))
    try:
        await connection.execute(f"create database {name}")
    finally:
        await connection.close()
    return services.postgres.url(name)
