"""openbell-torture: what a bot does when the broker's answers get lost."""

import argparse
import asyncio
import random
import sys
from collections.abc import Sequence
from pathlib import Path

from openbell_exchange.faults import InvalidFaults
from openbell_torture import report
from openbell_torture.faults import PRESETS, plan
from openbell_torture.run import run
from openbell_torture.timeline import svg

_SEEDS = 1_000_000
FOUND, NOT_RUN = 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """0: nothing was found; 1: something was; 2: the bot was not tried."""
    parser = argparse.ArgumentParser(
        prog="openbell-torture",
        description="Runs a trading bot against a simulated Alpaca whose answers get lost, and reports what became of"
        " its orders. The bot finds the simulator in APCA_API_BASE_URL, with the key in APCA_API_KEY_ID and"
        " APCA_API_SECRET_KEY.",
    )
    parser.add_argument("--plan", default="lost-answers", help=f"{', '.join(PRESETS)}, or name=rate,…")
    parser.add_argument("--seed", type=int, help="the same seed gives the same faults; default: a new one")
    parser.add_argument("--seconds", type=float, default=60.0, help="when the bot is ended, if it does not end itself")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there, with every request")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write the result there as a test report")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write the result there as a picture")
    parser.add_argument("command", nargs="+", help="-- python mybot.py")
    chosen = parser.parse_args(arguments)
    seed = random.randrange(_SEEDS) if chosen.seed is None else chosen.seed  # noqa: S311 - of a test
    try:
        faults = plan(chosen.plan, seed)
    except InvalidFaults as wrong:
        print(f"openbell-torture: --plan: {wrong}", file=sys.stderr)
        return NOT_RUN
    print(f"plan {chosen.plan}, seed {seed}", flush=True)
    try:
        result = asyncio.run(run(chosen.command, chosen.plan, faults, chosen.seconds))
    except OSError as trouble:
        print(f"openbell-torture: the bot cannot be started: {trouble}", file=sys.stderr)
        return NOT_RUN
    print(report.text(result))
    for path, render in ((chosen.json, report.as_json), (chosen.junit, report.junit), (chosen.svg, svg)):
        if path is not None:
            path.write_text(render(result))
    if not result.actions:
        return NOT_RUN
    return FOUND if result.findings else 0


if __name__ == "__main__":
    sys.exit(main())
