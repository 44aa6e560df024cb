"""A death at every crash point, for every kind of broker and command, in simulation, and once in real processes."""

from collections.abc import Iterator
from dataclasses import replace

from openbell_server.application.crash_points import POINTS
from openbell_server.domain.orders.broker_guarantees import LookUp
from openbell_server.domain.orders.intents import ActionType
from proof import restart
from proof.figures import Figures
from simulation.crashes import COMMANDS, MOODS
from simulation.many import show, workers
from simulation.profiles import PROFILES
from simulation.run import Plan, Verdict

SIMULATED = tuple(sorted(point for point in POINTS if point.split(".")[0] in {"relay", "executor"}))
LOOKED_UP = {"executor.after_probe", "executor.inside_evidence"}
# Inside the transactions of one account: a new order of an account without rules is written by ticks instead.
LONG_WAY = {
    *("executor.before_door", "executor.inside_door", "executor.inside_outcome"),
    *("executor.inside_report", "executor.after_report"),
}
REACHES = 3
CELLS_AT_GATE = 8
Cell = tuple[str, str, str]


def prove(figures: Figures) -> None:
    every = [(point, kind, command) for point in SIMULATED for kind in PROFILES for command in COMMANDS]
    cells = [cell for cell in every if can_be_reached(*cell)]
    figures.shown("crash points in simulation", len(SIMULATED))
    if figures.size == "gate":
        cells = cells[:: len(cells) // CELLS_AT_GATE]
    with workers() as run_all:
        verdicts = list(run_all(plan for cell in cells for plan in _plans(cell)))
    died = [verdict for verdict in verdicts if verdict.has_crashed]
    figures.shown("deaths in simulation", len(died))
    missing = {*cells} - {_cell(verdict) for verdict in died}
    figures.exactly("points, brokers and commands without a death", len(missing), 0)
    for cell in sorted(missing):
        print("never died at", *cell, flush=True)
    show(figures, verdicts)
    if figures.size == "full":
        restart.prove_size(figures, REAL)


def can_be_reached(point: str, kind: str, command: str) -> bool:
    """Only what its broker enforces the id of is written again, and only what can be named is looked up."""
    capabilities, action_type = PROFILES[kind].capabilities, ActionType(command)
    if point in LONG_WAY and action_type is ActionType.CREATE:
        return False
    if point.endswith("_resend"):
        return capabilities.may_repeat(action_type)
    if point in LOOKED_UP:
        return action_type is not ActionType.CREATE or capabilities.look_up is LookUp.EVERY_ORDER
    return True


def _plans(cell: Cell) -> Iterator[Plan]:
    point, kind, command = cell
    for mood in MOODS:
        for reach in range(1, REACHES + 1):
            yield Plan(seed=0, id_class=kind, crash_at=point, command=command, mood=mood, reach=reach)


def _cell(verdict: Verdict) -> Cell:
    return verdict.plan.crash_at, verdict.plan.broker.name, verdict.plan.command


# Every point once, and no other trouble.
REAL = replace(
    restart.SIZES["full"],
    intents=300,
    accounts=8,
    clients=8,
    rate=8,
    kills=max(len(groups) for groups in restart.DEATHS.values()),
    kill_pause=0,
    stops=(),
    services=(),
)
