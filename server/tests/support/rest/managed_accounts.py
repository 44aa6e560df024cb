"""Managing accounts over REST as an admin of the tenant's organization, and what was told of it."""

import json
from typing import Any

import httpx

from openbell_server.adapters.postgres.connection import Pool
from support.builders.tenant import Tenant
from support.identity.bearers import as_user
from support.rest.rest_api import RestApi

URL = "/v1/accounts"
MAIN = {"name": "Main", "broker": "paper", "environment": "paper"}


async def create(api: RestApi, tenant: Tenant, headers: dict[str, str] | None = None, **fields: Any) -> httpx.Response:
    return await api.client.post(URL, json={**MAIN, **fields}, headers=headers or as_user(tenant))


async def created(api: RestApi, tenant: Tenant, **fields: Any) -> dict[str, Any]:
    answer = await create(api, tenant, **fields)
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json()
    return body


def url_of(account: dict[str, Any] | Tenant) -> str:
    return f"{URL}/{account.account.id if isinstance(account, Tenant) else account['id']}"


async def change(api: RestApi, tenant: Tenant, url: str, if_match: str | None = None, **fields: Any) -> httpx.Response:
    headers = as_user(tenant) | ({} if if_match is None else {"if-match": if_match})
    return await api.client.patch(url, json=fields, headers=headers)


async def close(api: RestApi, tenant: Tenant, url: str, if_match: str | None = None) -> httpx.Response:
    headers = as_user(tenant) | ({} if if_match is None else {"if-match": if_match})
    return await api.client.delete(url, headers=headers)


async def show(api: RestApi, tenant: Tenant, url: str) -> dict[str, Any]:
    answer = await api.client.get(url, headers=as_user(tenant))
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    assert answer.headers["etag"] == f'"{body["version"]}"'
    return body


async def queued(pool: Pool) -> list[tuple[str, dict[str, Any]]]:
    rows = await pool.fetch("select event_type, payload from account_outbox order by outbox_id")
    return [(row["event_type"], json.loads(row["payload"])) for row in rows]


async def audited(pool: Pool) -> list[tuple[str, str, Any, Any]]:
    rows = await pool.fetch("select principal_type, operation, before, after from audit_log order by occurred_at")
    return [(row[0], row[1], row[2] and json.loads(row[2]), json.loads(row[3])) for row in rows]
