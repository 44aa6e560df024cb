"""The simulated loop: time is virtual, the seed decides who goes next, and the dead do nothing more."""

import asyncio
import gc
import sys
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest

from simulation.loop import Deadlock, Process, SimulatedLoop


def simulate(main: Coroutine[Any, Any, Any], seed: int = 1) -> tuple[Any, str]:
    """What comes of it, and the trace."""
    loop = SimulatedLoop(seed, 10_000)
    try:
        return loop.run_until_complete(main), loop.trace.hexdigest()
    finally:
        loop.abandon()


async def race() -> str:
    order: list[str] = []

    async def run(name: str) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
            order.append(name)

    await asyncio.gather(*(run(name) for name in "abcd"))
    return "".join(order)


def test_the_same_seed_is_the_same_run_and_another_is_another() -> None:
    assert simulate(race(), 1) == simulate(race(), 1)
    assert len({simulate(race(), seed)[0] for seed in range(10)}) > 5


def test_time_passes_only_when_nothing_is_ready() -> None:
    async def sleep() -> float:
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time()

    assert simulate(sleep())[0] == 3600


def test_waiting_for_what_never_comes_is_noticed() -> None:
    async def wait() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Deadlock, match="nothing is ready"):
        simulate(wait())


def test_going_on_for_ever_is_noticed() -> None:
    async def spin() -> None:
        for _ in range(20_000):
            await asyncio.sleep(0)

    with pytest.raises(Deadlock, match="still going"):
        simulate(spin())


def test_threads_and_sockets_are_refused() -> None:
    async def escape() -> None:
        with pytest.raises(RuntimeError, match="threads"):
            await asyncio.to_thread(print)
        with pytest.raises(RuntimeError, match="escape"):
            await asyncio.open_connection("127.0.0.1", 1)

    simulate(escape())


async def two_beats(process: Process, beats: list[float]) -> None:
    async def beat() -> None:
        try:
            while True:
                await asyncio.sleep(1)
                beats.append(asyncio.get_running_loop().time())
        finally:
            beats.append(-1)

    process.start(beat())
    await asyncio.sleep(2.5)


def test_a_killed_process_does_nothing_more_and_cleans_nothing_up() -> None:
    async def main() -> list[float]:
        process, beats = Process("one"), list[float]()
        await two_beats(process, beats)
        process.is_dead = True
        await asyncio.sleep(10)
        return [*beats]

    assert simulate(main())[0] == [1, 2]


def test_a_generator_that_a_killed_process_leaves_is_let_go_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)

    async def beats() -> AsyncIterator[float]:
        while True:
            yield asyncio.get_running_loop().time()

    async def leave_one() -> None:
        abandoned = beats()
        await anext(abandoned)
        del abandoned
        gc.collect()

    simulate(leave_one())
    assert said == []


def test_a_paused_process_goes_on_where_it_was_when_it_is_resumed() -> None:
    async def main() -> list[float]:
        process, beats = Process("one"), list[float]()
        await two_beats(process, beats)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        loop.pause(process)
        await asyncio.sleep(10)
        loop.resume(process)
        await asyncio.sleep(1.5)
        return [*beats]

    assert simulate(main())[0] == [1, 2, 12.5, 13.5]
