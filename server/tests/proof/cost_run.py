"""Measures one platform: PYTHONPATH=server/tests .venv/bin/python -m proof.cost_run --burst 2000 [--statements].

It runs the openbell_server that is found first, so that the part `cost` can measure the code of another tree.
"""

import argparse
import asyncio
import json
import platform as python
import sysconfig
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import openbell_server
from openbell_server.devtools.stack import PROCESSES
from proof.cost_platform import metered, started
from proof.cost_report import Report, table


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to measure on one platform; 0 leaves a measurement out."""

    accounts: int = 20
    idle_seconds: float = 10
    burst: int = 2000
    rate: float = 0
    rate_seconds: float = 20
    counted: int = 0
    with_transactions: bool = True
    # By the command `all`.
    is_all: bool = False


def measure(wanted: Wanted) -> Report:
    processes = ("paper", "all") if wanted.is_all else PROCESSES
    with (
        tempfile.TemporaryDirectory() as folder,
        started(Path(folder), wanted.accounts, processes=processes) as platform,
    ):

        async def run() -> Report:
            async with metered(platform) as cost:
                # Every account is seen once, and every plan is made.
                await cost.warm(max(100, wanted.accounts))
                idle = await cost.idle(wanted.idle_seconds)
                burst = await cost.run(wanted.burst, idle) if wanted.burst else None
                steady = (
                    await cost.run(round(wanted.rate * wanted.rate_seconds), idle, wanted.rate) if wanted.rate else None
                )
                counted = None
                if wanted.counted:
                    counted = await cost.counted(
                        wanted.counted, wanted.idle_seconds, with_transactions=wanted.with_transactions
                    )
                return Report(
                    python_used(), str(Path(openbell_server.__file__).parents[3]), idle, burst, steady, counted
                )

        return asyncio.run(run())


def python_used() -> str:
    optimised = "--enable-optimizations" in str(sysconfig.get_config_var("CONFIG_ARGS"))
    how = "built with optimisation" if optimised else "built without optimisation"
    return f"{python.python_implementation()} {python.python_version()}, {how}"


def main() -> None:
    wanted = Wanted()
    parser = argparse.ArgumentParser(description="Measure what an intent costs on one platform.")
    parser.add_argument("--accounts", type=int, default=wanted.accounts)
    parser.add_argument("--idle", type=float, default=wanted.idle_seconds, help="seconds without intents")
    parser.add_argument("--burst", type=int, default=wanted.burst, help="intents as fast as they are accepted")
    parser.add_argument("--rate", type=float, default=wanted.rate, help="steady intents per second")
    parser.add_argument("--seconds", type=float, default=wanted.rate_seconds, help="of steady intents")
    parser.add_argument("--statements", action="store_true", help="one more burst, in which statements are counted")
    parser.add_argument("--all", action="store_true", help="the platform is run by the command `all`")
    parser.add_argument("--json", action="store_true", help="JSON only")
    chosen = parser.parse_args()
    report = measure(
        Wanted(
            accounts=chosen.accounts,
            idle_seconds=chosen.idle,
            burst=chosen.burst,
            rate=chosen.rate,
            rate_seconds=chosen.seconds,
            counted=(chosen.burst or 200) if chosen.statements else 0,
            is_all=chosen.all,
        )
    )
    print(json.dumps(asdict(report)))
    if not chosen.json:
        print("\n".join(table(report)))


if __name__ == "__main__":
    main()
