"""What is taken away is gone on every replica; how soon is a matter of a cache, tested by the clock."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest

from openbell_server.adapters.postgres.connection import Pool, open_pool
from openbell_server.domain.access.accounts import Environment
from support.brokers.paper_broker import until
from support.builders.tenant import Tenant, a_tenant
from support.identity.bearers import as_user
from support.rest.rest_api import RestApi, create_body, intents_of, rest_api


@pytest.fixture
async def replicas(database: str) -> AsyncIterator[list[RestApi]]:
    async with AsyncExitStack() as stack:
        pools = [await stack.enter_async_context(await open_pool(database)) for _ in range(2)]
        yield [await stack.enter_async_context(rest_api(pool)) for pool in pools]


async def read_with_key(api: RestApi, tenant: Tenant) -> httpx.Response:
    return await api.read(tenant)


async def read_with_token(api: RestApi, tenant: Tenant) -> httpx.Response:
    return await api.client.get(intents_of(tenant), headers=as_user(tenant, "member"))


async def submit(api: RestApi, tenant: Tenant) -> httpx.Response:
    return await api.submit(tenant, create_body())


Call = Callable[[RestApi, Tenant], Awaitable[httpx.Response]]


@pytest.mark.parametrize(
    ("call", "change", "status"),
    [
        (read_with_key, "update api_keys set revoked_at = now()", 401),
        (read_with_key, "update api_keys set disabled = true", 401),
        (read_with_key, "update api_keys set expires_at = now()", 401),
        (read_with_key, "update api_keys set permissions = '{}'", 403),
        (read_with_token, "insert into denied_users (provider, subject, reason) values ('dev', 'auth|7', '')", 401),
        (submit, "update organizations set entitlements = '{}', control_epoch = control_epoch + 1", 403),
        (submit, "update organizations set disabled = true, control_epoch = control_epoch + 1", 409),
    ],
    ids=["revoked", "disabled", "expired", "permission", "denied", "entitlement", "organization"],
)
async def test_a_change_acts_on_every_replica(
    pool: Pool, replicas: list[RestApi], call: Call, change: str, status: int
) -> None:
    tenant = await a_tenant(pool, environment=Environment.LIVE)
    before = await asyncio.gather(*(call(api, tenant) for api in replicas))
    assert all(answer.is_success for answer in before)
    await pool.execute(change)

    async def refused_everywhere() -> bool:
        answers: list[Any] = await asyncio.gather(*(call(api, tenant) for api in replicas))
        return all(answer.status_code == status for answer in answers)

    await until(refused_everywhere, 60)
