"""Runs the parts that belong to the gate beside each other, and on request make targets beside them."""

import sys
from collections.abc import Sequence

from proof.jobs import Job, print_table, run_jobs
from proof.parts import PARTS

# The parts wait for processes to start and for leases to end: two of them do not keep two processors busy.
AT_ONCE = 3


def run_gate(targets: Sequence[str]) -> int:
    """0 if all succeeded; the targets start first."""
    parts = {name: part.gate_seconds for name, part in PARTS.items() if part.gate_seconds is not None}
    longest_first = sorted(parts, key=lambda name: parts[name] or 0, reverse=True)
    jobs = [Job(f"make {target}", ["make", "--no-print-directory", target]) for target in targets]
    jobs += [Job(f"proof {name}", [sys.executable, "-m", "proof", name, "--size", "gate"]) for name in longest_first]
    ended = run_jobs(jobs, AT_ONCE)
    print_table(ended)
    failed = [end.name for end in ended if end.status]
    if failed:
        print(f"FAILED: {', '.join(failed)}. The last lines of its output:", flush=True)
        print("\n".join(ended[-1].last_lines), flush=True)
    return int(bool(failed))
