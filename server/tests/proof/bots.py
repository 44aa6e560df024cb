"""Bots trade through the platform at a broker whose answers get lost; what each knows is compared with what it has.

The broker is the simulated Alpaca of openbell-torture. The bots are its fixed examples, unchanged, at the front for
Alpaca's bots, which has no faults.
"""

import asyncio
import json
import os
import signal
import sys
import tempfile
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx

from openbell_exchange.history import History
from openbell_server.devtools.child_processes import bound_to_us
from openbell_server.devtools.local_platform import LocalPlatform
from openbell_server.domain.access.accounts import Environment
from openbell_torture.alpaca.orders import order_id
from openbell_torture.alpaca.wire import key_id_of
from openbell_torture.compare import Finding, actions_of, findings_of
from openbell_torture.faults import plan
from openbell_torture.journal import Journal
from openbell_torture.serving import serving
from proof.figures import Figures
from proof.torture import ALL, FIXED
from support.brokers.paper_broker import until
from support.brokers.torture_broker import TortureBroker
from support.rest.bot_proxy import BotProxy

SEEDS = {"full": 50, "gate": 1}
AT_ONCE = 75
BOT_SECONDS = 450
SETTLE_SECONDS = 180
SHOWN_MAX = 10
LOGS = Path("build/proof/bots-logs")


def prove(figures: Figures) -> None:
    seeds = SEEDS[figures.size]
    with LocalPlatform(
        LOGS, {"OPENBELL_ALPACA_FRONT": "true"}, accounts=seeds * len(FIXED), brokers=["alpaca"]
    ) as platform:
        asyncio.run(_prove(figures, platform, seeds))


@dataclass
class _Runner:
    platform: LocalPlatform
    broker: TortureBroker
    proxy: BotProxy
    proxy_url: str
    api: httpx.AsyncClient
    key: str
    folder: Path
    places: asyncio.Semaphore

    async def run(self, bot: str, seed: int, account_id: UUID) -> list[str]:
        """What was found, and how the bot ended if not by itself."""
        async with self.places:
            self.broker.open_account(account_id, plan(ALL, seed))
            await self._sign_in(account_id)
            belief = self.folder / f"{account_id}.json"
            ended = await self._bot(bot, account_id, belief)
            orders = await self._settled(account_id)
        engine = self.broker.engines[account_id]
        engine.close()
        held = json.loads(belief.read_text()) if belief.exists() else {}
        found = self._findings(account_id, engine.exchange.list_orders(account_id), orders, held)
        said = [f"{bot}, seed {seed}: {finding.weakness}: {finding.text}" for finding in found]
        return [*said, *([] if ended == 0 else [f"{bot}, seed {seed}: ended with {ended}"])]

    async def _sign_in(self, account_id: UUID) -> None:
        fields = {"key_id": key_id_of(account_id), "secret": "of a simulator"}
        url = f"/v1/accounts/{account_id}/credentials"
        (await self.api.put(url, json={"fields": fields})).raise_for_status()

        async def is_valid() -> bool:
            verified: dict[str, object] = (await self.api.post(f"{url}/verify")).json()
            return verified.get("status") == "VALID"

        await until(is_valid, SETTLE_SECONDS)

    async def _bot(self, bot: str, account_id: UUID, belief: Path) -> int | None:
        settings = {
            "APCA_API_BASE_URL": self.proxy_url,
            "APCA_API_STREAM_URL": self.proxy_url.replace("http", "ws", 1) + "/stream",
            "APCA_API_KEY_ID": str(account_id),
            "APCA_API_SECRET_KEY": self.key,
            "OPENBELL_TORTURE_BELIEF": str(belief),
            "NO_PROXY": "127.0.0.1",
        }
        command = [sys.executable, "-m", f"openbell_torture.examples.{bot}"]
        process = await asyncio.create_subprocess_exec(
            *bound_to_us(None, signal.SIGKILL), *command, env={**os.environ, **settings}
        )
        try:
            return await asyncio.wait_for(process.wait(), BOT_SECONDS)
        except TimeoutError:
            return None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def _settled(self, account_id: UUID) -> dict[str, str]:
        """The broker's name of each order by its id, once no order waits for anything."""
        orders: list[dict[str, Any]] = []

        async def is_settled() -> bool:
            page = await self.api.get("/v1/orders", params={"account_id": str(account_id), "limit": 100})
            orders[:] = page.raise_for_status().json()["data"]
            return not any(_is_in_doubt(each) for each in orders)

        try:
            await until(is_settled, SETTLE_SECONDS)
        except TimeoutError:
            print(*(json.dumps(each) for each in orders if _is_in_doubt(each)), sep="\n", flush=True)
            raise
        return {each["intent_id"]: each["client_order_id"] for each in orders}

    def _findings(
        self, account_id: UUID, histories: list[History], names: dict[str, str], held: dict[str, str]
    ) -> list[Finding]:
        """The bot knows the platform's ids: the comparison is of the broker's."""
        journal, placed = self.proxy.journals[str(account_id)], self.proxy.placed[str(account_id)]
        numbers = {history.members[0].client_order_id: history.number for history in histories}
        entries = [replace(entry, order_name=names.get(placed.get(entry.ordinal, ""))) for entry in journal.entries]
        known = {
            order_id(numbers[names[intent_id]], 0): state
            for intent_id, state in journal.known.items()
            if names.get(intent_id) in numbers
        }
        believed = {symbol: Decimal(str(quantity)) for symbol, quantity in held.items()}
        translated = Journal(entries=entries, known=known, believed=believed)
        return findings_of(translated, histories, actions_of(translated, histories))


def _is_in_doubt(order: dict[str, Any]) -> bool:
    return (order["pending"], order["certainty"]) != ("NONE", "CONFIRMED")


async def _prove(figures: Figures, platform: LocalPlatform, seeds: int) -> None:
    environment = platform.client_environment()
    url, key = environment["OPENBELL_URL"], environment["OPENBELL_API_KEY"]
    broker = TortureBroker()
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(serving(broker))
        addresses = json.dumps({"alpaca": {Environment.PAPER: address}})
        platform.stack.stop("executor")
        platform.stack.start("executor", {"OPENBELL_BROKER_ADDRESSES": addresses})
        client = await stack.enter_async_context(httpx.AsyncClient(timeout=60, trust_env=False))
        proxy = BotProxy(f"{url}/alpaca", client)
        api = httpx.AsyncClient(base_url=url, headers={"x-api-key": key}, timeout=60, trust_env=False)
        runner = _Runner(
            platform=platform,
            broker=broker,
            proxy=proxy,
            proxy_url=await stack.enter_async_context(serving(proxy)),
            api=await stack.enter_async_context(api),
            key=key,
            folder=Path(stack.enter_context(tempfile.TemporaryDirectory())),
            places=asyncio.Semaphore(AT_ONCE),
        )
        runs = [(bot, seed) for seed in range(seeds) for bot in FIXED]
        accounts = platform.seeded.account_ids
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(runner.run(bot, seed, account_id))
                for (bot, seed), account_id in zip(runs, accounts, strict=True)
            ]
    found = [task.result() for task in tasks]
    for bot in FIXED:
        lines = [line for (of, _), lines in zip(runs, found, strict=True) if of == bot for line in lines]
        for line in lines[:SHOWN_MAX]:
            print(line, flush=True)
        figures.exactly(f"{bot} through the platform: findings in {seeds} seeds", len(lines), 0)
    orders = sum(len(engine.exchange.list_orders(account_id)) for account_id, engine in broker.engines.items())
    figures.shown("orders at the broker", orders)
