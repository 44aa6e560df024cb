"""CPU time of a platform's processes and of PostgreSQL's backends, from the scheduler's counters."""

import contextlib
import os
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ENDED: Final = "postgres: ended backends"
# The meter's own connection; not a part of the platform.
METER: Final = "postgres: meter"
_TICK_NANOS: Final = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_LOGIN_PREFIX: Final = "openbell_app_"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What every process has used so far, in nanoseconds."""

    taken_at: float
    # By process id, with the label of each.
    used: Mapping[int, tuple[str, int]]
    # By children of PostgreSQL that have ended, from their first moment on.
    ended: int


@dataclass(frozen=True, slots=True)
class CpuMeter:
    """Reads the CPU time of the named processes and of each child of one PostgreSQL."""

    processes: Mapping[str, int]
    postmaster: int

    def read(self) -> Snapshot:
        used: dict[int, tuple[str, int]] = {}
        for name, pid in self.processes.items():
            used[pid] = (name, _nanos(pid))
        for pid in [self.postmaster, *_children(self.postmaster)]:
            # A backend may end at any time.
            with contextlib.suppress(OSError):
                used[pid] = (_postgres_label(pid, self.postmaster), _nanos(pid))
        return Snapshot(time.monotonic(), used, _ended_nanos(self.postmaster))


def seconds_between(first: Snapshot, last: Snapshot) -> dict[str, float]:
    """CPU seconds by label, without those of the meter itself."""
    spent: Counter[str] = Counter()
    for pid, (label, nanos) in last.used.items():
        spent[label] += nanos - first.used.get(pid, ("", 0))[1]
    gone = sum(nanos for pid, (_, nanos) in first.used.items() if pid not in last.used)
    # Counted in ticks: less than a few of them are rounding.
    ended = last.ended - first.ended - gone
    if ended > 2 * _TICK_NANOS:
        spent[ENDED] = ended
    del spent[METER]
    return {label: nanos / 1e9 for label, nanos in spent.items()}


def with_children(pids: Mapping[str, int]) -> dict[str, int]:
    """The same, and the processes that the command `all` has started."""
    found = dict(pids)
    for pid in _children(pids["all"]) if "all" in pids else ():
        found[Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").rpartition("\0")[2]] = pid
    return found


def _nanos(pid: int) -> int:
    """The process's CPU clock: the scheduler's sum over all threads, also those that have ended.

    The sum over /proc/PID/task/*/schedstat has the same counters, but forgets a thread when it ends.
    """
    return time.clock_gettime_ns((~pid << 3) | 2)


def _fields(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _children(parent: int) -> list[int]:
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    return [int(pid) for pid in children.split()]


def _ended_nanos(pid: int) -> int:
    fields = _fields(pid)
    return _TICK_NANOS * (int(fields[13]) + int(fields[14]))


def _postgres_label(pid: int, postmaster: int) -> str:
    """Whose work it does. Each process of the platform has its own login, the paper broker its own database.

    PostgreSQL listens on a Unix socket only, where the peer of a connection cannot be looked up by port.
    """
    if pid == postmaster:
        return "postgres: postmaster"
    title = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip().removeprefix("postgres: ")
    words = title.split()
    if "[local]" not in words:
        return f"postgres: {title}"
    login, database = words[0], words[1]
    if login.startswith(_LOGIN_PREFIX):
        return f"postgres: for {login.removeprefix(_LOGIN_PREFIX)}"
    return "postgres: for paper" if database == "openbell_paper" else METER
