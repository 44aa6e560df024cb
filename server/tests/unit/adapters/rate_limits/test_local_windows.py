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


async def test_names_out_of_use_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_windows, "NAMES_MAX", 50)
    clock = Clock()
    windows = LocalWindows(clock)
    for number in range(40):
        await windows.take(f"name {number}", (SECOND,), f"owner {number % 2}")
    clock.now += 61
    for number in range(60):
        await windows.take(f"later {number % 2}", (SECOND,), "owner 0")
    assert {owner: set(names) for owner, names in windows._passed.items()} == {"owner 0": {"later 0", "later 1"}}


async def test_made_up_names_share_one_window_and_leave_the_windows_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_windows, "NAMES_MAX", 50)
    windows = LocalWindows(Clock())
    two = (Window(2, 1),)
    assert [await windows.take("real", two, owner) is None for owner in ("a", "b") for _ in range(2)] == [True] * 4
    passed_names = [await windows.take(f"made up {number}", two, "a") is None for number in range(200)]
    assert sum(passed_names) == 49 + 2, "49 have a window each, all others share one"
    assert len(windows._passed["a"]) == 51
    for owner in ("a", "b"):
        assert await windows.take("real", two, owner) is not None, "no window was emptied"
