"""An executor's ticks on the database in memory, with a store that fails, waits and takes its time on request."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from uuid import UUID, uuid4

from openbell_server.application.execution.execution_ticks import ExecutionTicks
from openbell_server.application.execution.ports import DoorRequest, DoorTerms, TickResult, TickStore, Unit
from openbell_server.application.execution.record_outcomes import Door
from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.domain.identifiers import AccountId
from simulation.memory_database import LockHeld
from support.brokers.execution_harness import Clock
from support.environment.tick_benches import ALL_SLOTS, TickBench
from support.rest.rest_api import RecordedHints


class Broken(Exception):
    """What a store raises."""


@dataclass(slots=True)
class ScriptedStore:
    """Implements TickStore: keeps what was asked of another one."""

    inner: TickStore
    clock: Clock
    ticks: list[tuple[list[Unit], list[DoorRequest]]] = field(default_factory=list)
    # Before a tick is written, and before terms are read.
    before_tick: Callable[[], None] = lambda: None
    before_terms: Callable[[], None] = lambda: None
    # Accounts whose locks others hold.
    locked: set[AccountId] = field(default_factory=set)
    # How long each tick takes, and what it waits for.
    seconds: float = 0.0
    gate: asyncio.Event | None = None

    async def door_terms_across_organizations(self, account_ids: Collection[AccountId]) -> dict[AccountId, DoorTerms]:
        """Of the other store."""
        self.before_terms()
        return await self.inner.door_terms_across_organizations(account_ids)

    async def write_tick_across_organizations(
        self, slots: Collection[int], units: Sequence[Unit], doors: Sequence[DoorRequest], attempt_id: UUID
    ) -> TickResult:
        """Of the other store, after what the script says."""
        self.ticks.append(([*units], [*doors]))
        if self.gate is not None:
            await self.gate.wait()
        self.before_tick()
        self.clock.seconds += self.seconds
        accounts = [unit.account for unit in units] + [request.account for request in doors]
        if self.locked & {account.account_id for account in accounts}:
            raise LockHeld
        return await self.inner.write_tick_across_organizations(slots, units, doors, attempt_id)


class NothingSignedIn:
    """Implements SignedIn."""

    def version_for(self, account_id: AccountId, database_epoch: int) -> int | None:
        """No account has a credential."""
        del account_id, database_epoch
        return None


@dataclass(slots=True)
class Executor:
    """The ticks of one executor, with the accounts that it works for."""

    bench: TickBench
    clock: Clock = field(default_factory=Clock)
    hints: RecordedHints = field(default_factory=RecordedHints)
    slots: Collection[int] = ALL_SLOTS
    store: ScriptedStore = field(init=False)
    ticks: ExecutionTicks = field(init=False)

    def __post_init__(self) -> None:
        self.store = ScriptedStore(self.bench.ticks, self.clock)
        self.ticks = ExecutionTicks(
            self.store, NothingSignedIn(), lambda: self.slots, self.hints, self.clock, uuid4, (LockHeld,)
        )

    async def accounts(self, count: int) -> list[BrokerAccount]:
        """More accounts, each with a command that waits."""
        found = [await self.bench.database.another_account() for _ in range(count)]
        for account in found:
            await self.bench.accept(account=account)
        return found

    async def door(self, account: BrokerAccount | None = None) -> Door:
        """The door of a new order."""
        account = account or self.bench.account
        await self.bench.accept(account=account)
        opened = await self.ticks.open_doors(account, 9)
        assert opened is not None
        (door,) = opened.doors
        return door


def broken() -> None:
    """What a script does to a store that is away."""
    raise Broken
