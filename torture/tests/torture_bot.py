"""A bot that a test moves step by step, at a simulator in this process."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from openbell_exchange.history import History
from openbell_torture.alpaca.application import AlpacaApplication
from openbell_torture.alpaca.wire import key_id_of
from openbell_torture.compare import Action, Finding, Weakness, actions_of, findings_of
from openbell_torture.faults import plan_with
from openbell_torture.faulty_engine import FaultyEngine
from openbell_torture.journal import Journal
from openbell_torture.run import ACCOUNT, Result
from openbell_torture.serving import serving

LOST = {"accept_then_reset": 1.0}
KEY = key_id_of(ACCOUNT)


@dataclass
class Bot:
    """A bot that does one thing after the other."""

    client: httpx.AsyncClient
    engine: FaultyEngine
    journal: Journal
    address: str

    async def post(self, quantity: int = 10, name: str | None = None, **terms: Any) -> int | None:
        """The status of the answer; None without one."""
        body = {"symbol": "AAPL", "qty": str(quantity), "side": "buy", "type": "market", "time_in_force": "gtc"}
        more = {} if name is None else {"client_order_id": name}
        try:
            return (await self.client.post("/v2/orders", json={**body, **more, **terms})).status_code
        except httpx.HTTPError:
            return None

    async def patch(self, order_id: str, **terms: str) -> int | None:
        try:
            return (await self.client.patch(f"/v2/orders/{order_id}", json=terms)).status_code
        except httpx.HTTPError:
            return None

    async def get(self, path: str) -> Any:
        return (await self.client.get(path)).json()

    @property
    def orders(self) -> Sequence[History]:
        return self.engine.exchange.list_orders(ACCOUNT)

    @property
    def actions(self) -> list[Action]:
        return actions_of(self.journal, self.orders)

    @property
    def findings(self) -> list[Finding]:
        return findings_of(self.journal, self.orders, self.actions)

    @property
    def found(self) -> list[Weakness]:
        return [finding.weakness for finding in self.findings]

    def result(self) -> Result:
        return Result(
            command=["python", "my bot.py"],
            plan_name="lost-answers",
            plan=plan_with(7, {}),
            seconds=self.journal.now,
            exit_code=0,
            journal=self.journal,
            orders=self.orders,
            actions=self.actions,
            findings=self.findings,
        )


@asynccontextmanager
async def a_bot(**rates: float) -> AsyncIterator[Bot]:
    journal = Journal()
    engine = FaultyEngine(plan_with(1, rates), journal.met)
    headers = {"apca-api-key-id": KEY, "apca-api-secret-key": "secret"}
    async with (
        serving(AlpacaApplication(engine, journal)) as address,
        httpx.AsyncClient(base_url=address, headers=headers, timeout=30, trust_env=False) as client,
    ):
        yield Bot(client, engine, journal, address)
        engine.close()
