"""More commands than a process can accept: it goes on accepting what it can, and every cancel."""

import asyncio
from functools import partial
from statistics import median
from time import monotonic, perf_counter

import httpx

from openbell_server.application.intents.group_commit import WAITING_MAX
from proof.figures import Figures
from proof.posting import Posted, post
from proof.speed_bench import SpeedBench
from support.rest.rest_api import cancel_body, create_body

SECONDS = 60
CALM_SECONDS = 5
# As many as a server takes, each with one command at a time: more than may wait.
CONNECTIONS = 1_900
# How many times more is offered than can be accepted.
TIMES = 2
CANCELS_PER_SECOND = 10
RECOVERY_SECONDS = 10


def measure(figures: Figures, bench: SpeedBench) -> None:
    key, accounts = bench.tenant.key, bench.accounts[:500]
    with bench.serving(1) as urls:
        post(bench.folder, urls, key, accounts, 64, CALM_SECONDS, "first")
        calm = post(bench.folder, urls, key, accounts, 64, CALM_SECONDS, "calm")
        crowd, canceled = asyncio.run(_crowded(bench, urls[0], accounts[0], calm.rate))
        begun = monotonic()
        after = post(bench.folder, urls, key, accounts, 64, RECOVERY_SECONDS // 2, "after")
        recovered = monotonic() - begun
    offered, goodput = crowd.rate, crowd.rate - crowd.refused / SECONDS
    figures.shown("capacity, commands/s", round(calm.rate))
    figures.shown("offered in a crowd / capacity", round(offered / calm.rate, 2))
    figures.shown("of these refused, %", round(100 * crowd.refused / (crowd.rate * SECONDS), 1))
    figures.at_least("accepted in a crowd / capacity", round(goodput / calm.rate, 3), 0.85)
    figures.exactly("connections that broke", crowd.broken, 0)
    figures.exactly("cancels in a crowd that were not accepted", sum(status != 202 for status, _ in canceled), 0)
    figures.shown("cancels in a crowd", len(canceled))
    figures.shown("cancels in a crowd, p50 ms", round(1000 * median(took for _, took in canceled), 1))
    figures.at_least("accepted after the crowd / capacity", round(after.rate / calm.rate, 3), 0.8)
    figures.at_most("seconds after the crowd in which that was measured", round(recovered, 1), RECOVERY_SECONDS)


async def _crowded(
    bench: SpeedBench, url: str, account: str, capacity: float
) -> tuple[Posted, list[tuple[int, float]]]:
    # Whoever is accepted has waited for those before it, and the others for nothing.
    waits = WAITING_MAX / capacity / TIMES
    pause_millis = max(1, round(1000 * (CONNECTIONS / capacity / TIMES - waits)))
    post_crowd = partial(post, bench.folder, [url], bench.tenant.key, bench.accounts[:500], CONNECTIONS, SECONDS)
    address, headers = f"{url}/v1/accounts/{account}/intents", {"x-api-key": bench.tenant.key}
    async with httpx.AsyncClient(headers=headers, timeout=60) as client:
        intents = []
        for _ in range(SECONDS * CANCELS_PER_SECOND // 2):
            answer = await client.post(address, json=create_body("Limit", price="1"))
            intents.append(answer.json()["intent_id"])
        crowd = asyncio.create_task(asyncio.to_thread(post_crowd, "crowd", pause_millis=pause_millis))
        canceled = []
        for intent in intents:
            begun = perf_counter()
            answer = await client.post(address, json=cancel_body(intent))
            canceled.append((answer.status_code, perf_counter() - begun))
            await asyncio.sleep(1 / CANCELS_PER_SECOND)
        return await crowd, canceled
