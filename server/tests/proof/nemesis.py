"""Makes trouble on a running platform: kills, pauses, deaths at named points, services that go away and come back."""

import asyncio
import contextlib
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from openbell_server.devtools.child_processes import ChildFailed
from openbell_server.devtools.local_platform import LocalPlatform

POLL_SECONDS = 0.05
READY_SECONDS = 180
POINT_SECONDS = 60
TRIES_MAX = 4
# Longer than a lease, so that a paused executor wakes up to find its work in other hands.
STOP_SECONDS = (5.5, 8.0)
AWAY_SECONDS = 2.0
SECOND_EXECUTOR = "executor-2"


@dataclass(frozen=True, slots=True)
class Kill:
    """A process to kill, and the points at which its successors die in turn before one may live."""

    process: str
    points: tuple[str, ...] = ()


@dataclass
class Nemesis:
    """Carries out its plan and counts what it did; one hand at a time on one process, the rest at once."""

    platform: LocalPlatform
    # How long the shortest and the longest pause last.
    stop_seconds: tuple[float, float] = STOP_SECONDS
    # Whether a paused executor needs another beside it, because there is none otherwise.
    lone_executor: bool = True
    kills: Counter[str] = field(default_factory=Counter)
    stops: Counter[str] = field(default_factory=Counter)
    services: Counter[str] = field(default_factory=Counter)
    points: set[str] = field(default_factory=set)
    # Processes that ended although nobody had killed them.
    ended: list[str] = field(default_factory=list)
    _hands: defaultdict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))

    async def kill_all(self, left: list[Kill], pause: float) -> None:
        """Kill in this order, but for processes that are in other hands; several may work at one list."""
        while left:
            kill = next((each for each in left if not self._hands[each.process].locked()), left[0])
            left.remove(kill)
            await self._kill(kill)
            await asyncio.sleep(pause)

    async def stop_all(self, processes: Sequence[str], pause: float) -> None:
        """Pause one after the other, each for longer than the last by the same factor."""
        shortest, longest = self.stop_seconds
        for place, process in enumerate(processes):
            await asyncio.sleep(pause)
            seconds = shortest * (longest / shortest) ** (place / max(1, len(processes) - 1))
            alone = self.lone_executor and process == "executor"
            async with self._hands[process]:
                await (self._stop_beside_another(seconds) if alone else self._stop(process, seconds))

    async def trouble_all(self, services: Sequence[str], pause: float) -> None:
        """PostgreSQL and NATS: gone, and back a moment later; a wipe loses all that JetStream held."""
        postgres, nats = self.platform.services.postgres, self.platform.services.nats
        for service in services:
            await asyncio.sleep(pause)
            if service == "postgres":
                postgres.kill()
            elif service == "nats":
                nats.kill()
            else:
                nats.stop()
                nats.wipe()
            await asyncio.sleep(AWAY_SECONDS)
            # These block the loop until they serve: a child must be started from the main thread.
            (postgres if service == "postgres" else nats).start()
            self.services[service] += 1

    async def watch(self) -> None:
        """Until cancelled: start again what ended by itself, and remember it."""
        while True:
            free = [process for process in self.platform.stack.watch() if not self._hands[process].locked()]
            for process in free:
                async with self._hands[process]:
                    if not self.platform.stack.is_running(process):
                        self.ended.append(process)
                        await self._bring_up(process)
            await asyncio.sleep(POLL_SECONDS)

    async def _kill(self, kill: Kill) -> None:
        async with self._hands[kill.process]:
            for _ in range(TRIES_MAX):
                self._kill_now(kill.process)
                if await self._die_in_turn(kill):
                    break
            else:
                # Still alive, and still to die at a point.
                self._kill_now(kill.process)
            await self._bring_up(kill.process)

    def _kill_now(self, process: str) -> None:
        self.platform.stack.kill(process)
        self.kills[process] += 1

    async def _die_in_turn(self, kill: Kill) -> bool:
        """Whether every point was reached; a later one may need what a death at an earlier one leaves behind."""
        for point in kill.points:
            if not await self._die_at(kill.process, point):
                return False
            self.points.add(point)
        return True

    async def _die_at(self, process: str, point: str) -> bool:
        """Start it so that it dies there; whether it came to that."""
        await self._bring_up(process, point)
        deadline = time.monotonic() + POINT_SECONDS
        while self.platform.stack.is_running(process) and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(POLL_SECONDS)
        return self.platform.stack.returncode(process) == -signal.SIGKILL

    async def _stop(self, process: str, seconds: float) -> None:
        self.platform.stack.kill(process, signal.SIGSTOP)
        await asyncio.sleep(seconds)
        self.platform.stack.kill(process, signal.SIGCONT)
        self.stops[process] += 1

    async def _stop_beside_another(self, seconds: float) -> None:
        """Pause the executor while there is another, who takes its work over; for a moment both believe it theirs."""
        async with self._hands[SECOND_EXECUTOR]:
            await self._bring_up(SECOND_EXECUTOR)
            await self._stop("executor", seconds)
            await asyncio.sleep(1)
            self.platform.stack.kill(SECOND_EXECUTOR)

    async def _bring_up(self, process: str, point: str = "") -> None:
        """Start a process, as often as it takes."""
        async with asyncio.timeout(READY_SECONDS):
            while not await self._start(process, point):
                pass

    async def _start(self, process: str, point: str) -> bool:
        """Whether it came up: one whose database is away just then ends at once."""
        stack = self.platform.stack
        stack.start(process, {"OPENBELL_CRASH_AT": point})
        while True:
            with contextlib.suppress(ChildFailed):
                stack.wait_ready(process, 0)
                return True
            if not stack.is_running(process):
                return False
            await asyncio.sleep(POLL_SECONDS)
