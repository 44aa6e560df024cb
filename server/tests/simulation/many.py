"""Many runs on two cores, and what they come to."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager

from proof.figures import Figures
from simulation.checker import Bar
from simulation.run import Plan, Verdict, run

WORKERS = 2
CHUNK = 4
SHOWN_MAX = 10


@contextmanager
def workers() -> Iterator[Callable[[Iterable[Plan]], Iterator[Verdict]]]:
    """What runs plans beside each other, with verdicts in the order of the plans."""
    with ProcessPoolExecutor(WORKERS) as pool:
        yield lambda plans: pool.map(run, plans, chunksize=CHUNK)


def show(figures: Figures, verdicts: list[Verdict]) -> None:
    """Every bar with its count, which must be none; of what broke one, the command that runs it again."""
    counts = Counter(bar for verdict in verdicts for bar, _ in verdict.findings)
    for bar in Bar:
        figures.exactly(bar, counts[bar], 0)
    broken = [verdict for verdict in verdicts if verdict.findings]
    for verdict in broken[:SHOWN_MAX]:
        bar, sentence = verdict.findings[0]
        print(f"{verdict.plan.replay}  # {bar}: {sentence}", flush=True)
