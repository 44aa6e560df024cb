"""One run: a seed, what goes wrong in it, and what the checker says at its end."""

import asyncio
import gc
from dataclasses import dataclass, field
from uuid import UUID

from openbell_server.application.ports.execution import BrokerAccount
from openbell_server.domain.credentials import CredentialStatus
from openbell_server.domain.identifiers import AccountId, OrganizationId, slot_of
from simulation.bus import BusFaults
from simulation.checker import Checker, Finding
from simulation.faults import PROCESSES, Nemesis, draw
from simulation.load import Load, Mixture
from simulation.loop import SimulatedLoop
from simulation.memory_database import Book
from simulation.profiles import PROFILES
from simulation.venue import BrokerFaults
from simulation.world import DatabaseFaults, World

STEPS_MAX = 1_000_000
ACCOUNTS = 5
SETTLE_SECONDS = 120.0
LOOK_SECONDS = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All that a run depends on."""

    seed: int
    id_class: str
    mixture: Mixture = field(default_factory=Mixture)

    @property
    def command(self) -> str:
        """What runs it again."""
        return f"make sim SEED={self.seed} CLASS={self.id_class}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of a run."""

    plan: Plan
    findings: tuple[Finding, ...]
    trace: str
    intents: int
    steps: int
    seconds: float


def run(plan: Plan, show: bool = False) -> Verdict:
    """Run a plan to its end."""
    # A collector that runs when it likes could run clean-ups of the dead.
    gc.disable()
    loop = SimulatedLoop(plan.seed, STEPS_MAX)
    world = World(plan.seed, PROFILES[plan.id_class], loop, show=show)
    try:
        return loop.run_until_complete(_run(world, plan))
    finally:
        loop.abandon()
        gc.enable()


async def _run(world: World, plan: Plan) -> Verdict:
    faults = draw(world.chance("faults"))
    world.note(f"{plan} {faults}")
    load = Load(world, plan.mixture, [_add_account(world, number) for number in range(ACCOUNTS)])
    for name in PROCESSES:
        world.start(name)
    world.database_faults, world.bus.faults, world.venue.faults = faults.database, faults.bus, faults.broker
    nemesis = Nemesis(world, faults.blows)
    raging = asyncio.ensure_future(nemesis.run())
    await load.run()
    raging.cancel()
    world.database_faults, world.bus.faults, world.venue.faults = DatabaseFaults(), BusFaults(), BrokerFaults()
    nemesis.make_whole()
    world.note("faults are over")
    checker = Checker(world, [action_id for _, action_id in load.accepted])
    findings = await _until_settled(world, checker)
    return Verdict(
        plan=plan,
        findings=tuple(findings),
        trace=world.loop.trace.hexdigest(),
        intents=sum(len(book.intents) for book in world.database.books.values()),
        steps=world.loop.steps,
        seconds=world.loop.time(),
    )


async def _until_settled(world: World, checker: Checker) -> list[Finding]:
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


def _add_account(world: World, number: int) -> BrokerAccount:
    """Every other one must sign in."""
    account_id = AccountId(UUID(int=number + 1))
    account = BrokerAccount(OrganizationId(UUID(int=1)), account_id, world.profile.name, slot_of(account_id))
    book = Book(account=account)
    if number % 2:
        book.credential_version, book.credential_status = 1, CredentialStatus.UNVERIFIED
    world.database.add_account(book)
    return account
