"""Runs every scenario at a broker, or at all of them: python -m conformance [BROKER]."""

import argparse
import asyncio
import sys

from conformance.run import SCENARIOS, Verdict, run_all, table, write
from openbell_server.brokers.registry import BROKERS


def main() -> int:
    parser = argparse.ArgumentParser(description="Find out whether brokers do what every broker must.")
    parser.add_argument("broker", nargs="?", choices=sorted(BROKERS))
    parser.add_argument("--only", default="", help="words that the name of a scenario must have")
    chosen = parser.parse_args()
    brokers = [chosen.broker] if chosen.broker else list(BROKERS)
    scenarios = [each for each in SCENARIOS if chosen.only in each.name]
    results = asyncio.run(run_all(brokers, scenarios))
    if not chosen.only:
        write(results)
    print(table(results))
    return 1 if any(result.verdict is Verdict.FAILED for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
