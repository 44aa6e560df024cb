"""A death at the n-th reach of a named crash point, in a world that is otherwise quiet."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from openbell_server.application import crash_points
from simulation.bus import BusFaults
from simulation.faults import Faults
from simulation.load import Mixture
from simulation.loop import PROCESS, Killed
from simulation.venue import BrokerFaults
from simulation.world import DatabaseFaults, World

REVIVE_SECONDS: Final = 1.0
# One intent, with the command that is to die as its last.
COMMANDS: Final = {
    "CREATE": Mixture(intents=1, seconds=2, market=1, replaced=0, cancelled=0),
    "REPLACE": Mixture(intents=1, seconds=2, market=0, replaced=1, cancelled=0, patience=1.5),
    "CANCEL": Mixture(intents=1, seconds=2, market=0, replaced=0, cancelled=1, patience=1.5),
}
MOODS: Final = {
    "honest": BrokerFaults(refused=0),
    "silent": BrokerFaults(refused=0, unanswered=1),
    "deaf": BrokerFaults(refused=0, lost=1),
    # Somebody died past the door before: the n-th reach is of that one, and the point is met by who comes after it.
    "abandoned": BrokerFaults(refused=0),
}
PAST_DOOR: Final = "executor.after_door"


def in_a_mood(mood: str) -> Faults:
    """Nothing goes wrong but what the broker's mood is, and the death itself."""
    return Faults(broker=MOODS[mood], bus=BusFaults(), database=DatabaseFaults(), blows=1e9)


@dataclass(slots=True)
class Crash:
    """Kills whichever process comes to a point, once."""

    world: World
    # The last is the one it is about.
    points: list[str]
    reach: int
    has_happened: bool = False

    @contextmanager
    def armed(self) -> Iterator[None]:
        """While this lasts."""
        crash_points.arm(self.points[0], self._come)
        try:
            yield
        finally:
            crash_points.arm("")

    def _come(self) -> None:
        self.reach -= 1
        if self.reach > 0:
            return
        process = PROCESS.get()
        assert process is not None
        self.world.note(f"dies at {self.points.pop(0)}")
        self.has_happened = not self.points
        crash_points.arm(self.points[0] if self.points else "", self._come)
        self.world.kill(process.name)
        self.world.loop.call_later(REVIVE_SECONDS, self.world.start, process.name, context=self.world.outside)
        raise Killed


def crash_of(world: World, point: str, reach: int, mood: str) -> Crash:
    """The death that a plan asks for, if any."""
    return Crash(world, [PAST_DOOR, point] if mood == "abandoned" else [point], reach)
