"""Runs the REST server."""

import asyncio
import contextlib

import structlog

from openbell_server.adapters.calendars.table import load_calendars
from openbell_server.adapters.jetstream.connection import JetStreamConnection
from openbell_server.adapters.jetstream.event_wakes import EventWakes
from openbell_server.adapters.postgres.connection import (
    ACCEPT_POOL_SETTINGS,
    UNAVAILABLE,
    Pool,
    Role,
    open_pool,
    open_role_pool,
)
from openbell_server.adapters.postgres.controls.heartbeats import PostgresHeartbeatStore
from openbell_server.adapters.postgres.schema import require_schema
from openbell_server.application.access.rate_limits import LimitRates
from openbell_server.application.controls.expire_heartbeats import ExpireHeartbeats
from openbell_server.application.intents.group_commit import BATCH_SLOTS
from openbell_server.brokers.paper.fault_client import fault_plans
from openbell_server.http_protocol import Connections
from openbell_server.processes.authentication import access_tokens, identity_provider
from openbell_server.processes.calendar_expiry import watch_calendars
from openbell_server.processes.http_server import serve_http
from openbell_server.processes.metrics import watch_requests
from openbell_server.processes.operations_port import Operations
from openbell_server.processes.rate_limits import with_rate_limits
from openbell_server.processes.rest_wiring import RestDependencies, event_streams, message_poster, rest_app
from openbell_server.processes.vault import sealer
from openbell_server.settings import Settings

CONNECTIONS_MAX = 2048
# One address leaves most connections to others.
CONNECTIONS_PER_ADDRESS_MAX = 512
# Connections to the database: of authentication, commands and changes of controls, and of everything else.
COMMAND_PLACES = 8
READ_PLACES = 16
HEARTBEAT_SWEEP_SECONDS = 1.0


async def serve_requests(
    limit: LimitRates,
    settings: Settings,
    stopping: asyncio.Event,
    operations: Operations,
    hints: JetStreamConnection,
) -> None:
    cursor_key, url = settings.cursor_key(), settings.require("database_url")
    async with contextlib.AsyncExitStack() as opened:
        pool = await opened.enter_async_context(await open_pool(url, connections_max=READ_PLACES))
        # Before a role is taken: an empty database has none.
        await require_schema(pool)
        command_pool = await opened.enter_async_context(await open_pool(url, connections_max=COMMAND_PLACES))
        accept_pool = await opened.enter_async_context(
            await open_role_pool(url, Role.ACCEPT, BATCH_SLOTS, ACCEPT_POOL_SETTINGS)
        )
        tokens = await opened.enter_async_context(access_tokens(settings))
        provider = await opened.enter_async_context(identity_provider(settings))
        plans = fault_plans(settings.paper_url, settings.paper_secret.get_secret_value())
        watch_calendars(operations, load_calendars())
        operations.watch_database(command_pool, pool)
        operations.watch_nats(hints, needed=False)
        streams = event_streams(pool, EventWakes(hints), cursor_key, settings.caps)
        opened.push_async_callback(streams.close)
        poster = message_poster(settings.webhook_private_targets)
        opened.push_async_callback(poster.close)
        app = rest_app(
            RestDependencies(
                pool=pool,
                hints=hints,
                cursor_key=cursor_key,
                tokens=tokens,
                limit=limit,
                provider_name=settings.identity_provider,
                provider=provider,
                sealer=sealer(settings),
                fault_plans=await opened.enter_async_context(plans),
                caps=settings.caps,
                observe=watch_requests(operations),
                streams=streams,
                webhook_key=settings.webhook_key.get_secret_value().encode(),
                private_targets=settings.webhook_private_targets,
                poster=poster,
                command_pool=command_pool,
                accept_pool=accept_pool,
                alpaca_front=settings.alpaca_front,
            )
        )
        hints.start()
        opened.callback(asyncio.ensure_future(_expire_heartbeats(command_pool, hints)).cancel)
        await serve_http(
            app,
            settings.api_host,
            settings.api_port,
            stopping,
            connections=Connections(CONNECTIONS_MAX, CONNECTIONS_PER_ADDRESS_MAX, settings.trusted_proxies),
            ready=operations.part_started,
            before_stop=streams.drain,
            has_websockets=settings.alpaca_front,
        )


async def _expire_heartbeats(pool: Pool, hints: JetStreamConnection) -> None:
    """Halt what missed its heartbeats, until cancelled."""
    heartbeats = ExpireHeartbeats(PostgresHeartbeatStore(pool), hints)
    while True:
        try:
            await heartbeats.sweep()
        except UNAVAILABLE as error:
            structlog.get_logger().warning("heartbeats_not_expired", error=repr(error))
        except Exception:  # noqa: BLE001 - the next sweep tries again
            structlog.get_logger().exception("heartbeats_not_expired")
        await asyncio.sleep(HEARTBEAT_SWEEP_SECONDS)


serve = with_rate_limits(serve_requests)
