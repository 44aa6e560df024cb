"""One account on either of two databases, PostgreSQL and memory: what one of them does, the other must do too."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Protocol
from uuid import uuid4

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.events.outbox import PostgresOutboxStore
from openbell_server.adapters.postgres.execution.execution import PostgresExecutionStore
from openbell_server.adapters.postgres.execution.slot_leases import PostgresLeaseStore
from openbell_server.adapters.postgres.money.balances import PostgresBalanceStore
from openbell_server.application.events.relay_outbox import OutboxStore
from openbell_server.application.execution.ports import ExecutionStore
from openbell_server.application.execution.slot_leases import LeaseStore
from openbell_server.application.ports.account_transaction import BrokerAccount, TrackedAction
from openbell_server.domain.access.accounts import TradingAccount
from openbell_server.domain.events.outbox import Queue
from openbell_server.domain.identifiers import AccountId, ActionId, IntentId, OrganizationId, slot_of
from openbell_server.domain.money.balances import StoredBalances
from openbell_server.domain.orders.action_lifecycle import ActionState, Reason
from openbell_server.domain.orders.intents import Command, intent_of
from simulation import memory_accept
from simulation.memory_database import Book, MemoryDatabase, Move
from simulation.memory_queues import MemoryLeaseStore, MemoryOutboxStore
from simulation.memory_sweeps import MemoryExecutionStore
from support.builders.tenant import Tenant, a_limit_create, a_tenant, accept, an_account, new_id

# The path of an action through the table of states to each of them.
PATHS = {
    ActionState.DISPATCHING: (),
    ActionState.UNKNOWN: (ActionState.UNKNOWN,),
    ActionState.ACKED: (ActionState.ACKED,),
    ActionState.REFUSED: (ActionState.REFUSED,),
    ActionState.FAILED: (ActionState.FAILED,),
}


class Database(Protocol):
    """What differs between the two."""

    @property
    def store(self) -> ExecutionStore:
        """Where execution keeps its record."""

    @property
    def outbox(self) -> OutboxStore:
        """The intents' queue."""

    @property
    def leases(self) -> LeaseStore:
        """Who works which slots."""

    async def accept(self, account: BrokerAccount, action_id: ActionId, intent_id: IntentId, command: Command) -> None:
        """Record a command."""

    async def another_account(self) -> BrokerAccount:
        """One more of the same organization."""

    async def make_older(self, account: BrokerAccount, action_id: ActionId, sent: float, looked: float) -> None:
        """As if an action had been sent and looked up so many seconds ago."""

    async def position(self, account: BrokerAccount) -> Decimal | None:
        """Of the only symbol, if there is one."""

    async def moves(self, account: BrokerAccount) -> list[Move]:
        """Each change of a position, in order."""

    async def read_balances(self, account: BrokerAccount, ago: float = 0.0) -> StoredBalances | None:
        """What somebody reads of an account's balances, or read so many seconds ago."""

    async def make_balances_older(self, account: BrokerAccount, seconds: float) -> None:
        """As if they had been stored so many seconds ago."""

    async def events(self, account: BrokerAccount) -> list[tuple[int, str]]:
        """The log: numbers and bodies of what execution wrote."""


@dataclass(slots=True)
class Bench:
    """An account with what tests do to it, by the port alone."""

    database: Database
    account: BrokerAccount

    @property
    def store(self) -> ExecutionStore:
        return self.database.store

    async def accept(self, command: Command | None = None, account: BrokerAccount | None = None) -> TrackedAction:
        """Record a command, a limit order unless said; its action."""
        command = command or a_limit_create()
        intent_id = intent_of(command, IntentId(new_id()))
        action_id = ActionId(new_id())
        await self.database.accept(account or self.account, action_id, intent_id, command)
        return await self.look(action_id, intent_id, account)

    async def look(
        self, action_id: ActionId, intent_id: IntentId, account: BrokerAccount | None = None
    ) -> TrackedAction:
        """An action as it stands."""
        async with self.store.account_transaction(account or self.account) as transaction:
            found = await transaction.of_intents([intent_id])
        return next(action for action in found if action.action_id == action_id)

    async def again(self, action: TrackedAction) -> TrackedAction:
        """The same action as it stands by now."""
        return await self.look(action.action_id, action.intent_id)

    async def bring(self, action: TrackedAction, state: ActionState) -> TrackedAction:
        """Take a queued action through its door, and on to a state."""
        async with self.store.account_transaction(self.account) as transaction:
            await transaction.open_doors([action.action_id], uuid4())
        for following in PATHS[state]:
            action = await self.again(action)
            async with self.store.account_transaction(self.account) as transaction:
                await transaction.save_action(action, following, Reason("TEST"))
        return await self.again(action)

    async def ready(
        self, limit: int = 100, *, commands: int = 100, cancels: bool = True, cancels_unseen: bool = False
    ) -> list[ActionId]:
        """What may pass the door."""
        async with self.store.account_transaction(self.account) as transaction:
            found = await transaction.ready(limit, commands=commands, cancels=cancels, cancels_unseen=cancels_unseen)
        return [action.action_id for action in found]

    async def superseded(self) -> list[ActionId]:
        """What a cancel makes needless; whoever has none does not look."""
        async with self.store.account_transaction(self.account) as transaction:
            needless = [action.action_id for action in await transaction.superseded()]
            assert not needless or await transaction.has_queued(cancels=True)
            return needless


@dataclass(slots=True)
class PostgresDatabase:
    """Implements Database."""

    pool: Pool
    tenant: Tenant
    store: PostgresExecutionStore
    outbox: PostgresOutboxStore
    leases: PostgresLeaseStore

    async def accept(self, account: BrokerAccount, action_id: ActionId, intent_id: IntentId, command: Command) -> None:
        submission = self.tenant.submission(command)
        if account.account_id != self.tenant.account.id:
            submission = replace(submission, account=replace(self.tenant.account, id=account.account_id))
        (accepted,) = await accept(self.pool, replace(submission, action_id=action_id, intent_id=intent_id))
        assert accepted.status == "ACCEPTED", accepted

    async def another_account(self) -> BrokerAccount:
        return _as_known(await an_account(self.pool, self.tenant.account.organization_id))

    async def make_older(self, account: BrokerAccount, action_id: ActionId, sent: float, looked: float) -> None:
        await self.pool.execute(
            """update action_states set send_started_at = now() - $2 * interval '1 second',
                updated_at = now() - $3 * interval '1 second' where action_id = $1""",
            action_id,
            sent,
            looked,
        )

    async def position(self, account: BrokerAccount) -> Decimal | None:
        found: Decimal | None = await self.pool.fetchval(
            "select quantity from positions where account_id = $1", account.account_id
        )
        return found

    async def moves(self, account: BrokerAccount) -> list[Move]:
        rows = await self.pool.fetch(
            "select symbol, change, cause, value, average_price from position_changes"
            " where account_id = $1 order by change_no",
            account.account_id,
        )
        return [Move(*row) for row in rows]

    async def read_balances(self, account: BrokerAccount, ago: float = 0.0) -> StoredBalances | None:
        found = await PostgresBalanceStore(self.pool).read_balances(account.organization_id, account.account_id)
        await self.pool.execute("update wanted_balances set wanted_at = wanted_at - $1 * interval '1 second'", ago)
        return found

    async def make_balances_older(self, account: BrokerAccount, seconds: float) -> None:
        await self.pool.execute(
            "update account_balances set read_at = read_at - $2 * interval '1 second' where account_id = $1",
            account.account_id,
            seconds,
        )

    async def events(self, account: BrokerAccount) -> list[tuple[int, str]]:
        rows = await self.pool.fetch(
            "select event_no, body from account_events where account_id = $1 order by event_no", account.account_id
        )
        return [(row["event_no"], row["body"]) for row in rows]


@dataclass(slots=True)
class InMemory:
    """Implements Database."""

    memory: MemoryDatabase
    store: MemoryExecutionStore
    outbox: MemoryOutboxStore
    leases: MemoryLeaseStore
    _organization: OrganizationId = field(default_factory=lambda: OrganizationId(uuid4()))

    async def accept(self, account: BrokerAccount, action_id: ActionId, intent_id: IntentId, command: Command) -> None:
        assert await memory_accept.accept(self.memory, self.outbox, account, action_id, intent_id, command)

    async def another_account(self) -> BrokerAccount:
        account_id = AccountId(uuid4())
        account = BrokerAccount(self._organization, account_id, "paper", slot_of(account_id))
        self.memory.add_account(Book(account=account))
        return account

    async def make_older(self, account: BrokerAccount, action_id: ActionId, sent: float, looked: float) -> None:
        rows, now = self.memory.books[account.account_id].actions, datetime.now(UTC)
        rows[action_id] = replace(
            rows[action_id],
            send_started_at=now - timedelta(seconds=sent),
            updated_at=now - timedelta(seconds=looked),
        )

    async def position(self, account: BrokerAccount) -> Decimal | None:
        return next(iter(self.memory.books[account.account_id].positions.values()), None)

    async def moves(self, account: BrokerAccount) -> list[Move]:
        return self.memory.books[account.account_id].moves

    async def read_balances(self, account: BrokerAccount, ago: float = 0.0) -> StoredBalances | None:
        book = self.memory.books[account.account_id]
        book.balances_wanted_at = datetime.now(UTC) - timedelta(seconds=ago)
        if book.balances is None or book.balances_read_at is None:
            return None
        return StoredBalances(balances=book.balances, read_at=book.balances_read_at)

    async def make_balances_older(self, account: BrokerAccount, seconds: float) -> None:
        book = self.memory.books[account.account_id]
        assert book.balances_read_at is not None
        book.balances_read_at -= timedelta(seconds=seconds)

    async def events(self, account: BrokerAccount) -> list[tuple[int, str]]:
        return [(event.number, event.body) for event in self.memory.books[account.account_id].events]


def _as_known(account: TradingAccount) -> BrokerAccount:
    return BrokerAccount(account.organization_id, account.id, account.broker, account.slot)


async def postgres_bench(pool: Pool) -> Bench:
    """An account on PostgreSQL."""
    tenant = await a_tenant(pool)
    database = PostgresDatabase(
        pool,
        tenant,
        PostgresExecutionStore(pool),
        PostgresOutboxStore(pool, Queue.INTENTS),
        PostgresLeaseStore(pool),
    )
    return Bench(database, _as_known(tenant.account))


async def memory_bench() -> Bench:
    """An account in memory."""
    memory = MemoryDatabase(lambda: datetime.now(UTC))
    database = InMemory(memory, MemoryExecutionStore(memory), MemoryOutboxStore(memory), MemoryLeaseStore(memory))
    return Bench(database, await database.another_account())
