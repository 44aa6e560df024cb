"""Runs one proof part: python -m proof <part> [--size gate]."""

import argparse
import importlib
import sys
import time
from pathlib import Path

from openbell_server.adapters.postgres import connection
from proof.figures import Figures

# A machine that stands still for as long is no finding; the platform's own processes keep their limit.
CONNECT_SECONDS = 60.0
PARTS = (
    "e2e",
    "frontdoor",
    "restart",
    "isolation",
    "commit",
    "upgrade",
    "contract",
    "authz",
    "tokens",
    "fuzz-http",
    "fuzz-grpc",
    "paging",
    "errors",
    "limits",
    "outbox",
    "health",
    "vault",
    "credentials",
    "secrets",
    "doctor",
    "simulation",
    "crashpoints",
    "races",
    "sabotage",
    "execution",
    "brokers",
    "kill",
    "backtest",
    "events",
    "webhooks",
    "subscribers",
    "fanout",
    "people",
    "controls",
    "speed",
    "bench",
)


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure one part of what the platform promises.")
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--size", choices=("full", "gate"), default="full")
    chosen = parser.parse_args()
    figures = Figures(chosen.part, chosen.size)
    connection.CONNECT_SECONDS = CONNECT_SECONDS
    begun = time.monotonic()
    importlib.import_module(f"proof.{chosen.part.replace('-', '_')}").prove(figures)
    figures.shown("seconds", round(time.monotonic() - begun, 1))
    figures.write(Path("build/proof"))
    return 0 if figures.ok else 1


if __name__ == "__main__":
    sys.exit(main())
