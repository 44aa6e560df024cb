"""What an executor runs for its accounts at one broker, in this loop."""

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID, uuid4

from loopbacks import Loopback
from openbell_server.adapters.postgres.execution.execution import PostgresExecutionStore
from openbell_server.application.execution.account_dispatcher import AccountDispatcher, Bulkhead
from openbell_server.application.execution.broker_budget import BrokerBudget, BudgetedSession
from openbell_server.application.execution.follow_broker import FollowBroker
from openbell_server.application.execution.recover_account import RecoverAccount
from openbell_server.application.execution.settle_unknown import SettleUnknown
from openbell_server.application.execution.slot_leases import RENEW_SECONDS, SlotLeases
from openbell_server.application.ports.broker import (
    BrokerCapabilities,
    BrokerDefinition,
    BrokerSession,
    CredentialForm,
)
from openbell_server.brokers.http_client import QUERY_ERRORS
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.credentials import Secrets, SignedIn
from openbell_server.domain.identifiers import SLOTS, AccountId, Symbol
from support.brokers.execution_harness import ExecutionHarness

SWEEP_SECONDS = 0.25
SIGN_IN_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Hurried:
    """Implements BrokerDefinition: another one's, with other waits."""

    behind: BrokerDefinition
    capabilities: BrokerCapabilities

    @property
    def name(self) -> str:
        return self.behind.name

    @property
    def credentials(self) -> CredentialForm | None:
        return self.behind.credentials

    @property
    def addresses(self) -> Mapping[Environment, str]:
        return self.behind.addresses

    def canonical_symbol(self, text: str) -> Symbol | None:
        return self.behind.canonical_symbol(text)

    async def open_session(self, addresses: Mapping[Environment, str]) -> BrokerSession:
        return await self.behind.open_session(addresses)


@dataclass(frozen=True, slots=True)
class OneSlot:
    """Implements LeaseStore for one of very many executors, whose slot nobody else wants."""

    slot: int

    async def join(self, executor_id: UUID) -> None:
        del executor_id

    async def renew(self, executor_id: UUID, seconds: float) -> tuple[set[int], int]:
        del executor_id, seconds
        return {self.slot}, SLOTS

    async def take(self, executor_id: UUID, seconds: float, limit: int) -> set[int]:
        raise NotImplementedError

    async def release(self, executor_id: UUID, slots: Collection[int]) -> None:
        raise NotImplementedError

    async def leave(self, executor_id: UUID) -> None:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Executor:
    """One that runs: its session with the broker, how it follows, and its desk."""

    session: BrokerSession
    follow: FollowBroker
    work: AccountDispatcher


@asynccontextmanager
async def a_session(loopback: Loopback, account_id: AccountId) -> AsyncIterator[BrokerSession]:
    """A session in which one account is signed in, if it has anything to sign in with."""
    session = await loopback.definition.open_session(loopback.addresses)
    try:
        secrets = loopback.secrets(account_id)
        if secrets is not None:
            await _sign_in(session, account_id, secrets)
        yield session
    finally:
        await session.close()


@asynccontextmanager
async def executing(
    harness: ExecutionHarness, definition: BrokerDefinition, loopback: Loopback
) -> AsyncIterator[Executor]:
    """An executor that holds the slot of the desk's account, until the block ends; it drains as the process does."""
    async with a_session(loopback, harness.account.account_id) as session:
        store = PostgresExecutionStore(harness.pool)
        slots = SlotLeases(OneSlot(harness.account.slot), uuid4(), time.monotonic)
        await slots.renew()
        budget = BrokerBudget(definition.capabilities, time.monotonic)
        follow = FollowBroker(
            definition,
            BudgetedSession(session, budget),
            store,
            harness.track,
            slots,
            harness.sign_ins,
            time.monotonic,
        )
        settle = SettleUnknown(store, harness.track, harness.hints, harness.execute)
        recover = RecoverAccount(store, harness.track)
        bulkheads = {definition.name: Bulkhead(budget, session)}
        work = AccountDispatcher(store, harness.execute, settle, recover, {definition.name: follow}, slots, bulkheads)
        background = [asyncio.ensure_future(each) for each in (follow.run(), _sweep(work), _hold(slots))]
        try:
            yield Executor(session, follow, work)
            await work.drain()
        finally:
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)


async def _sign_in(session: BrokerSession, account_id: AccountId, secrets: Secrets) -> None:
    """Sign in, again for as long as nobody answers in time, as an executor does."""
    async with asyncio.timeout(SIGN_IN_SECONDS):
        while True:
            try:
                answer = await session.sign_in(account_id, Environment.PAPER, secrets)
            except QUERY_ERRORS:
                await asyncio.sleep(SWEEP_SECONDS)
            else:
                assert isinstance(answer, SignedIn), answer
                return


async def _sweep(work: AccountDispatcher) -> None:
    while True:
        await work.sweep()
        await asyncio.sleep(SWEEP_SECONDS)


async def _hold(slots: SlotLeases) -> None:
    while True:
        await asyncio.sleep(RENEW_SECONDS)
        await slots.renew()
