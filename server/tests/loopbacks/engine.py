"""The paper broker that stands behind every loopback."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from openbell_server.settings import Settings
from support.brokers.paper_broker import serving, settings_of


@asynccontextmanager
async def engine(ledger_url: str, faults: str = "") -> AsyncIterator[Settings]:
    """The engine in this loop, with its books in that database and a plan of faults for all accounts."""
    settings = settings_of(ledger_url, faults)
    async with serving(settings):
        yield settings
