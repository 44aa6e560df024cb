"""Builds what authenticates callers: API keys, access tokens, identity provider."""

import contextlib
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import httpx

from openbell_server.adapters.identity.tokens import JwtAccessTokens
from openbell_server.adapters.postgres.access.organizations import PostgresOrganizationStore
from openbell_server.adapters.postgres.access.token_callers import PostgresTokenCallerStore
from openbell_server.adapters.postgres.connection import Pool
from openbell_server.application.access.authenticate import Authenticate
from openbell_server.application.access.batched_key_lookup import BatchedKeyLookup
from openbell_server.application.access.note_key_uses import NoteKeyUses
from openbell_server.application.access.ports.access_tokens import AccessTokens
from openbell_server.application.access.ports.identity_provider import IdentityProvider
from openbell_server.settings import Settings

PROVIDER_CONNECTIONS_MAX = 20


def wall_clock() -> datetime:
    """The local time, used only to check expiry."""
    return datetime.now(UTC)


def authentication(pool: Pool, tokens: AccessTokens) -> Authenticate:
    store = PostgresOrganizationStore(pool)
    return Authenticate(
        BatchedKeyLookup(store.find_keys_across_organizations),
        PostgresTokenCallerStore(pool),
        tokens,
        time.monotonic,
        wall_clock,
        NoteKeyUses(store.note_key_uses_across_organizations, time.monotonic),
    )


@contextlib.asynccontextmanager
async def access_tokens(settings: Settings) -> AsyncIterator[AccessTokens]:
    async with httpx.AsyncClient() as client:
        yield JwtAccessTokens(settings.issuers, client, time.monotonic, wall_clock)


@contextlib.asynccontextmanager
async def identity_provider(settings: Settings) -> AsyncIterator[IdentityProvider | None]:
    """The identity provider's API; None if it is not configured."""
    api_key = settings.workos_api_key.get_secret_value()
    if settings.identity_provider != "workos" or not api_key:
        yield None
        return
    # Slow to import and not always needed.
    from openbell_server.adapters.identity.workos import WorkOSProvider

    async with httpx.AsyncClient(limits=httpx.Limits(max_connections=PROVIDER_CONNECTIONS_MAX)) as client:
        yield WorkOSProvider(
            client, api_key=api_key, client_id=settings.workos_client_id, base_url=settings.workos_base_url
        )
