"""Caps of an organization: held under concurrent requests, named in the refusal, and never in the way of a command."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest

from openbell_server.adapters.postgres.connection import Pool, open_pool
from openbell_server.application.access import reads_at_once
from openbell_server.domain.access.caps import CAPS, caps_with
from support.brokers.paper_broker import until
from support.builders.tenant import Tenant, a_tenant
from support.identity.bearers import as_user
from support.rest.rest_api import RestApi, cancel_body, control_path, create_body, intents_of, problem, rest_api

Create = Callable[[RestApi, Tenant], Awaitable[httpx.Response]]


def capped(pool: Pool, **limits: int) -> contextlib.AbstractAsyncContextManager[RestApi]:
    return rest_api(pool, caps=caps_with({"reads_at_once": 1_000_000, **limits}))


async def create_key(api: RestApi, tenant: Tenant) -> httpx.Response:
    body = {"name": "reader", "environment": "paper", "permissions": ["intent:read"]}
    return await api.client.post("/v1/api-keys", json=body, headers=as_user(tenant))


async def create_account(api: RestApi, tenant: Tenant) -> httpx.Response:
    body = {"name": "Main", "broker": "paper", "environment": "paper"}
    return await api.client.post("/v1/accounts", json=body, headers=as_user(tenant))


async def create_webhook(api: RestApi, tenant: Tenant) -> httpx.Response:
    body = {"url": "https://example.com/openbell", "types": ["BROKER_TRADE"]}
    return await api.client.post("/v1/webhooks", json=body, headers=as_user(tenant))


@pytest.mark.parametrize(
    ("name", "create", "table", "already"),
    [
        ("api_keys", create_key, "api_keys", 1),
        ("accounts", create_account, "accounts", 1),
        ("webhooks", create_webhook, "webhooks", 0),
    ],
)
async def test_concurrent_creations_reach_the_cap_and_do_not_exceed_it(
    pool: Pool, tenant: Tenant, name: str, create: Create, table: str, already: int
) -> None:
    other = await a_tenant(pool)
    async with capped(pool, **{name: 3}) as api:
        answers = await asyncio.gather(*(create(api, tenant) for _ in range(12)))
        assert sorted(answer.status_code for answer in answers) == [201] * (3 - already) + [409] * (9 + already)
        refused = next(answer for answer in answers if answer.status_code == 409)
        detail = str(problem(refused, 409, "cap_reached")["detail"])
        assert all(part in detail for part in (CAPS[name].bounds, "which is 3", CAPS[name].setting, "operator"))
        assert (await create(api, other)).status_code == 201
    count = f"select count(*) from {table} where organization_id = $1"
    assert await pool.fetchval(count, tenant.principal.organization_id) == 3


async def test_a_revoked_key_and_a_closed_account_give_their_places_back(pool: Pool, tenant: Tenant) -> None:
    async with capped(pool, api_keys=2, accounts=2) as api:
        for create, path in ((create_key, "/v1/api-keys"), (create_account, "/v1/accounts")):
            made = (await create(api, tenant)).json()
            problem(await create(api, tenant), 409, "cap_reached")
            removed = await api.client.delete(f"{path}/{made['id']}", headers=as_user(tenant))
            assert removed.status_code < 300, removed.text
            assert (await create(api, tenant)).status_code == 201


@contextlib.asynccontextmanager
async def blocked_reads(pool: Pool, api: RestApi, tenant: Tenant, count: int) -> AsyncIterator[None]:
    """So many reads of the tenant that do not end while this is open."""

    async def read() -> httpx.Response:
        return await api.client.get("/v1/webhooks", headers=as_user(tenant))

    async with pool.acquire() as connection, connection.transaction():
        await connection.execute("lock table webhooks in access exclusive mode")
        reads = [asyncio.ensure_future(read()) for _ in range(count)]

        async def are_waiting() -> bool:
            waiting = "select count(*) from pg_locks where not granted and relation = 'webhooks'::regclass"
            return int(await connection.fetchval(waiting)) == count

        await until(are_waiting)
        yield
    await asyncio.gather(*reads)


async def test_at_the_cap_on_reads_the_next_is_refused_and_commands_and_halts_are_not(
    pool: Pool, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads_at_once, "WAIT_SECONDS", 0.1)
    other = await a_tenant(pool)
    async with capped(pool, reads_at_once=2) as api, blocked_reads(pool, api, tenant, 2):
        refused = await api.read(tenant)
        detail = str(problem(refused, 429, "too_many_reads")["detail"])
        assert all(part in detail for part in ("which is 2", "OPENBELL_CAP_READS_AT_ONCE"))
        assert refused.headers["retry-after"] == "1"
        assert (await api.read(other)).status_code == 200
        created = await api.submit(tenant, create_body())
        assert created.status_code == 202, created.text
        cancelled = await api.submit(tenant, cancel_body(created.json()["intent_id"]))
        assert cancelled.status_code == 202, cancelled.text
        halt: dict[str, Any] = {"status": "HALTED", "reason": "test"}
        halted = await api.client.put(control_path("switches", tenant), json=halt, headers=as_user(tenant))
        assert halted.status_code == 200, halted.text


async def test_reads_that_hold_every_connection_do_not_delay_authentication_and_commands(
    database: str, pool: Pool, tenant: Tenant
) -> None:
    async with (
        await open_pool(database, connections_max=1) as reads,
        rest_api(reads, command_pool=pool) as api,
        reads.acquire(),
    ):
        created = await asyncio.wait_for(api.submit(tenant, create_body()), 60)
        assert created.status_code == 202, created.text
        assert (
            await asyncio.wait_for(api.submit(tenant, cancel_body(created.json()["intent_id"])), 60)
        ).status_code == 202
        halted = await asyncio.wait_for(
            api.client.put(
                control_path("switches", tenant), json={"status": "HALTED", "reason": "test"}, headers=as_user(tenant)
            ),
            60,
        )
        assert halted.status_code == 200, halted.text
        # Authentication answers too: this caller is refused, not kept waiting.
        problem(await api.client.get(intents_of(tenant), headers={"x-api-key": "wrong"}), 401, "unauthenticated")


async def test_at_the_cap_on_back_tests_another_organization_is_not_refused(pool: Pool, tenant: Tenant) -> None:
    other = await a_tenant(pool)

    async def backtest(api: RestApi, whose: Tenant) -> httpx.Response:
        body = {"account_id": str(whose.account.id), "rules": []}
        return await api.client.post("/v1/controls/backtest", json=body, headers=as_user(whose))

    async with capped(pool, backtests_at_once=2) as api:
        callers = [tenant] * 5 + [other] * 2
        answers = await asyncio.gather(*(backtest(api, whose) for whose in callers))
        refused = [answer for answer in answers[:5] if answer.status_code != 200]
        assert len(refused) == 3
        for answer in refused:
            assert "OPENBELL_CAP_BACKTESTS_AT_ONCE" in str(problem(answer, 409, "backtest_running")["detail"])
        assert [answer.status_code for answer in answers[5:]] == [200, 200]
        assert (await backtest(api, tenant)).status_code == 200
