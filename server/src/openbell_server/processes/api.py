"""The REST process."""

import asyncio
import time
from datetime import UTC, datetime

from litestar.types import ASGIApp

from openbell_server.adapters.jetstream.connection import JetStreamConnection
from openbell_server.adapters.postgres.connection import (
    DOUBTFUL,
    UNAVAILABLE,
    DatabaseClock,
    Pool,
    check_writing,
    open_pool,
)
from openbell_server.adapters.postgres.intents import PostgresIntentStore
from openbell_server.adapters.postgres.organizations import PostgresOrganizationStore
from openbell_server.adapters.postgres.schema import require_schema
from openbell_server.application.authenticate import Authenticate
from openbell_server.application.ports.hints import Hints
from openbell_server.application.read_intents import ReadIntents
from openbell_server.application.submit_intent import SubmitIntent
from openbell_server.brokers.registry import BROKERS
from openbell_server.processes.http_server import serve_http
from openbell_server.settings import Settings
from openbell_server.transport.rest.app import build_app
from openbell_server.transport.rest.intents import IntentUseCases

CONNECTIONS_MAX = 2048


def rest_app(pool: Pool, hints: Hints, cursor_key: bytes) -> ASGIApp:
    """The REST application on a database."""
    organizations, intents = PostgresOrganizationStore(pool), PostgresIntentStore(pool)
    use_cases = IntentUseCases(
        authenticate=Authenticate(organizations, time.monotonic, lambda: datetime.now(UTC)),
        submit=SubmitIntent(organizations, intents, DatabaseClock(pool), BROKERS, hints, DOUBTFUL, UNAVAILABLE),
        read=ReadIntents(organizations, intents, cursor_key),
    )
    return build_app(use_cases, lambda: check_writing(pool), UNAVAILABLE)


async def serve(settings: Settings, stopping: asyncio.Event) -> None:
    """Serve REST until stopping is set."""
    async with await open_pool(settings.require("database_url"), connections_max=16) as pool:
        await require_schema(pool)
        hints = JetStreamConnection(settings.nats_url)
        connecting = asyncio.ensure_future(hints.run())
        app = rest_app(pool, hints, settings.require("cursor_secret").encode())
        try:
            await serve_http(app, settings.api_host, settings.api_port, stopping, connections_max=CONNECTIONS_MAX)
        finally:
            connecting.cancel()
            await asyncio.gather(connecting, return_exceptions=True)
