"""A bot that was written for Alpaca, at the platform's front for such bots."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import httpx

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.application.access.rate_limits import LimitRates
from support.builders.tenant import Tenant
from support.rest.rest_api import rest_api

Json = dict[str, Any]
MARKET: Json = {"symbol": "AAPL", "qty": "10", "side": "buy", "type": "market", "time_in_force": "gtc"}
LIMIT: Json = {**MARKET, "type": "limit", "limit_price": "1.50"}


@dataclass(frozen=True, slots=True)
class AlpacaBot:
    client: httpx.AsyncClient
    account_id: UUID | str
    key: str

    async def ask(self, method: str, path: str, body: object = None, **params: str) -> httpx.Response:
        headers = {"apca-api-key-id": str(self.account_id), "apca-api-secret-key": self.key}
        return await self.client.request(method, f"/alpaca/v2{path}", params=params, headers=headers, json=body)

    async def submit(self, **terms: object) -> httpx.Response:
        return await self.ask("POST", "/orders", {**MARKET, **terms})

    async def listed(self, **params: str) -> list[Json]:
        answer = await self.ask("GET", "/orders", **params)
        assert answer.status_code == 200, answer.text
        listed: list[Json] = answer.json()
        return listed


@asynccontextmanager
async def alpaca_bot(pool: Pool, tenant: Tenant, limit: LimitRates | None = None) -> AsyncIterator[AlpacaBot]:
    async with rest_api(pool, limit=limit, alpaca_front=True) as api:
        yield AlpacaBot(api.client, tenant.account.id, tenant.key)
