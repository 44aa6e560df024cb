"""What a process shows on its port for operators."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from openbell_server.processes.operations_port import Operations


@asynccontextmanager
async def looking_at(operations: Operations) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(operations)
    async with httpx.AsyncClient(transport=transport, base_url="http://operations.test", timeout=60) as client:
        yield client


async def metrics_of(operations: Operations) -> dict[str, float]:
    """Every sample by its name with its labels."""
    async with looking_at(operations) as client:
        text = (await client.get("/metrics")).raise_for_status().text
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}
