"""The paper broker's process: its own ledger, served over HTTP, until told to stop."""

import asyncio

from openbell_server.adapters.postgres.connection import UNREACHABLE, plainly
from openbell_server.brokers.paper.exchange import CuttableProtocol
from openbell_server.brokers.paper.faults import parse_faults
from openbell_server.brokers.paper.ledger import Ledger
from openbell_server.brokers.paper.server import PaperApplication
from openbell_server.processes.http_server import serve_http
from openbell_server.processes.lifecycle import notify_ready
from openbell_server.processes.operations import NotReady, Operations
from openbell_server.settings import Settings

# Bounds memory: each connection has at most one command waiting for its turn.
CONNECTIONS_MAX = 512


async def serve(settings: Settings, stopping: asyncio.Event, operations: Operations) -> None:
    """Serve until stopping is set, then end the feeds and finish the commands under way."""
    faults = parse_faults(settings.paper_faults)
    ledger = await Ledger.open(settings.require("paper_database_url"))
    try:
        application = PaperApplication(ledger, faults)
        operations.need("ledger", lambda: _check(ledger))
        await serve_http(
            application,
            settings.paper_host,
            settings.paper_port,
            stopping,
            connections_max=CONNECTIONS_MAX,
            ready=notify_ready,
            http=CuttableProtocol,
            before_stop=application.close,
        )
    finally:
        await ledger.close()


async def _check(ledger: Ledger) -> None:
    try:
        async with ledger.writing():
            pass
    except UNREACHABLE as error:
        raise NotReady(f"the paper broker's database takes no writes: {plainly(error)}") from error
