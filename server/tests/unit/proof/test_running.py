"""How the gate runs its parts, and how a part waits for a backlog."""

import sys
import time

import pytest

from proof.jobs import Job, run_jobs
from proof.waiting import until_none_left


def job(name: str, program: str) -> Job:
    return Job(name, [sys.executable, "-c", program])


def test_jobs_run_beside_each_other_and_the_output_of_each_is_printed_as_a_whole(
    capfd: pytest.CaptureFixture[str],
) -> None:
    program = "import time\nfor _ in range(3): print('{0}', flush=True); time.sleep(0.2)"
    ended = run_jobs([job("a", program.format("from a")), job("b", program.format("from b"))], at_once=2)
    assert {(end.name, end.status) for end in ended} == {("a", 0), ("b", 0)}
    printed = capfd.readouterr().out
    assert "from a\n" * 3 in printed
    assert "from b\n" * 3 in printed


def test_the_first_job_that_fails_ends_the_others(capfd: pytest.CaptureFixture[str]) -> None:
    begun = time.monotonic()
    slow = "import time; time.sleep(600)"
    ended = run_jobs([job("slow", slow), job("bad", "raise SystemExit(3)"), job("never", slow)], at_once=2)
    assert [(end.name, end.status) for end in ended] == [("bad", 3)]
    assert time.monotonic() - begun < 300
    printed = capfd.readouterr().out
    assert "FAILED with status 3" in printed
    assert "== slow: interrupted" in printed


def test_on_request_a_job_that_fails_leaves_the_others() -> None:
    ended = run_jobs([job("bad", "raise SystemExit(3)"), job("good", "")], at_once=1, goes_on=True)
    assert [(end.name, end.status) for end in ended] == [("bad", 3), ("good", 0)]


@pytest.mark.parametrize(
    ("counts", "left"),
    [([5, 4, 3, 2, 1, 0], 0), ([5, 5, 4, 6, 3, 0], 0), ([5, 4, 4, 4, 0], 4), ([3, 9, 3, 0], 3), ([0], 0)],
)
async def test_a_backlog_is_waited_for_as_long_as_it_shrinks_and_no_longer(
    monkeypatch: pytest.MonkeyPatch, counts: list[int], left: int
) -> None:
    read = 0

    async def count() -> int:
        nonlocal read
        read += 1
        return counts[read - 1]

    # A second for each look.
    monkeypatch.setattr("proof.waiting.monotonic", lambda: float(read))
    assert await until_none_left(count, seconds=2) == left
