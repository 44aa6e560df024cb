"""One run: a seed, what goes wrong in it, and what the checker says at its end."""

import asyncio
import gc
from dataclasses import dataclass
from shlex import quote
from uuid import UUID

from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.domain.access.credentials import CredentialStatus
from openbell_server.domain.identifiers import AccountId, OrganizationId, slot_of
from simulation.bus import BusFaults
from simulation.checker import Checker, Finding
from simulation.crashes import COMMANDS, Crash, crash_of, in_a_mood
from simulation.faults import PROCESSES, Nemesis, draw
from simulation.load import Load, Mixture
from simulation.loop import SimulatedLoop
from simulation.memory_database import Book
from simulation.profiles import PROFILES, Profile
from simulation.sabotages import sabotaged
from simulation.venue import BrokerFaults
from simulation.world import DatabaseFaults, World

STEPS_MAX = 1_000_000
ACCOUNTS = 5
SETTLE_SECONDS = 120.0
LOOK_SECONDS = 4.0
DOUBT_SECONDS = 16.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All that a run depends on."""

    seed: int
    # By the seed unless said.
    id_class: str = ""
    # One intent whose command dies at the n-th reach of a point, with a broker in some mood.
    crash_at: str = ""
    reach: int = 1
    command: str = "CREATE"
    mood: str = "honest"
    sabotage: str = ""

    @property
    def broker(self) -> Profile:
        """The kind of broker."""
        return PROFILES[self.id_class or [*PROFILES][self.seed % len(PROFILES)]]

    @property
    def replay(self) -> str:
        """The one command that runs it again."""
        said = {"SEED": self.seed, "CLASS": self.broker.name, "SABOTAGE": self.sabotage}
        if self.crash_at:
            said |= {"CRASH": self.crash_at, "REACH": self.reach, "COMMAND": self.command, "MOOD": self.mood}
        return " ".join(["make sim", *(f"{name}={quote(str(value))}" for name, value in said.items() if value != "")])


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of a run."""

    plan: Plan
    findings: tuple[Finding, ...]
    trace: str
    intents: int
    steps: int
    seconds: float
    # Whether the process died where it was to die.
    has_crashed: bool


def run(plan: Plan, *, show: bool = False) -> Verdict:
    """Run a plan to its end."""
    # A collector that runs when it likes could run clean-ups of the dead.
    gc.disable()
    loop = SimulatedLoop(plan.seed, STEPS_MAX)
    world = World(plan.seed, plan.broker, loop, show=show)
    crash = crash_of(world, plan.crash_at, plan.reach, plan.mood)
    try:
        with crash.armed(), sabotaged(plan.sabotage):
            return loop.run_until_complete(_run(world, plan, crash))
    finally:
        loop.abandon()
        gc.enable()


async def _run(world: World, plan: Plan, crash: Crash) -> Verdict:
    accounts = [add_account(world, number) for number in range(ACCOUNTS)]
    if plan.crash_at:
        faults, mixture = in_a_mood(plan.mood), COMMANDS[plan.command]
    else:
        faults, mixture = draw(world.chance("faults")), Mixture()
    world.note(f"{plan} {faults}")
    load = Load(world, mixture, accounts)
    for name in PROCESSES:
        world.start(name)
    world.suffer(faults.database, faults.bus, faults.broker)
    nemesis = Nemesis(world, faults.blows)
    raging = asyncio.ensure_future(nemesis.run())
    await load.run()
    if plan.crash_at:
        # What is in doubt is looked up, and may die there.
        await asyncio.sleep(DOUBT_SECONDS)
    raging.cancel()
    world.suffer(DatabaseFaults(), BusFaults(), BrokerFaults())
    nemesis.make_whole()
    world.note("faults are over")
    findings = await until_settled(world, Checker(world, load.accepted))
    return Verdict(
        plan=plan,
        findings=tuple(findings),
        trace=world.loop.trace.hexdigest(),
        intents=sum(len(book.intents) for book in world.database.books.values()),
        steps=world.loop.steps,
        seconds=world.loop.time(),
        has_crashed=crash.has_happened,
    )


async def until_settled(world: World, checker: Checker) -> list[Finding]:
    """Give it time, and no more than it takes."""
    over = world.loop.time() + SETTLE_SECONDS
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        # What the broker does late begins the time anew.
        over = max(over, world.venue.busy_until + SETTLE_SECONDS)
        is_quiet = world.loop.time() > world.venue.busy_until
        findings = checker.findings()
        if (not findings and is_quiet and checker.is_settled()) or world.loop.time() > over:
            return findings


def add_account(world: World, number: int) -> BrokerAccount:
    """Every other one must sign in."""
    account_id = AccountId(UUID(int=number + 1))
    account = BrokerAccount(OrganizationId(UUID(int=1)), account_id, world.profile.name, slot_of(account_id))
    book = Book(account=account)
    if number % 2:
        book.credential_version, book.credential_status = 1, CredentialStatus.UNVERIFIED
    world.database.add_account(book)
    return account
