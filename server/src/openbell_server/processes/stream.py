"""The gRPC process."""

import asyncio
import time

from openbell_server.adapters.jetstream.connection import JetStreamConnection
from openbell_server.adapters.jetstream.event_wakes import EventWakes
from openbell_server.adapters.postgres.connection import open_pool
from openbell_server.adapters.postgres.events import PostgresEventStore
from openbell_server.adapters.postgres.organizations import PostgresOrganizationStore
from openbell_server.adapters.postgres.schema import require_schema
from openbell_server.application.follow_events import FollowEvents
from openbell_server.processes.callers import access_tokens, authentication, wall_clock
from openbell_server.processes.lifecycle import notify_ready
from openbell_server.processes.limits import rate_limits, watch_limits
from openbell_server.processes.metrics import watch_followers
from openbell_server.processes.operations import Operations
from openbell_server.settings import Settings
from openbell_server.transport.stream.server import TradingService, serve_stream


async def serve(settings: Settings, stopping: asyncio.Event, operations: Operations) -> None:
    """Serve the stream until stopping is set."""
    hints = JetStreamConnection(settings.nats_url)
    wakes = EventWakes(hints)
    async with (
        await open_pool(settings.require("database_url"), connections_max=10) as pool,
        access_tokens(settings) as tokens,
        rate_limits(settings) as limit,
    ):
        await require_schema(pool)
        operations.watch_database(pool)
        operations.watch_nats(hints, needed=False)
        watch_limits(operations, limit)
        follow = FollowEvents(
            PostgresOrganizationStore(pool),
            PostgresEventStore(pool),
            wakes,
            settings.require("cursor_secret").encode(),
            time.monotonic,
        )
        service = TradingService(authentication(pool, tokens), limit, follow, wall_clock, stopping)
        watch_followers(operations, lambda: service.followers)
        connecting = asyncio.ensure_future(hints.run())
        try:
            await serve_stream(service, f"{settings.stream_host}:{settings.stream_port}", notify_ready, stopping)
        finally:
            connecting.cancel()
            await asyncio.gather(connecting, return_exceptions=True)
