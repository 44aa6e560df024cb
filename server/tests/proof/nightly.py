"""Runs every part at full size whose last result is older than the code that it covers."""

import subprocess
import sys
import time

from proof.parts import PARTS
from proof.results import Result, read_result

NOT_ENDED = "did not end"


def run_nightly() -> int:
    """0 if every result is current and reaches its bars.

    A result is written when its part ends, so a run that is interrupted goes on with the next part when it is started
    again, on this machine or another that has the results.
    """
    lines: list[tuple[str, str, Result | None, float]] = []
    for name in sorted(name for name, part in PARTS.items() if part.covers):
        last = read_result(name)
        if last and last.is_current and not last.shortfalls:
            lines.append((name, "current", last, 0.0))
            continue
        print(f"== proof {name}", flush=True)
        begun = time.monotonic()
        status = measure(name)
        result = read_result(name)
        verdict = NOT_ENDED if result == last and status else "measured"
        lines.append((name, verdict, result, time.monotonic() - begun))
    for line in lines:
        print(_describe(*line), flush=True)
    return int(any(verdict == NOT_ENDED or not result or result.shortfalls for _, verdict, result, _ in lines))


def measure(part: str) -> int:
    """Run a part in a process of its own; its exit status."""
    return subprocess.run([sys.executable, "-m", "proof", part], check=False).returncode


def _describe(name: str, verdict: str, result: Result | None, seconds: float) -> str:
    took = f"{seconds:.0f} s" if seconds else ""
    if not result:
        return f"{name:<12} {verdict:<12} {took:>7}"
    short = "; ".join(f"short of its bar: {figure}" for figure in result.shortfalls)
    commit = result.commit[:10] or "no commit"
    return f"{name:<12} {verdict:<12} {took:>7} {commit:<10} {result.date} {short}".rstrip()
