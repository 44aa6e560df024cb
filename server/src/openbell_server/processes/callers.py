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
from openbell_server.application.ports.access_tokens import AccessTokens
from openbell_server.settings import Settings


def wall_clock() -> datetime:
    """The time here; only what expires is compared with it."""
    return datetime.now(UTC)


def authentication(pool: Pool, tokens: AccessTokens) -> Authenticate:
    """Keys by the database, tokens by what verifies them."""
    return Authenticate(
        PostgresOrganizationStore(pool), PostgresTokenCallerStore(pool), tokens, time.monotonic, wall_clock
    )


@contextlib.asynccontextmanager
async def access_tokens(settings: Settings) -> AsyncIterator[AccessTokens]:
    """Verifies the tokens of the issuers that the settings name."""
    async with httpx.AsyncClient() as client:
        yield JwtAccessTokens(settings.issuers, client, time.monotonic, wall_clock)
