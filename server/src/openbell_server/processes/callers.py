"""What knows callers, for the processes that have any."""

import contextlib
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import httpx

from openbell_server.adapters.identity.tokens import JwtAccessTokens
from openbell_server.adapters.postgres.callers import PostgresTokenCallerStore
from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.organizations import PostgresOrganizationStore
from openbell_server.application.authenticate import Authenticate
from openbell_server.application.gathered_keys import GatheredKeys
from openbell_server.application.ports.access_tokens import AccessTokens
from openbell_server.application.ports.identity_provider import IdentityProvider
from openbell_server.settings import Settings

PROVIDER_CONNECTIONS_MAX = 20


def wall_clock() -> datetime:
    """The time here; only what expires is compared with it."""
    return datetime.now(UTC)


def authentication(pool: Pool, tokens: AccessTokens) -> Authenticate:
    """Keys by the database, tokens by what verifies them."""
    return Authenticate(
        GatheredKeys(PostgresOrganizationStore(pool).find_keys_across_organizations),
        PostgresTokenCallerStore(pool),
        tokens,
        time.monotonic,
        wall_clock,
    )


@contextlib.asynccontextmanager
async def access_tokens(settings: Settings) -> AsyncIterator[AccessTokens]:
    """Verifies the tokens of the issuers that the settings name."""
    async with httpx.AsyncClient() as client:
        yield JwtAccessTokens(settings.issuers, client, time.monotonic, wall_clock)


@contextlib.asynccontextmanager
async def identity_provider(settings: Settings) -> AsyncIterator[IdentityProvider | None]:
    """The identity provider's own API; None if the operator has not said how to reach it."""
    api_key = settings.workos_api_key.get_secret_value()
    if settings.identity_provider != "workos" or not api_key:
        yield None
        return
    # Slow to import, and not everybody asks it.
    from openbell_server.adapters.identity.workos import WorkOSProvider

    async with httpx.AsyncClient(limits=httpx.Limits(max_connections=PROVIDER_CONNECTIONS_MAX)) as client:
        yield WorkOSProvider(
            client, api_key=api_key, client_id=settings.workos_client_id, base_url=settings.workos_base_url
        )
