"""Reads and sets accounts' fault plans over the paper broker's own API."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import httpx
import msgspec

from openbell_exchange.faults import InvalidFaults, plan_of
from openbell_server.application.access.ports.fault_plans import FaultPlan, PlansUnavailable
from openbell_server.brokers.paper.profiles import PROFILES
from openbell_server.brokers.paper.wire import OPERATOR_HEADER, AccountFaultsBody, FaultsBody
from openbell_server.domain.errors import InvalidCommand, escaped
from openbell_server.domain.identifiers import AccountId

_CALL_SECONDS: Final = 2


class PaperFaultPlans:
    """Implements FaultPlans; the caller closes the client."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    def is_for(self, broker: str) -> bool:
        return broker in PROFILES

    def judge(self, plan: FaultPlan) -> None:
        try:
            plan_of(plan.seed, plan.faults)
        except InvalidFaults as invalid:
            field = invalid.name if invalid.name == "seed" else f"/faults/{escaped(invalid.name)}".removesuffix("/")
            raise InvalidCommand(field, invalid.problem) from invalid

    async def read(self, account_id: AccountId) -> FaultPlan:
        return await self._call("GET", account_id)

    async def set(self, account_id: AccountId, plan: FaultPlan) -> FaultPlan:
        return await self._call("PUT", account_id, msgspec.json.encode(FaultsBody(plan.seed, dict(plan.faults))))

    async def clear(self, account_id: AccountId) -> None:
        await self._call("DELETE", account_id)

    async def _call(self, method: str, account_id: AccountId, content: bytes | None = None) -> FaultPlan:
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                response = await self._client.request(method, f"/accounts/{account_id}/faults", content=content)
            if response.status_code == httpx.codes.UNAUTHORIZED:
                raise PlansUnavailable("the paper broker has another OPENBELL_PAPER_SECRET than the api")
            response.raise_for_status()
            body = msgspec.json.decode(response.content, type=AccountFaultsBody)
        except (httpx.HTTPError, TimeoutError, msgspec.DecodeError) as trouble:
            raise PlansUnavailable("the paper broker did not answer") from trouble
        return FaultPlan(body.seed, body.faults, body.set_at)


@asynccontextmanager
async def fault_plans(address: str, secret: str) -> AsyncIterator[PaperFaultPlans]:
    """With the secret of the paper broker's operator routes."""
    headers = {OPERATOR_HEADER.encode(): secret.encode()}
    async with httpx.AsyncClient(base_url=address, timeout=_CALL_SECONDS, trust_env=False, headers=headers) as client:
        yield PaperFaultPlans(client)
