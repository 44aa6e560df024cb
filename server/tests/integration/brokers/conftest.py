"""A database of its own for each paper broker, and a broker that speaks Alpaca."""

from collections.abc import AsyncIterator
from uuid import uuid4

import asyncpg
import pytest

from loopbacks import Loopback, loopback
from openbell_server.devtools.local_services import LocalServices
from support.brokers.paper_broker import ask


@pytest.fixture
async def ledger_url(services: LocalServices) -> str:
    name = f"paper_{uuid4().hex}"
    connection = await asyncpg.connect(services.postgres.url("postgres"), timeout=60)
    try:
        await connection.execute(f"create database {name} strategy file_copy", timeout=60)
    finally:
        await connection.close()
    return services.postgres.url(name)


@pytest.fixture
async def alpaca(ledger_url: str) -> AsyncIterator[Loopback]:
    """Its AAPL costs 100, and an order gets four at a time."""
    async with loopback("alpaca", ledger_url) as running:
        assert (await ask(running.engine, "PUT", "/prices/AAPL", {"price": "100", "size": "4"})).is_success
        yield running
