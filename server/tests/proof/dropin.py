"""The front for Alpaca's bots: who may do what, hostile requests, alpaca-py's calls, and scripts beside our own API."""

import asyncio
import contextlib
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from uuid import UUID

import httpx

from openbell_server.adapters.postgres.connection import Pool, open_pool
from openbell_server.application.ports.broker import ReplaceSupport
from openbell_server.brokers.registry import BROKERS
from openbell_server.devtools.local_platform import LocalPlatform
from proof.authz import Run, call_cells, connected, migrated
from proof.dropin_scripts import differing
from proof.figures import Figures
from proof.hostile_requests import request_of
from support.authorization.calls import open_door
from support.authorization.front_calls import FrontCalls, front_cells, front_fits
from support.authorization.world import Members, World
from support.brokers.broker_beside import broker_beside, sign_in
from support.builders.tenant import a_tenant
from support.rest.alpaca_front import LIMIT, AlpacaBot, alpaca_bot
from support.rest.rest_api import rest_api

SIZES = {"full": {"requests": 20_000, "scripts": 500}, "gate": {"requests": 300, "scripts": 0}}
SHOWN_MAX = 10
AT_ONCE = 8
SECONDS = 600
LOGS = Path("build/proof/dropin-logs")


def prove(figures: Figures) -> None:
    size = SIZES[figures.size]
    with migrated() as (owner_url, login_url):
        asyncio.run(_prove_calls(figures, owner_url, login_url, size["requests"]))
    if size["scripts"]:
        for broker in ("paper", "tradier"):
            _prove_alpaca_py(figures, broker)
        wrong = differing(LOGS, size["scripts"])
        figures.shown("scripts through our own interface and through the front", size["scripts"])
        figures.exactly("scripts that end with another ledger", len(wrong), 0)


def _prove_alpaca_py(figures: Figures, broker: str) -> None:
    settings = {"OPENBELL_ALPACA_FRONT": "true"}
    with contextlib.ExitStack() as stack:
        platform = stack.enter_context(LocalPlatform(LOGS, settings, brokers=[broker]))
        environment, (account_id,) = platform.client_environment(), platform.seeded.account_ids
        url, key = environment["OPENBELL_URL"], environment["OPENBELL_API_KEY"]
        if broker != "paper":
            made = stack.enter_context(broker_beside(platform, broker))
            with httpx.Client(base_url=url, headers={"x-api-key": key}, timeout=60, trust_env=False) as http:
                assert sign_in(http, account_id, made) == "VALID"
        ran = subprocess.run(
            # -P: modules beside the program must not hide those of the library.
            [sys.executable, "-P", Path(__file__).with_name("alpaca_py_calls.py")],
            env={
                "APCA_API_BASE_URL": f"{url}/alpaca",
                "APCA_API_KEY_ID": str(account_id),
                "APCA_API_SECRET_KEY": key,
                "BROKER_REPLACES": str(BROKERS[broker].capabilities.replace is not ReplaceSupport.NONE),
            },
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    assert ran.returncode == 0, ran.stderr[-2000:]
    results = dict(json.loads(ran.stdout.splitlines()[-1]))
    wrong = {name: result for name, result in results.items() if result}
    print(*(f"{name}: {result}" for name, result in wrong.items()), sep="\n")
    figures.shown(f"{broker}: calls of alpaca-py", len(results))
    figures.exactly(f"{broker}: calls of alpaca-py that ended otherwise", len(wrong), 0)


async def _prove_calls(figures: Figures, owner_url: str, login_url: str, requests: int) -> None:
    owner = await connected(owner_url)
    try:
        members = Members()
        async with await open_pool(login_url) as pool, open_door(pool, members, alpaca_front=True) as door:
            world = World(pool, owner, members)
            await world.open()
            await call_cells(figures, list(front_cells()), Run(FrontCalls(world, door), owner, front_fits))
            await _prove_hostile(figures, pool, requests)
            await _prove_off(figures, pool)
    finally:
        await owner.close()


async def _prove_hostile(figures: Figures, pool: Pool, requests: int) -> None:
    tenant = await a_tenant(pool)
    async with alpaca_bot(pool, tenant) as bot:
        order_ids = [UUID((await bot.submit(**LIMIT)).json()["id"]) for _ in range(3)]
        statuses: Counter[int] = Counter()
        wrong: list[str] = []
        numbers = iter(range(requests))

        async def work() -> None:
            for number in numbers:
                answer = await _sent(bot, number, order_ids)
                statuses[answer.status_code] += 1
                if not _is_orderly(answer):
                    wrong.append(f"request {number}: {answer.status_code} {answer.text[:200]}")

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))
        alive = await bot.submit()
    print(*wrong[:SHOWN_MAX], sep="\n")
    figures.shown("hostile requests", statuses.total())
    figures.shown("hostile requests by status", json.dumps(dict(sorted(statuses.items()))))
    figures.exactly("hostile requests answered by 5xx except 501, or without a message", len(wrong), 0)
    figures.exactly("orders accepted afterwards", int(alive.status_code == 200), 1)


async def _sent(bot: AlpacaBot, number: int, order_ids: list[UUID]) -> httpx.Response:
    request = request_of(number, order_ids)
    return await bot.client.request(
        request.method,
        f"/alpaca/v2{request.path}",
        params=request.params,
        content=request.content,
        headers={
            "apca-api-key-id": str(bot.account_id),
            "apca-api-secret-key": bot.key,
            "content-type": "application/json",
        },
    )


def _is_orderly(answer: httpx.Response) -> bool:
    if answer.status_code >= 500 and answer.status_code != 501:
        return False
    if answer.status_code < 400:
        return True
    body = json.loads(answer.content)
    return isinstance(body["code"], int) and bool(body["message"])


async def _prove_off(figures: Figures, pool: Pool) -> None:
    tenant = await a_tenant(pool)
    async with rest_api(pool) as api:
        answers = [
            await AlpacaBot(api.client, tenant.account.id, tenant.key).ask(method, path)
            for method, path in (("GET", "/account"), ("GET", "/orders"), ("POST", "/orders"), ("DELETE", "/orders"))
        ]
    figures.exactly("routes answered where it is not switched on", sum(each.status_code != 404 for each in answers), 0)
