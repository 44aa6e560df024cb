"""One run: a seed, what goes wrong in it, and what the checker says at its end."""

import asyncio
import gc
from dataclasses import dataclass, field
from uuid import UUID

from openbell_server.application.ports.execution import BrokerAccount
from openbell_server.domain.credentials import CredentialStatus
from openbell_server.domain.identifiers import AccountId, OrganizationId, slot_of
from simulation.load import Load, Mixture
from simulation.loop import SimulatedLoop
from simulation.memory_database import Book
from simulation.profiles import PROFILES
from simulation.world import World

STEPS_MAX = 1_000_000
ACCOUNTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    seed: int
    id_class: str = "A"
    mixture: Mixture = field(default_factory=Mixture)


async def _run(world: World, plan: Plan) -> None:
    accounts = []
    for number in range(ACCOUNTS):
        account_id = AccountId(UUID(int=number + 1))
        account = BrokerAccount(OrganizationId(UUID(int=1)), account_id, world.profile.name, slot_of(account_id))
        locked = number % 2 == 1
        world.database.add_account(
            Book(
                account=account,
                credential_version=1 if locked else None,
                credential_status=CredentialStatus.UNVERIFIED if locked else CredentialStatus.NOT_REQUIRED,
            )
        )
        accounts.append(account)
    for name in ("executor-1", "executor-2", "relay-1", "relay-2"):
        world.start(name)
    await Load(world, plan.mixture, accounts).run()
    await asyncio.sleep(30)


def run(plan: Plan) -> World:
    gc.disable()
    loop = SimulatedLoop(plan.seed, STEPS_MAX)
    world = World(plan.seed, PROFILES[plan.id_class], loop)
    try:
        loop.run_until_complete(_run(world, plan))
    finally:
        loop.abandon()
        gc.enable()
    return world
