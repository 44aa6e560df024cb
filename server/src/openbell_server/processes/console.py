"""Runs the console: its pages and sessions, and calls of the api in the name of its users."""

import asyncio
import contextlib
import os
import time
from importlib.metadata import version

import httpx
import structlog

from openbell_server.adapters.identity.openid_provider import OpenIdConnect
from openbell_server.adapters.jetstream.connection import JetStreamConnection
from openbell_server.adapters.postgres.connection import UNAVAILABLE, describe_error, open_pool
from openbell_server.adapters.postgres.console.console_sessions import PRUNED_ROWS_MAX, PostgresConsoleSessions
from openbell_server.adapters.postgres.schema import require_schema
from openbell_server.adapters.vault.secret_sealer import SecretSealer
from openbell_server.application.console.sessions import CHECK_SECONDS, UNCHECKED_SECONDS_MAX, ConsoleSessions
from openbell_server.application.console.sign_in import SignIn
from openbell_server.http_protocol import Connections
from openbell_server.processes.authentication import wall_clock
from openbell_server.processes.http_server import serve_http
from openbell_server.processes.operations_port import NotReady, Operations
from openbell_server.settings import Settings
from openbell_server.transport.console.app import ConsoleApplication
from openbell_server.transport.console.forward import Forward
from openbell_server.transport.console.pages import built_pages

CONNECTIONS_MAX = 2048
CONNECTIONS_PER_ADDRESS_MAX = 256
DATABASE_CONNECTIONS_MAX = 8
PROVIDER_CONNECTIONS_MAX = 20
PRUNE_SECONDS = 60.0
PRUNES_AT_ONCE_MAX = 20


async def serve(settings: Settings, stopping: asyncio.Event, operations: Operations, _: JetStreamConnection) -> None:
    """Serve until stopping is set, then end the streams and finish the open requests."""
    address = settings.console_origin()
    sealer = SecretSealer(settings.strong_secret("console_key"), b"console")
    async with contextlib.AsyncExitStack() as opened:
        pool = await opened.enter_async_context(
            await open_pool(settings.require("database_url"), connections_max=DATABASE_CONNECTIONS_MAX)
        )
        await require_schema(pool)
        store = PostgresConsoleSessions(pool)
        limits = httpx.Limits(max_connections=PROVIDER_CONNECTIONS_MAX)
        provider = OpenIdConnect(
            await opened.enter_async_context(httpx.AsyncClient(limits=limits)),
            issuer=settings.require("console_issuer"),
            client_id=settings.require("console_client_id"),
            client_secret=settings.console_client_secret.get_secret_value(),
            audience=settings.console_audience,
            now=wall_clock,
        )
        sessions = ConsoleSessions(store, provider, sealer, time.monotonic)
        forward = Forward(settings.console_api_url or f"http://{settings.api_host}:{settings.api_port}", sessions)
        opened.push_async_callback(forward.close)
        sign_in = SignIn(provider, sealer, sessions, f"{address}/console/callback", os.urandom, time.time)
        application = ConsoleApplication(
            sessions, sign_in, forward, built_pages(), version("openbell-server"), UNAVAILABLE
        )
        operations.need("database", lambda: _check(store))
        for upkeep in (_check_streams(sessions), _prune(store)):
            opened.callback(asyncio.ensure_future(upkeep).cancel)
        await serve_http(
            application,
            settings.console_host,
            settings.console_port,
            stopping,
            connections=Connections(CONNECTIONS_MAX, CONNECTIONS_PER_ADDRESS_MAX, settings.trusted_proxies),
            ready=operations.part_started,
            before_stop=sessions.end_streams,
        )


async def _check(store: PostgresConsoleSessions) -> None:
    try:
        await store.check_writing()
    except Exception as error:
        raise NotReady(f"the database takes no writes: {describe_error(error)}") from error


async def _check_streams(sessions: ConsoleSessions) -> None:
    """End the streams of ended sessions, until cancelled; all of them if the database does not answer."""
    checked_at = time.monotonic()
    while True:
        try:
            await sessions.check_streams()
            checked_at = time.monotonic()
        except UNAVAILABLE as error:
            if time.monotonic() - checked_at > UNCHECKED_SECONDS_MAX:
                structlog.get_logger().warning("console_streams_ended", error=describe_error(error))
                sessions.end_streams()
        await asyncio.sleep(CHECK_SECONDS)


async def _prune(store: PostgresConsoleSessions) -> None:
    """Delete the rows of ended sessions, until cancelled."""
    while True:
        try:
            for _ in range(PRUNES_AT_ONCE_MAX):
                if await store.prune() < PRUNED_ROWS_MAX:
                    break
        except UNAVAILABLE as error:
            structlog.get_logger().warning("console_sessions_not_pruned", error=describe_error(error))
        await asyncio.sleep(PRUNE_SECONDS)
