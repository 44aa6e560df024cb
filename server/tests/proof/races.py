"""Whether fills, replaces, cancels and late reports may cross each other: matrices, a state machine, and shuffles."""

import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from random import Random

from proof.figures import Figures
from support.brokers.order_model import OPERATIONS, PICK_MAX, OrderMachine, Step, recorded_steps
from support.brokers.replace_matrices import MATRICES, REFUSED_AT_ONCE, wrong_rows
from support.brokers.shuffled_reports import DEPTH_MAX, a_history, followed, is_true, order_hash, shuffled
from support.brokers.single_order_broker import Habits

STEPS = 60
# Runs of the machine; histories, and shuffles of each.
SIZES = {"full": (2000, 1000, 100), "gate": (200, 100, 10)}
AT_ONCE = 2
SHOWN_MAX = 20


@dataclass(slots=True)
class Tried:
    """What was tried, and what of it went wrong."""

    number: int = 0
    most: int = 0
    wrong: list[str] = field(default_factory=list)


def prove(figures: Figures) -> None:
    runs, histories, shuffles = SIZES[figures.size]
    matrices = tried_matrices()
    figures.at_least("matrices of the FIX protocol", len(MATRICES), 5)
    figures.at_least("rows of them checked", matrices.number, 1)
    figures.exactly("rows after which our order is another", len(matrices.wrong), 0)
    machines = _spread(tried_machines, runs)
    figures.exactly(f"runs of the order machine of {STEPS} steps", machines.number, runs)
    figures.exactly("runs that broke an invariant, or ended unlike the broker's truth", len(machines.wrong), 0)
    shuffled_histories = _spread(partial(tried_shuffles, shuffles=shuffles), histories)
    figures.exactly("shuffles of reports with copies", shuffled_histories.number, histories * shuffles)
    figures.at_least("replaces of one order at most", shuffled_histories.most, DEPTH_MAX)
    figures.exactly("shuffles whose order has another hash", len(shuffled_histories.wrong), 0)
    for line in (matrices.wrong + machines.wrong + shuffled_histories.wrong)[:SHOWN_MAX]:
        print(line, file=sys.stderr)


def tried_matrices() -> Tried:
    """Each twice: what the broker did is told by its answers, or by its reports alone."""
    tried = Tried()
    for name, rows in {**MATRICES, "refused at once": REFUSED_AT_ONCE}.items():
        for by_report in (False, True):
            tried.number += len(rows)
            tried.wrong += [f"{name}, {by_report=}: {row}" for row in wrong_rows(rows, by_report=by_report)]
    return tried


def tried_machines(seeds: range) -> Tried:
    tried = Tried()
    with recorded_steps() as steps:
        for seed in seeds:
            tried.number += 1
            try:
                _run_machine(seed, steps)
            except Exception as error:  # noqa: BLE001 - every run counts, whatever another one did
                tried.wrong.append(f"machine {seed}: {type(error).__name__} {error}")
    return tried


def _run_machine(seed: int, steps: list[Step]) -> None:
    chance = Random(f"machine {seed}")
    versions = chance.random() < 0.7
    habits = Habits(
        tells_versions=versions,
        mints_ids=chance.random() < 0.5,
        overfills=chance.random() < 0.2,
        reopens_full=versions and chance.random() < 0.4,
        tells_all=chance.random() < 0.3,
    )
    machine = OrderMachine(habits, steps)
    for _ in range(STEPS):
        machine.do(chance.choice(OPERATIONS), chance.randrange(PICK_MAX))
    machine.finish(chance.randrange(PICK_MAX))


def tried_shuffles(numbers: range, shuffles: int) -> Tried:
    tried = Tried()
    for number in numbers:
        broker = a_history(number)
        in_order = followed(broker.feed)
        tried.most = max(tried.most, broker.replaces)
        if not is_true(in_order, broker):
            tried.wrong.append(f"history {number} is not followed to the broker's truth")
        for shuffle in range(shuffles):
            tried.number += 1
            reports = shuffled(broker.feed, Random(f"shuffle {number} {shuffle}"))
            if order_hash(followed(reports)) != order_hash(in_order):
                tried.wrong.append(f"history {number}, shuffle {shuffle}")
    return tried


def _spread(trial: Callable[[range], Tried], number: int) -> Tried:
    """Try all of them, on two processors."""
    step = max(1, number // 20)
    with ProcessPoolExecutor(AT_ONCE, get_context("fork")) as pool:
        parts = list(pool.map(trial, [range(begin, min(begin + step, number)) for begin in range(0, number, step)]))
    return Tried(
        sum(part.number for part in parts),
        max(part.most for part in parts),
        [line for part in parts for line in part.wrong],
    )
