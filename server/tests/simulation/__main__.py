"""Runs one plan and prints its trace: python -m simulation --seed 7; or prints the traces of many seeds."""

import argparse
import sys

from simulation.crashes import COMMANDS, MOODS
from simulation.profiles import PROFILES
from simulation.run import Plan, run


def main() -> int:
    parser = argparse.ArgumentParser(description="Run one simulation again.")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--class", dest="id_class", choices=("", *PROFILES), default="")
    parser.add_argument("--crash-at", default="")
    parser.add_argument("--reach", type=int, default=1)
    parser.add_argument("--command", choices=tuple(COMMANDS), default="CREATE")
    parser.add_argument("--mood", choices=tuple(MOODS), default="honest")
    parser.add_argument("--sabotage", default="")
    parser.add_argument("--traces", type=int, default=0, help="print only the traces of so many seeds from this one on")
    chosen = vars(parser.parse_args())
    traces = chosen.pop("traces")
    if traces:
        for seed in range(chosen["seed"], chosen["seed"] + traces):
            print(seed, run(Plan(seed=seed)).trace, flush=True)
        return 0
    verdict = run(Plan(**chosen), show=True)
    for bar, sentence in verdict.findings:
        print(f"{bar}: {sentence}")
    print(f"{verdict.plan.replay}: {len(verdict.findings)} findings, trace {verdict.trace}")
    return 1 if verdict.findings else 0


if __name__ == "__main__":
    sys.exit(main())
