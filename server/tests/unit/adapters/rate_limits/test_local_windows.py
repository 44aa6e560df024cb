"""Windows in one process: exact, and bounded."""

from dataclasses import dataclass

import pytest

from openbell_server.adapters.rate_limits import local_windows
from openbell_server.adapters.rate_limits.local_windows import LocalWindows
from openbell_server.application.access.ports.rate_limits import Window

SECOND, MINUTE = Window(100, 1), Window(3000, 60)


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


async def passed(windows: LocalWindows, calls: int, name: str = "a") -> int:
    return sum([await windows.take(name, (SECOND, MINUTE)) is None for _ in range(calls)])


async def full(windows: LocalWindows) -> tuple[Window, float]:
    refused = await windows.take("a", (SECOND, MINUTE))
    assert refused is not None
    return refused.window, round(refused.wait_seconds, 6)


async def test_any_second_lets_the_limit_pass_and_no_more() -> None:
    clock = Clock()
    windows = LocalWindows(clock)
    admitted: list[float] = []
    for step in range(500):
        clock.now = 1000 + step / 100
        admitted += [clock.now] * await passed(windows, 7)
    for start in admitted:
        assert sum(start <= each < start + 1 - 1e-9 for each in admitted) <= 100
    assert 450 <= len(admitted) <= 500


async def test_a_refused_call_is_not_counted_and_hears_when_the_next_may_pass() -> None:
    clock = Clock()
    windows = LocalWindows(clock)
    assert await passed(windows, 100) == 100
    clock.now += 0.75
    for _ in range(3):
        assert await full(windows) == (SECOND, 0.25)
    clock.now += 0.25
    assert await passed(windows, 101) == 100


async def test_the_window_that_stays_full_for_longest_is_named() -> None:
    clock = Clock()
    windows = LocalWindows(clock)
    for _ in range(30):
        assert await passed(windows, 100) == 100
        clock.now += 1
    assert await full(windows) == (MINUTE, 30)
    clock.now += 30
    assert await passed(windows, 101) == 100


async def test_names_are_counted_apart() -> None:
    windows = LocalWindows(Clock())
    assert await passed(windows, 101, "a") == 100
    assert await passed(windows, 101, "b") == 100


async def test_names_out_of_use_are_forgotten_and_their_number_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_windows, "NAMES_MAX", 50)
    clock = Clock()
    windows = LocalWindows(clock)
    for number in range(200):
        await passed(windows, 1, f"name {number}")
        assert len(windows._passed) <= 50
    clock.now += 61
    for number in range(60):
        await passed(windows, 1, f"later {number % 2}")
    assert set(windows._passed) == {"later 0", "later 1"}
