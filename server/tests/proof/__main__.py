"""Runs proof parts: python -m proof <part> [--size gate], python -m proof gate, python -m proof nightly."""

import argparse
import importlib
import sys
import time

from openbell_server.adapters.postgres import connection
from proof import results
from proof.figures import Figures
from proof.gate import run_gate
from proof.nightly import run_nightly
from proof.parts import PARTS
from support.environment.cheap_defaults import use_cheap_defaults
from support.environment.forked_processes import fork_platform_processes

# A machine that stands still for as long is no finding; the platform's own processes keep their limit.
CONNECT_SECONDS = 60.0


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure one part of what the platform promises.")
    parser.add_argument("part", choices=(*PARTS, "gate", "nightly"))
    parser.add_argument("targets", nargs="*", help="with gate: make targets to run beside the parts")
    parser.add_argument("--size", choices=("full", "gate"), default="full")
    chosen = parser.parse_args()
    if chosen.part == "gate":
        return run_gate(chosen.targets)
    if chosen.part == "nightly":
        return run_nightly()
    commit = results.commit_of(chosen.part)
    figures = Figures(chosen.part, chosen.size)
    connection.CONNECT_SECONDS = CONNECT_SECONDS
    use_cheap_defaults()
    if chosen.size == "gate":
        # Full sizes measure processes as an operator starts them.
        fork_platform_processes()
    begun = time.monotonic()
    importlib.import_module(f"proof.{chosen.part.replace('-', '_')}").prove(figures)
    figures.shown("seconds", round(time.monotonic() - begun, 1))
    if chosen.size == "full" and PARTS[chosen.part].covers:
        results.record(chosen.part, commit, figures.rows)
    return 0 if figures.ok else 1


if __name__ == "__main__":
    sys.exit(main())
