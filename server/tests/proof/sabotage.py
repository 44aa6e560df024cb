"""Deliberate faults: the simulation's checker catches those of the executor, and named tests catch all others."""

import contextlib
import resource
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue

from openbell_server.devtools.local_services import LocalServices
from proof.figures import Figures
from proof.sabotages import AREAS
from proof.sabotages.fault import ROOT, Fault
from proof.sabotages.patched_tree import DoesNotApply, PatchedTree
from simulation.many import WORKERS
from simulation.run import Plan, Verdict, run
from simulation.sabotages import SABOTAGES
from support.environment.cheap_defaults import FAST

# The rarest shows in one run of thirty: none is missed by chance.
SEEDS_MAX = 600
TREES = 2


def prove(figures: Figures) -> None:
    names = [*SABOTAGES]
    with ProcessPoolExecutor(WORKERS) as workers:
        caught = [verdict for verdict in workers.map(_first_caught, names) if _show(figures, verdict)]
    figures.exactly("sabotages caught", len(caught), len(names))
    _prove_patched(figures)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    figures.shown("CPU seconds", round(used.ru_utime + used.ru_stime, 1))


def _first_caught(name: str) -> Verdict:
    """The first run that a mistake shows in, or the last that was tried."""
    classes, first = SABOTAGES[name].classes, SABOTAGES[name].first_seed
    for seed in range(first, first + SEEDS_MAX):
        verdict = run(Plan(seed=seed, id_class=classes[seed % len(classes)], sabotage=name))
        if verdict.findings:
            break
    return verdict


def _show(figures: Figures, verdict: Verdict) -> bool:
    bars = sorted({bar for bar, _ in verdict.findings})
    figures.shown(f"caught: {verdict.plan.sabotage}", ", ".join(bars) or "not at all")
    print(verdict.plan.replay, flush=True)
    return bool(bars)


def _prove_patched(figures: Figures) -> None:
    """Patch every fault of the tables into a copy of the source or the schema, and run its tests against the copy."""
    faults = [fault for area in AREAS.values() for fault in area]
    problems = [problem for fault in faults if (problem := fault.problem()) is not None]
    for problem in problems:
        print(problem, flush=True)
    figures.exactly("faults that no longer apply", len(problems), 0)
    tests = sorted({test for fault in faults for test in fault.tests})
    trees: SimpleQueue[PatchedTree] = SimpleQueue()
    with contextlib.ExitStack() as servers, ThreadPoolExecutor(TREES) as workers:
        # Here and not by the workers: a server ends with the thread that started it.
        for at in range(TREES):
            services = servers.enter_context(LocalServices(FAST))
            tree = servers.enter_context(contextlib.closing(PatchedTree(ROOT / f"build/sabotage/{at}", services)))
            trees.put(tree)
        halves = [tests[at::TREES] for at in range(TREES)]
        broken = sum(workers.map(partial(_is_broken, trees), halves))
        figures.exactly("test runs that fail without a fault", broken, 0)
        caught = 0
        for fault, failed in zip(faults, workers.map(partial(_first_failed, trees), faults), strict=True):
            figures.shown(f"caught: {fault.name}", failed or "not at all")
            caught += bool(failed)
    figures.exactly("patched faults caught", caught, len(faults))


def _is_broken(trees: SimpleQueue[PatchedTree], tests: list[str]) -> bool:
    """Whether a test fails although there is no fault."""
    with _taken(trees) as tree:
        outcome = tree.run(tests)
    if outcome.returncode:
        print(outcome.output, flush=True)
    return bool(outcome.returncode)


def _first_failed(trees: SimpleQueue[PatchedTree], fault: Fault) -> str:
    """The first test that fails with the fault; empty if none does."""
    if fault.problem() is not None:
        return ""
    try:
        with _taken(trees) as tree, tree.patched(fault):
            outcome = tree.run(fault.tests, "-x")
    except DoesNotApply as error:
        print(error, flush=True)
        return ""
    if not outcome.failed:
        print(f"fault {fault.name!r} was not caught: pytest ended with {outcome.returncode}", flush=True)
        print(outcome.output, flush=True)
    return next(iter(outcome.failed), "")


@contextlib.contextmanager
def _taken(trees: SimpleQueue[PatchedTree]) -> Iterator[PatchedTree]:
    tree = trees.get()
    try:
        yield tree
    finally:
        trees.put(tree)
