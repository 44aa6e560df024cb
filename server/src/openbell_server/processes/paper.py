"""The paper broker's process: its own ledger, served over HTTP, until told to stop."""

import asyncio

from openbell_server.brokers.paper.faults import parse_faults
from openbell_server.brokers.paper.ledger import Ledger
from openbell_server.brokers.paper.server import CuttableProtocol, PaperApplication
from openbell_server.processes.http_server import serve_http
from openbell_server.settings import Settings

# Bounds memory: each connection has at most one command waiting for its turn.
CONNECTIONS_MAX = 512


async def serve(settings: Settings, stopping: asyncio.Event) -> None:
    """Serve until stopping is set, then end the feeds and finish the commands under way."""
    faults = parse_faults(settings.paper_faults)
    ledger = await Ledger.open(settings.require("paper_database_url"))
    try:
        application = PaperApplication(ledger, faults)
        await serve_http(
            application,
            settings.paper_host,
            settings.paper_port,
            stopping,
            connections_max=CONNECTIONS_MAX,
            http=CuttableProtocol,
            before_stop=application.close,
        )
    finally:
        await ledger.close()
