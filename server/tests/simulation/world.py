"""The simulated world: processes made of the real application code, between the fakes."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from openbell_server.application.events.relay_outbox import RelayOutbox
from openbell_server.application.execution.account_dispatcher import SWEEP_SECONDS, Bulkhead
from openbell_server.application.execution.broker_budget import BrokerBudget
from openbell_server.application.execution.slot_leases import RENEW_SECONDS, SlotLeases, run_id
from openbell_server.application.execution.wiring import ExecutorDependencies, build_executor
from openbell_server.domain.identifiers import AccountId, uuid7
from simulation.bus import Bus, BusFaults, BusPublisher, NoHints
from simulation.loop import PROCESS, Process, SimulatedLoop
from simulation.memory_database import DatabaseAway, LockHeld, MemoryDatabase
from simulation.memory_queues import MemoryLeaseStore, MemoryOutboxStore, MemorySessionStore
from simulation.memory_sweeps import MemoryExecutionStore
from simulation.memory_ticks import MemoryTickStore
from simulation.profiles import Profile
from simulation.venue import BrokerFaults, Venue
from simulation.venue_session import VenueSession

NOON: Final = datetime(2026, 1, 5, 12, tzinfo=UTC)
POLL_SECONDS: Final = 0.25
FOLLOW_RETRY_SECONDS: Final = 0.5
IDLE_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseFaults:
    """Chances, of one."""

    slow: float = 0.1
    slow_seconds: float = 0.02
    lost: float = 0.0
    doubtful: float = 0.0


@dataclass(slots=True)
class World:
    """Everything of one run."""

    seed: int
    profile: Profile
    loop: SimulatedLoop
    database_faults: DatabaseFaults = field(default_factory=DatabaseFaults)
    # Print what happens as it does.
    show: bool = False
    # Errors of the application that nobody planned.
    surprises: list[str] = field(default_factory=list)
    living: dict[str, Process] = field(default_factory=dict)
    feeds: dict[Process, VenueSession] = field(default_factory=dict)
    outside: Context = field(default_factory=copy_context)
    database: MemoryDatabase = field(init=False)
    outbox: MemoryOutboxStore = field(init=False)
    leases: MemoryLeaseStore = field(init=False)
    bus: Bus = field(init=False)
    venue: Venue = field(init=False)
    _chances: dict[str, random.Random] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make the services."""
        self.database = MemoryDatabase(
            self.clock,
            PROCESS.get,
            self._trip,
            lambda count: self.chance("locks").randrange(count),
            self._commit_doubt,
            self.note,
        )
        self.outbox = MemoryOutboxStore(self.database)
        self.leases = MemoryLeaseStore(self.database)
        self.bus = Bus(self.chance("bus"), self.outside)
        self.venue = Venue(self.profile, self.chance("venue"), self.outside, self.clock, self.note)

    def chance(self, name: str) -> random.Random:
        """A stream of chance of its own for each part: one part's draws never shift another's."""
        if name not in self._chances:
            self._chances[name] = random.Random(f"{self.seed}/{name}")
        return self._chances[name]

    def clock(self) -> datetime:
        """The time in the world, which is the database's and the broker's."""
        return self.at(self.loop.time())

    def at(self, seconds: float) -> datetime:
        """The time so many seconds after the beginning."""
        return NOON + timedelta(seconds=seconds)

    def new_id(self) -> UUID:
        """An id by the world's clock and the seed."""
        return uuid7(int(self.clock().timestamp() * 1000), self.chance("ids").randbytes(10))

    def note(self, words: str) -> None:
        """Write down what happened, by whom."""
        process = PROCESS.get()
        line = f"{self.loop.time():10.6f} {process.name if process else '-':10} {words}"
        self.loop.trace.update(line.encode())
        if self.show:
            print(line)

    def suffer(self, database: DatabaseFaults, bus: BusFaults, broker: BrokerFaults) -> None:
        """What may go wrong from now on."""
        self.database_faults, self.bus.faults, self.venue.faults = database, bus, broker

    def start(self, name: str) -> None:
        """Start a process; an executor follows the broker, a relay the outbox."""
        process = Process(name)
        self.living[name] = process
        if name.startswith("relay"):
            relay = RelayOutbox(
                self.outbox, BusPublisher(self.bus), lambda: self.chance("jitter").uniform(0.8, 1.2), self.loop.time
            )
            process.start(self._for_ever(relay, POLL_SECONDS))
        else:
            process.context.copy().run(self._start_executor, process)

    def kill(self, name: str) -> None:
        """End a process at once: nothing of it is stepped again, and its connections break."""
        process = self.living.pop(name)
        process.is_dead = True
        self.database.disconnect(process)
        self.bus.listeners.pop(process, None)
        if (feed := self.feeds.pop(process, None)) is not None:
            feed.cut()

    def pause(self, name: str, seconds: float) -> None:
        """Hold a process up; the database ends what it leaves open for too long."""
        process = self.living[name]
        self.loop.pause(process)
        self.loop.call_later(seconds, self.loop.resume, process, context=self.outside)
        if seconds > IDLE_SECONDS:
            self.loop.call_later(IDLE_SECONDS, self.database.disconnect, process, context=self.outside)

    def _start_executor(self, process: Process) -> None:
        """As the executor's own process does it."""
        slots = SlotLeases(self.leases, run_id(process.name, self.new_id()), self.loop.time)
        feed, kept = VenueSession(self.venue, locked=self._locked()), MemorySessionStore(self.database)
        name = self.profile.name
        parts = build_executor(
            ExecutorDependencies(
                store=MemoryExecutionStore(self.database),
                tick_store=MemoryTickStore(self.database),
                session_store=kept,
                sealed=kept,
                opener=kept,
                slots=slots,
                hints=NoHints(),
                definitions={name: self.profile},
                bulkheads={name: Bulkhead(BrokerBudget(self.profile.capabilities, self.loop.time), feed)},
                monotonic=self.loop.time,
                new_id=self.new_id,
                unavailable=(DatabaseAway,),
                blocked=(LockHeld,),
            )
        )
        dispatcher, follow = parts.dispatcher, parts.brokers[name]

        async def sweep() -> None:
            await dispatcher.sweep()
            await parts.sign_ins.sweep()
            self._look_at([*dispatcher.failures, *follow.take_failures(), *parts.ticks.failures])
            dispatcher.failures.clear()
            parts.ticks.failures.clear()

        def notify(slot: int, account_id: str) -> None:
            if slot in slots.held():
                dispatcher.notify(AccountId(UUID(account_id)))

        self.bus.listen(process, notify)
        self.feeds[process] = feed
        feed.connect()
        process.start(self._for_ever(slots.renew, RENEW_SECONDS))
        process.start(self._for_ever(sweep, SWEEP_SECONDS))
        process.start(self._for_ever(follow.run, FOLLOW_RETRY_SECONDS))

    async def _for_ever(self, work: Callable[[], Awaitable[object]], pause: float) -> None:
        while True:
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - as in a real process: the next round begins anew
                self._look_at([error])
            await asyncio.sleep(pause)

    def _look_at(self, errors: list[BaseException]) -> None:
        """Trouble of the services is what the run is about; anything else is a fault of ours."""
        for error in errors:
            if isinstance(error, BaseExceptionGroup):
                self._look_at([*error.exceptions])
            elif not isinstance(error, OSError | TimeoutError):
                self.surprises.append(f"{type(error).__name__}: {error}")

    def _locked(self) -> frozenset[AccountId]:
        return frozenset(key for key, book in self.database.books.items() if book.credential_version is not None)

    async def _trip(self) -> None:
        faults, chance = self.database_faults, self.chance("database")
        drawn = chance.random()
        if drawn < faults.slow:
            await asyncio.sleep(drawn / faults.slow * faults.slow_seconds)
        else:
            await asyncio.sleep(0)
        if faults.lost and chance.random() < faults.lost:
            raise DatabaseAway("the connection is gone")

    def _commit_doubt(self) -> bool | None:
        chance = self.chance("database")
        if not self.database_faults.doubtful or chance.random() >= self.database_faults.doubtful:
            return None
        return chance.random() < 0.5
