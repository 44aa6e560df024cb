"""From a recorded command to its bytes at the broker, beside what it costs to make as much durable without us."""

import asyncio
import itertools
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter

import httpx
import nats
from nats.js.api import StreamConfig

from openbell_server.devtools.local_platform import LocalPlatform
from openbell_server.domain.identifiers import ActionId, client_order_id
from proof.books import rows
from proof.engines import Engines, create_floor
from proof.figures import Figures
from support.brokers.paper_broker import until
from support.rest.rest_api import create_body

PAIRS = 5
ACCOUNTS = 20
PER_SECOND = 100
SECONDS = 4
# What one small machine does at ease, with the load and the broker on it.
AT_EASE_PER_SECOND = 20
AT_EASE_RATIO_MAX = 6
PUBLISHED = 300
SETTLE_SECONDS = 60
_RECORDED = "select action_id, created_at from openbell.intent_actions where client_reference_id = $1"
_RECEIVED = "select client_order_id, received_at from requests where kind = 'SUBMIT' and client_order_id = any ($1)"


def measure(figures: Figures) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalPlatform(Path(folder) / "logs", accounts=ACCOUNTS) as platform,
    ):
        engines = Engines(platform.services.postgres, Path(folder))
        asyncio.run(create_floor(platform.services.postgres))
        asyncio.run(_waits(platform, "first", PER_SECOND))
        ours, bare, publishes, tails, at_ease, reached = [], [], [], [], [], []
        for number in range(PAIRS):
            publish = asyncio.run(_durable_publish(platform.services.nats.url))
            publishes.append(publish)
            bare.append(2 * 1000 / engines.floor(2, clients=1) + publish)
            at_ease.append(median(asyncio.run(_waits(platform, f"ease {number}", AT_EASE_PER_SECOND)).millis))
            waits = asyncio.run(_waits(platform, f"pair {number}", PER_SECOND))
            ours.append(median(waits.millis))
            tails.append(quantiles(waits.millis, n=100)[98])
            reached.append(waits.per_second)
    figures.shown("one durable publish, bare, p50 ms", round(median(publishes), 2))
    figures.shown("two commits and one durable publish, bare, ms", round(median(bare), 2))
    figures.shown(f"accept to wire at {AT_EASE_PER_SECOND}/s, p50 ms", round(median(at_ease), 2))
    figures.at_most(
        f"accept to wire at {AT_EASE_PER_SECOND}/s / two commits and one durable publish",
        round(_ratio(at_ease, bare), 2),
        AT_EASE_RATIO_MAX,
    )
    figures.shown(f"commands/s that reach the broker, of {PER_SECOND}/s", round(median(reached), 1))
    figures.shown(f"accept to wire at {PER_SECOND}/s, p50 ms", round(median(ours), 2))
    figures.shown(f"accept to wire at {PER_SECOND}/s, p99 ms", round(median(tails), 2))
    figures.at_most("accept to wire / two commits and one durable publish", round(_ratio(ours, bare), 2), 3)


def _ratio(ours: Sequence[float], bare: Sequence[float]) -> float:
    return median(mine / theirs for mine, theirs in zip(ours, bare, strict=True))


async def _durable_publish(url: str) -> float:
    """The median of one message after the other, acknowledged when it is on disk; in milliseconds."""
    connection = await nats.connect(url, connect_timeout=60)
    try:
        stream = connection.jetstream(timeout=60)
        await stream.add_stream(StreamConfig(name="BARE", subjects=["bare"], max_bytes=64 * 1024 * 1024))
        took = []
        for _ in range(PUBLISHED):
            begun = perf_counter()
            await stream.publish("bare", b"x" * 200)
            took.append(1000 * (perf_counter() - begun))
        return median(took)
    finally:
        await connection.close()


@dataclass(frozen=True)
class _Waits:
    # From the moment that a command was recorded at to the one at which the broker had read it.
    millis: list[float]
    per_second: float


async def _waits(platform: LocalPlatform, mark: str, per_second: int) -> _Waits:
    await _submit(platform, mark, per_second)
    recorded = await rows(platform.owner_url, _RECORDED, mark)
    moments = {client_order_id(ActionId(action)): created for action, created in recorded}
    ledger = platform.services.postgres.url("openbell_paper")
    received: dict[str, datetime] = {}

    async def all_received() -> bool:
        received.update(map(tuple, await rows(ledger, _RECEIVED, list(moments))))
        return len(received) == len(moments)

    await until(all_received, SETTLE_SECONDS)
    millis = [1000 * (received[name] - moment).total_seconds() for name, moment in moments.items()]
    return _Waits(millis, len(millis) / (max(received.values()) - min(moments.values())).total_seconds())


async def _submit(platform: LocalPlatform, mark: str, per_second: int) -> None:
    """So many commands a second, whether they are answered or not."""
    environment = platform.client_environment()
    accounts = itertools.cycle(platform.seeded.account_ids)
    body = {**create_body("Limit", price="1"), "client_reference_id": mark}
    headers = {"x-api-key": environment["OPENBELL_API_KEY"]}
    async with httpx.AsyncClient(base_url=environment["OPENBELL_URL"], headers=headers, timeout=60) as client:
        begun, calls = perf_counter(), []
        for number in range(per_second * SECONDS):
            await asyncio.sleep(max(0.0, begun + number / per_second - perf_counter()))
            calls.append(asyncio.ensure_future(client.post(f"/v1/accounts/{next(accounts)}/intents", json=body)))
        answers = await asyncio.gather(*calls)
    assert {answer.status_code for answer in answers} == {202}, {
        answer.text for answer in answers if answer.status_code != 202
    }
