"""Deliberate mistakes in the running code: the simulation catches every one of them, by the name of a bar."""

from concurrent.futures import ProcessPoolExecutor

from proof.figures import Figures
from simulation.many import WORKERS
from simulation.run import Plan, Verdict, run
from simulation.sabotages import SABOTAGES

# The rarest shows in one run of thirty: none is missed by chance.
SEEDS_MAX = 600


def prove(figures: Figures) -> None:
    names = [*SABOTAGES]
    with ProcessPoolExecutor(WORKERS) as workers:
        caught = [verdict for verdict in workers.map(_first_caught, names) if _show(figures, verdict)]
    figures.exactly("sabotages caught", len(caught), len(names))


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
