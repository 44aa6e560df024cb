"""What runs ended with when they were recorded, and whether they still do.

    python -m simulation.golden record            # all seeds again, into recorded/
    python -m simulation.golden compare 60        # the first seeds, on the recorded schedule
    python -m simulation.golden perturb 60 2      # the same seeds on another schedule
    python -m simulation.golden show 7            # one seed, to be read

Golden runs (golden_run.py) must end exactly as recorded, whatever the executor does in between. In the faulted runs of
run.py the number of statements decides which of them fails, so another executor meets other faults with the same seed:
of those only the summary is compared, which is that every intent is on record and no check finds anything.

Not compared, since a schedule may change it: times; ids; how many states an action or order passed through; the order
of trades; and whether a command that came after the end of its order has the broker's refusal or ours as its reason.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

from simulation.golden_run import GoldenEnd, golden_run
from simulation.run import Plan, run

FOLDER: Final = Path(__file__).parent / "recorded"
DIGESTS: Final = FOLDER / "digests.txt"
READABLE: Final = FOLDER / "first_seeds.json"
FAULTED: Final = FOLDER / "faulted.json"
# Of seeds and scripts that are meant to end otherwise: name, digest and reason of each.
MEANT: Final = FOLDER / "meant_differences.json"
SEEDS: Final = 2000
READABLE_SEEDS: Final = 20
FAULTED_SEEDS: Final = 200
CHUNK: Final = 10


def ends(seeds: Iterable[int], *, schedule: int = 0, workers: int = 1) -> Iterator[GoldenEnd]:
    """Run seeds, in order."""
    if workers == 1:
        yield from (golden_run(seed, schedule) for seed in seeds)
        return
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(partial(golden_run, schedule=schedule), seeds, chunksize=CHUNK)


def recorded_digests() -> dict[str, str]:
    """By the name of a seed."""
    return dict(line.split() for line in DIGESTS.read_text().splitlines())


def differing(found: Mapping[str, str], recorded: Mapping[str, str]) -> list[str]:
    """Names whose digest is neither the recorded one nor one that is meant."""
    meant = {(each["name"], each["digest"]) for each in meant_differences()}
    return [name for name, digest in found.items() if recorded.get(name) != digest and (name, digest) not in meant]


def meant_differences() -> list[dict[str, str]]:
    """Each with a reason."""
    listed: list[dict[str, str]] = json.loads(MEANT.read_text())
    assert all(set(each) == {"name", "digest", "reason"} and each["reason"] for each in listed), MEANT
    return listed


def explain(name: str, found: Sequence[object], recorded: Sequence[object] | None) -> Iterator[str]:
    """The lines of an end that were not recorded so."""
    if recorded is None:
        yield f"{name}: no readable record; run `show` here and at the commit of the record"
        return
    for place, (now, before) in enumerate(zip(found, recorded, strict=False)):
        if now != before:
            yield f"{name}, {place}:\n  recorded {json.dumps(before)}\n  now      {json.dumps(now)}"
    if len(found) != len(recorded):
        yield f"{name}: {len(found)} lines now, {len(recorded)} recorded"


def lines_of(end: GoldenEnd) -> list[object]:
    """An end to be read: a line for each intent, then positions and findings."""
    return [*end.outcomes, {"positions": end.positions, "findings": end.findings}]


def readable(path: Path = READABLE) -> dict[str, list[object]]:
    """Ends that are recorded as a whole."""
    found: dict[str, list[object]] = json.loads(path.read_text())
    return found


def write_readable(path: Path, recorded: Mapping[str, Sequence[object]]) -> None:
    """One line for each intent."""
    blocks = []
    for name, lines in recorded.items():
        content = ",\n".join(json.dumps(line, sort_keys=True) for line in lines)
        blocks.append(f"{json.dumps(name)}: [\n{content}\n]")
    path.write_text("{" + ",\n".join(blocks) + "}\n")


def faulted_summary(seeds: int, *, workers: int = 1) -> dict[str, int]:
    """What must hold of runs whose faults depend on the schedule."""
    plans = [Plan(seed=seed) for seed in range(seeds)]
    if workers == 1:
        verdicts = [run(plan) for plan in plans]
    else:
        with ProcessPoolExecutor(workers) as pool:
            verdicts = list(pool.map(run, plans, chunksize=CHUNK))
    return {
        "intents of each seed": min({verdict.intents for verdict in verdicts}),
        "findings": sum(len(verdict.findings) for verdict in verdicts),
    }


def record(seeds: int, workers: int) -> None:
    """Write what runs end with now."""
    FOLDER.mkdir(exist_ok=True)
    shown: dict[str, list[object]] = {}
    digests = []
    for end in ends(range(seeds), workers=workers):
        digests.append(f"{name_of(end.seed)} {end.digest}\n")
        if end.seed < READABLE_SEEDS:
            shown[name_of(end.seed)] = lines_of(end)
    DIGESTS.write_text("".join(digests))
    write_readable(READABLE, shown)
    FAULTED.write_text(json.dumps(faulted_summary(FAULTED_SEEDS, workers=workers)) + "\n")


def name_of(seed: int) -> str:
    return f"seed-{seed}"


def compare(seeds: int, *, schedule: int = 0, workers: int = 1) -> list[str]:
    """The names of seeds that end differently; says how."""
    recorded, shown = recorded_digests(), readable()
    wrong = []
    for end in ends(range(seeds), schedule=schedule, workers=workers):
        name = name_of(end.seed)
        if differing({name: end.digest}, recorded):
            wrong.append(name)
            print(f"{name} is now {end.digest}")
            print(*explain(name, lines_of(end), shown.get(name)), sep="\n", flush=True)
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description="Record golden runs, or compare runs with the record.")
    parser.add_argument("what", choices=("record", "compare", "perturb", "show"))
    parser.add_argument("number", nargs="?", type=int, default=SEEDS, help="of seeds; with show: the seed")
    parser.add_argument("schedule", nargs="?", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    chosen = parser.parse_args()
    if chosen.what == "record":
        record(chosen.number, chosen.workers)
    elif chosen.what == "show":
        for line in lines_of(golden_run(chosen.number, chosen.schedule)):
            print(json.dumps(line))
    else:
        schedule = chosen.schedule or int(chosen.what == "perturb")
        wrong = compare(chosen.number, schedule=schedule, workers=chosen.workers)
        print(f"{len(wrong)} of {chosen.number} seeds end differently")
        return int(bool(wrong))
    return 0


if __name__ == "__main__":
    sys.exit(main())
