"""The REST process."""

import asyncio
import os
import time

from litestar.types import ASGIApp, ControllerRouterHandler

from openbell_server.adapters.jetstream.connection import JetStreamConnection
from openbell_server.adapters.postgres.api_key_records import PostgresApiKeyRecords
from openbell_server.adapters.postgres.callers import PostgresTokenCallerStore
from openbell_server.adapters.postgres.connection import (
    DOUBTFUL,
    OUTDATED,
    UNAVAILABLE,
    DatabaseClock,
    Pool,
    check_writing,
    open_pool,
)
from openbell_server.adapters.postgres.intent_statistics import PostgresStatisticsStore
from openbell_server.adapters.postgres.intents import PostgresIntentStore
from openbell_server.adapters.postgres.organizations import PostgresOrganizationStore
from openbell_server.adapters.postgres.outbox import count_account_outbox
from openbell_server.adapters.postgres.schema import require_schema
from openbell_server.adapters.postgres.symbol_controls import PostgresControlStore
from openbell_server.adapters.postgres.user_deletions import PostgresUserDeletionStore
from openbell_server.application.delete_user import DeleteUser
from openbell_server.application.limit_rates import LimitRates
from openbell_server.application.look_up_organization import LookUpOrganization
from openbell_server.application.manage_api_keys import ManageApiKeys
from openbell_server.application.ports.access_tokens import AccessTokens
from openbell_server.application.ports.hints import Hints
from openbell_server.application.ports.identity_provider import IdentityProvider
from openbell_server.application.read_intents import ReadIntents
from openbell_server.application.read_statistics import ReadStatistics
from openbell_server.application.set_symbol_controls import SetSymbolControls
from openbell_server.application.submit_intent import SubmitIntent
from openbell_server.brokers.registry import BROKERS
from openbell_server.processes.callers import access_tokens, authentication, identity_provider
from openbell_server.processes.http_server import serve_http
from openbell_server.processes.limits import rate_limits
from openbell_server.settings import Settings
from openbell_server.transport.rest.api_keys import api_key_routes, validation_routes
from openbell_server.transport.rest.app import build_app
from openbell_server.transport.rest.controls import control_routes
from openbell_server.transport.rest.entry import Enter
from openbell_server.transport.rest.error_responses import error_renderer
from openbell_server.transport.rest.intents import intent_routes
from openbell_server.transport.rest.organizations import organization_route
from openbell_server.transport.rest.outbox_health import outbox_health_route
from openbell_server.transport.rest.users import user_route

CONNECTIONS_MAX = 2048


def rest_app(
    pool: Pool,
    hints: Hints,
    cursor_key: bytes,
    tokens: AccessTokens,
    limit: LimitRates,
    provider_name: str,
    provider: IdentityProvider | None,
) -> ASGIApp:
    """The REST application on a database."""
    organizations, intents, ids = PostgresOrganizationStore(pool), PostgresIntentStore(pool), DatabaseClock(pool)
    authenticate, controls = authentication(pool, tokens), PostgresControlStore(pool)
    enter = Enter(authenticate, limit)
    submit = SubmitIntent(organizations, intents, controls, ids, BROKERS, hints, DOUBTFUL, UNAVAILABLE)
    read = ReadIntents(organizations, intents, BROKERS, cursor_key)
    statistics = ReadStatistics(organizations, PostgresStatisticsStore(pool))
    look_up = LookUpOrganization(PostgresTokenCallerStore(pool), provider_name, provider, time.monotonic)
    routes: list[ControllerRouterHandler] = [
        intent_routes(enter, submit, read, statistics),
        control_routes(enter, SetSymbolControls(organizations, controls, BROKERS)),
        api_key_routes(enter, ManageApiKeys(PostgresApiKeyRecords(pool, ids), cursor_key, os.urandom)),
        validation_routes(authenticate, limit),
        organization_route(enter, look_up),
        user_route(enter, DeleteUser(PostgresUserDeletionStore(pool), provider_name, provider)),
        outbox_health_route(enter, lambda: count_account_outbox(pool)),
    ]
    return build_app(routes, lambda: check_writing(pool), error_renderer(UNAVAILABLE, OUTDATED))


async def serve(settings: Settings, stopping: asyncio.Event) -> None:
    """Serve REST until stopping is set."""
    async with (
        await open_pool(settings.require("database_url"), connections_max=16) as pool,
        access_tokens(settings) as tokens,
        rate_limits(settings) as limit,
        identity_provider(settings) as provider,
    ):
        await require_schema(pool)
        hints = JetStreamConnection(settings.nats_url)
        connecting = asyncio.ensure_future(hints.run())
        cursor_key = settings.require("cursor_secret").encode()
        app = rest_app(pool, hints, cursor_key, tokens, limit, settings.identity_provider, provider)
        try:
            await serve_http(app, settings.api_host, settings.api_port, stopping, connections_max=CONNECTIONS_MAX)
        finally:
            connecting.cancel()
            await asyncio.gather(connecting, return_exceptions=True)
