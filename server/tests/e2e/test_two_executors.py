"""Two executors share the accounts; when one dies or pauses, the other takes over, and nothing is sent twice."""

import asyncio
import signal
import time
from collections.abc import Iterator

import httpx
import pytest

from openbell import Action, Client, Limit, Market
from openbell_exchange.matching import reference_price
from openbell_server.devtools.child_processes import wait_until
from openbell_server.devtools.demo.ledgers import FAULTS, compare
from openbell_server.devtools.local_platform import LocalPlatform
from openbell_server.domain.identifiers import Symbol
from proof.books import read_books, until_settled
from proof.load import clients, submit_all


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalPlatform]:
    with LocalPlatform(tmp_path_factory.mktemp("logs"), accounts=12) as running:
        yield running


@pytest.fixture(autouse=True)
def both_running(platform: LocalPlatform) -> None:
    for name in ("executor", "executor-2"):
        if not platform.stack.is_running(name):
            platform.stack.start(name)
            platform.stack.wait_ready(name)


def agree(platform: LocalPlatform, accepted: list[Action]) -> None:
    async def judge() -> None:
        assert await until_settled(platform, 300) == 0
        async with clients(platform, 1) as (client,):
            comparison = compare(await read_books(platform, client, accepted))
        assert {fault: comparison.findings[fault] for fault in FAULTS} == {fault: [] for fault in FAULTS}

    asyncio.run(judge())


def test_both_work_and_the_ledgers_agree(platform: LocalPlatform) -> None:
    agree(platform, asyncio.run(submit_all(platform, 60, 8)))


@pytest.mark.parametrize("name", ["executor", "executor-2"])
def test_the_other_takes_over_from_the_dead(platform: LocalPlatform, name: str) -> None:
    platform.stack.kill(name)
    agree(platform, asyncio.run(submit_all(platform, 40, 8)))


def test_a_paused_executor_wakes_up_and_sends_nothing_twice(platform: LocalPlatform) -> None:
    platform.stack.kill("executor", signal.SIGSTOP)
    begun = time.monotonic()
    accepted = asyncio.run(submit_all(platform, 40, 8))
    assert wait_until(lambda: time.monotonic() - begun > 6, 180)
    platform.stack.kill("executor", signal.SIGCONT)
    agree(platform, accepted)


def test_what_happened_while_nobody_executed_is_learned_before_anything_is_sent(
    platform: LocalPlatform, client: Client
) -> None:
    price = reference_price(Symbol("TSLA"))
    resting = client.buy("TSLA", Limit(3, price=price / 2))
    assert wait_until(lambda: client.intent(resting.intent_id).status == "ACKED", 180)
    for name in ("executor", "executor-2"):
        platform.stack.kill(name)
    price_set = httpx.put(
        f"{platform.paper_url}/prices/TSLA", json={"price": str(price / 2)}, headers=platform.paper_operator, timeout=60
    )
    price_set.raise_for_status()
    after = client.buy("AAPL", Market(1))
    platform.stack.start("executor")
    filled, sent = client.wait(resting.intent_id), client.wait(after.intent_id)
    assert filled.execution is not None
    assert sent.execution is not None
    assert filled.execution.status == sent.execution.status == "FILLED"
    # The comparison came first: the old order's fill was recorded before the new order was.
    assert filled.execution.updated_at < sent.execution.updated_at
