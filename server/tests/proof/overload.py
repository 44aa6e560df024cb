"""More commands than a process can accept: it goes on accepting what it can, and every cancel."""

import asyncio
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from statistics import median
from time import monotonic, perf_counter

import httpx

from openbell_server.application.intents.group_commit import WAITING_MAX
from proof.figures import Figures
from proof.posting import Posted, post
from proof.speed_bench import SpeedBench
from support.rest.rest_api import cancel_body, create_body

# A crowd and the calm around it, in turn: the speed of a machine changes within a minute.
PAIRS = 5
SECONDS = 12
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
        calm = [post(bench.folder, urls, key, accounts, 64, CALM_SECONDS, "calm").rate]
        crowds, canceled, recovered = [], [], []
        for number in range(PAIRS):
            crowd, took = asyncio.run(_crowded(bench, urls[0], accounts[0], calm[-1], number))
            crowds.append(crowd)
            canceled += took
            begun = monotonic()
            calm.append(post(bench.folder, urls, key, accounts, 64, CALM_SECONDS, f"after-{number}").rate)
            recovered.append(monotonic() - begun)
    capacities = [(before + after) / 2 for before, after in pairwise(calm)]
    goodputs = [crowd.rate - crowd.refused / SECONDS for crowd in crowds]
    offered = [crowd.rate for crowd in crowds]
    figures.shown("capacity, commands/s, median", round(median(calm)))
    figures.shown(f"offered in a crowd / capacity, median of {PAIRS} pairs", _ratio(offered, capacities))
    figures.shown("of these refused, %", round(100 * sum(each.refused for each in crowds) / sum(offered) / SECONDS, 1))
    figures.at_least(f"accepted in a crowd / capacity, median of {PAIRS} pairs", _ratio(goodputs, capacities), 0.85)
    figures.exactly("connections that broke", sum(crowd.broken for crowd in crowds), 0)
    figures.exactly("cancels in a crowd that were not accepted", sum(status != 202 for status, _ in canceled), 0)
    figures.shown("cancels in a crowd", len(canceled))
    figures.shown("cancels in a crowd, p50 ms", round(1000 * median(took for _, took in canceled), 1))
    figures.at_least(f"accepted after the crowd / before it, median of {PAIRS} pairs", _ratio(calm[1:], calm[:-1]), 0.8)
    figures.at_most("seconds after the crowd in which that was measured", round(max(recovered), 1), RECOVERY_SECONDS)


def _ratio(ours: Sequence[float], others: Sequence[float]) -> float:
    return round(median(mine / theirs for mine, theirs in zip(ours, others, strict=True)), 3)


async def _crowded(
    bench: SpeedBench, url: str, account: str, capacity: float, number: int
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
        crowd = asyncio.create_task(asyncio.to_thread(post_crowd, f"crowd-{number}", pause_millis=pause_millis))
        canceled = []
        for intent in intents:
            begun = perf_counter()
            answer = await client.post(address, json=cancel_body(intent))
            canceled.append((answer.status_code, perf_counter() - begun))
            await asyncio.sleep(1 / CANCELS_PER_SECOND)
        return await crowd, canceled
