"""Limits counted in a real Redis: by all processes together, and by each alone while it does not answer."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
from structlog.testing import capture_logs

from openbell_server.adapters.rate_limits import redis_windows
from openbell_server.adapters.rate_limits.local_windows import LocalWindows
from openbell_server.adapters.rate_limits.redis_windows import ANSWER_SECONDS, AWAY_SECONDS, RedisWindows
from openbell_server.application.access.ports.rate_limits import Window
from openbell_server.devtools import local_redis
from openbell_server.devtools.child_processes import ChildFailed, free_port
from openbell_server.devtools.local_redis import LocalRedis
from support.brokers.paper_broker import until

# Longer than the test: what passed stays counted.
WINDOWS = (Window(20, 60),)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalRedis]:
    redis = LocalRedis(tmp_path_factory.mktemp("redis"), free_port())
    redis.start()
    yield redis
    redis.stop()


@pytest.fixture
def redis(server: LocalRedis) -> LocalRedis:
    server.start()
    return server


@pytest.fixture
def one_minute_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits for Redis on a machine that is slow."""
    monkeypatch.setattr(redis_windows, "ANSWER_SECONDS", 60.0)
    monkeypatch.setattr(redis_windows, "CONNECT_SECONDS", 60.0)


@asynccontextmanager
async def processes(redis: LocalRedis, count: int) -> AsyncIterator[list[RedisWindows]]:
    """As many as there would be processes, each with windows of its own."""
    opened = [RedisWindows(redis.url, LocalWindows(time.monotonic), time.monotonic) for _ in range(count)]
    try:
        for each in opened:
            await each.connect()
        yield opened
    finally:
        for each in opened:
            await each.close()


async def passed(process: RedisWindows, name: str, calls: int, windows: tuple[Window, ...] = WINDOWS) -> int:
    return sum([await process.take(name, windows) is None for _ in range(calls)])


async def uses_redis(process: RedisWindows) -> bool:
    before = process.counted_alone
    await process.take(f"probe {uuid4()}", WINDOWS)
    return process.counted_alone == before


@pytest.mark.usefixtures("one_minute_timeouts")
async def test_processes_share_one_limit(redis: LocalRedis) -> None:
    name = f"name {uuid4()}"
    async with processes(redis, 2) as (one, two):
        assert await passed(one, name, 15) == 15
        assert await passed(two, name, 15) == 5
        full = await two.take(name, WINDOWS)
        assert full is not None
        assert full.window == WINDOWS[0]
        assert 50 < full.wait_seconds <= 60
        assert (one.counted_alone, two.counted_alone) == (0, 0)


@pytest.mark.usefixtures("one_minute_timeouts")
async def test_calls_at_once_do_not_slip_through(redis: LocalRedis) -> None:
    name = f"name {uuid4()}"
    async with processes(redis, 2) as opened:
        counts = await asyncio.gather(*(passed(each, name, 4) for each in opened for _ in range(6)))
        assert sum(counts) == 20


@pytest.mark.usefixtures("one_minute_timeouts")
async def test_a_full_minute_refuses_even_in_a_fresh_second(redis: LocalRedis) -> None:
    async with processes(redis, 2) as (one, two):
        both = (Window(100, 1), Window(20, 60))
        name = f"name {uuid4()}"
        assert await passed(one, name, 20, both) == 20
        full = await two.take(name, both)
        assert full is not None
        assert full.window == both[1]


@pytest.mark.parametrize("how", ["killed", "paused"])
async def test_without_redis_each_process_keeps_the_limit_by_itself_and_says_so(redis: LocalRedis, how: str) -> None:
    name = f"name {uuid4()}"
    async with processes(redis, 2) as (one, two):
        with capture_logs() as logs:
            # Of the limit, 15 have passed here and are remembered here.
            assert await passed(one, name, 15) == 15
            pid = redis.pid or 0
            if how == "killed":
                redis.kill()
            else:
                os.kill(pid, signal.SIGSTOP)
            try:
                begun = time.monotonic()
                assert await passed(one, name, 100) == 5
                assert await passed(two, name, 100) == 20
                assert time.monotonic() - begun < AWAY_SECONDS
            finally:
                if how == "paused":
                    os.kill(pid, signal.SIGCONT)
                redis.start()
            assert (one.counted_alone, two.counted_alone) == (5, 20)
            for each in (one, two):
                await until(partial(uses_redis, each), 60)
        # Each whenever it left Redis, and came back; on a busy machine one may leave a Redis that has just begun.
        said = [line["event"] for line in logs]
        assert said.count("rate_limits_counted_per_process") == said.count("rate_limits_counted_in_redis") >= 2


async def test_no_call_waits_for_a_redis_that_is_known_to_be_away(redis: LocalRedis) -> None:
    async with processes(redis, 1) as (process,):
        os.kill(redis.pid or 0, signal.SIGSTOP)
        try:
            assert not await uses_redis(process)
            process._try_at = 0.0
            waits = await asyncio.gather(*(_seconds(process) for _ in range(20)))
        finally:
            os.kill(redis.pid or 0, signal.SIGCONT)
        assert max(waits) < ANSWER_SECONDS
        await until(partial(uses_redis, process), 60)


async def test_a_process_that_starts_before_redis_finds_it_later(redis: LocalRedis) -> None:
    redis.kill()
    async with processes(redis, 1) as (process,):
        assert not await uses_redis(process)
        redis.start()
        await until(partial(uses_redis, process), 60)


async def _seconds(process: RedisWindows) -> float:
    begun = time.monotonic()
    await process.take(f"name {uuid4()}", WINDOWS)
    return time.monotonic() - begun


def test_a_machine_without_redis_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("OPENBELL_REDIS_BIN", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ChildFailed, match="apt-get install redis-server"):
        local_redis.find_redis()
    old = tmp_path / "redis-server"
    old.write_text("#!/bin/sh\necho 'Redis server v=5.0.14 sha=00000000:0'\n")
    old.chmod(0o755)
    monkeypatch.setenv("OPENBELL_REDIS_BIN", str(old))
    with pytest.raises(ChildFailed, match=r"6\.2 or newer"):
        local_redis.find_redis()
