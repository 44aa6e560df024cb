"""Runs the gRPC stream server."""

import asyncio
import time
from uuid import uuid4

from openbell_server.adapters.jetstream.connection import JetStreamConnection
from openbell_server.adapters.jetstream.event_wakes import EventWakes
from openbell_server.adapters.postgres.access.organizations import PostgresOrganizationStore
from openbell_server.adapters.postgres.connection import open_pool
from openbell_server.adapters.postgres.events.events import PostgresEventStore
from openbell_server.adapters.postgres.events.stream_counts import PostgresStreamCounts
from openbell_server.adapters.postgres.schema import require_schema
from openbell_server.application.access.rate_limits import LimitRates
from openbell_server.application.events.event_tail_cache import EventTailCache
from openbell_server.application.events.follow_events import FollowEvents
from openbell_server.application.events.recheck_access import RecheckAccess
from openbell_server.application.events.stream_places import StreamPlaces
from openbell_server.processes.authentication import access_tokens, authentication, wall_clock
from openbell_server.processes.metrics import watch_followers
from openbell_server.processes.operations_port import Operations
from openbell_server.processes.rate_limits import with_rate_limits
from openbell_server.settings import Settings
from openbell_server.transport.stream.event_messages import encode_event
from openbell_server.transport.stream.health import Health
from openbell_server.transport.stream.server import TradingService, serve_stream


async def serve_followers(
    limit: LimitRates,
    settings: Settings,
    stopping: asyncio.Event,
    operations: Operations,
    hints: JetStreamConnection,
) -> None:
    cursor_key = settings.cursor_key()
    async with (
        await open_pool(settings.require("database_url"), connections_max=10) as pool,
        access_tokens(settings) as tokens,
    ):
        await require_schema(pool)
        operations.watch_database(pool)
        operations.watch_nats(hints, needed=False)
        events = PostgresEventStore(pool)
        follow = FollowEvents(
            RecheckAccess(PostgresOrganizationStore(pool), events),
            EventTailCache(events, EventWakes(hints), encode_event),
            cursor_key,
            time.monotonic,
            settings.caps["events_per_second"],
        )
        places = StreamPlaces(PostgresStreamCounts(pool, uuid4()), settings.caps["streams"])
        service = TradingService(authentication(pool, tokens), limit, follow, wall_clock, places)
        watch_followers(operations, lambda: len(service.streams))
        health = Health(operations.is_ready, stopping)
        address = f"{settings.stream_host}:{settings.stream_port}"
        hints.start()
        await serve_stream(service, health, address, operations.part_started, stopping)


serve = with_rate_limits(serve_followers)
