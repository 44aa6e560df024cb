"""The application and one tenant of it, for every test of the REST interface."""

from collections.abc import AsyncIterator

import pytest

from openbell_server.adapters.postgres.connection import Pool
from support.builders.tenant import Tenant, a_tenant
from support.rest.rest_api import RestApi, rest_api


@pytest.fixture
async def api(pool: Pool) -> AsyncIterator[RestApi]:
    async with rest_api(pool) as opened:
        yield opened


@pytest.fixture
async def tenant(pool: Pool) -> Tenant:
    return await a_tenant(pool)
