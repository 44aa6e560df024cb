"""What goes wrong in a run, drawn from its seed: rates for the services, and a nemesis for the processes."""

import asyncio
import random
from dataclasses import dataclass

from simulation.bus import BusFaults
from simulation.venue import BrokerFaults
from simulation.world import DatabaseFaults, World

PAUSE_SECONDS = (1.0, 30.0)
MUTE_SECONDS_MAX = 25.0
# No blow falls.
CALM_SECONDS = 1e9
PROCESSES = ("executor-1", "executor-2", "relay-1", "relay-2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Rates of one run; each is off in many runs, so that some meet one kind of trouble alone."""

    broker: BrokerFaults
    bus: BusFaults
    database: DatabaseFaults
    # Seconds between one blow of the nemesis and the next.
    blows: float


def draw(chance: random.Random) -> Faults:
    """The faults of a seed."""

    def rate(most: float) -> float:
        return chance.choice((0.0, 0.3, 1.0)) * most

    database = DatabaseFaults(slow_seconds=chance.choice((0.01, 0.3)), lost=rate(0.003), doubtful=rate(0.02))
    blows = chance.choice((0.7, 2.0, 5.0, CALM_SECONDS))
    return Faults(
        broker=BrokerFaults(
            lost=rate(0.1),
            late=rate(0.1),
            very_late=0.2 if chance.random() < 0.1 else 0.0,
            unanswered=rate(0.15),
            unlisted=rate(0.1),
            busy=rate(0.1),
            repeated=rate(0.2),
            reordered=rate(0.2),
            late_fill=rate(0.3),
            changed=rate(0.1),
            failing=rate(0.2),
            blind=rate(0.3),
        ),
        bus=BusFaults(lost=rate(0.5), repeated=rate(0.3), unanswered=rate(0.1), delay_max=chance.choice((0.01, 3.0))),
        database=database,
        blows=blows,
    )


@dataclass(slots=True)
class Nemesis:
    """Kills, pauses, cuts and silences, one thing after the other."""

    world: World
    blows: float

    async def run(self) -> None:
        """Until cancelled."""
        chance = self.world.chance("nemesis")
        while True:
            await asyncio.sleep(chance.expovariate(1 / self.blows))
            name = chance.choice(PROCESSES)
            blow = chance.choice((self._kill, self._pause, self._cut, self._mute, self._restart_database, self._hush))
            if name in self.world.living:
                blow(name, chance)

    def make_whole(self) -> None:
        """Everybody lives, goes on and is connected."""
        for name in PROCESSES:
            if name not in self.world.living:
                self.world.start(name)
            self.world.loop.resume(self.world.living[name])
        for feed in self.world.feeds.values():
            if not feed.is_connected or feed.is_mute:
                feed.cut()
                feed.connect()
        self.world.bus.silent_until = 0.0

    def _kill(self, name: str, chance: random.Random) -> None:
        self.world.note(f"nemesis kills {name}")
        self.world.kill(name)
        self._later(chance.random() * 3, self._revive, name)

    def _revive(self, name: str) -> None:
        if name not in self.world.living:
            self.world.start(name)

    def _pause(self, name: str, chance: random.Random) -> None:
        if not self.world.living[name].is_paused:
            seconds = chance.uniform(*PAUSE_SECONDS)
            self.world.note(f"nemesis pauses {name} for {seconds:.3f} s")
            self.world.pause(name, seconds)

    def _cut(self, name: str, chance: random.Random) -> None:
        feed = self.world.feeds.get(self.world.living[name])
        if feed is not None and feed.is_connected:
            self.world.note(f"nemesis cuts the feed of {name}")
            feed.cut()
            self._later(chance.random() * 3, self._reconnect, name)

    def _mute(self, name: str, chance: random.Random) -> None:
        feed = self.world.feeds.get(self.world.living[name])
        if feed is not None and feed.is_connected:
            self.world.note(f"nemesis mutes the feed of {name}")
            feed.is_mute = True
            self._later(chance.random() * MUTE_SECONDS_MAX, self._reconnect, name)

    def _reconnect(self, name: str) -> None:
        process = self.world.living.get(name)
        feed = self.world.feeds.get(process) if process else None
        if feed is not None and (feed.is_mute or not feed.is_connected):
            feed.cut()
            feed.connect()

    def _restart_database(self, name: str, chance: random.Random) -> None:
        del name, chance
        self.world.note("nemesis restarts the database")
        self.world.database.disconnect()

    def _hush(self, name: str, chance: random.Random) -> None:
        del name
        self.world.note("nemesis silences the bus")
        self.world.bus.silent_until = self.world.loop.time() + chance.random() * 10

    def _later(self, delay: float, call: object, *arguments: object) -> None:
        self.world.loop.call_later(delay, call, *arguments, context=self.world.outside)  # type: ignore[arg-type]
