"""Accounts on either of two databases, whose orders are written in ticks."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID, uuid4

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.execution.ticks import PostgresTickStore
from openbell_server.application.execution.draft_transaction import DraftTransaction
from openbell_server.application.execution.ports import DoorRequest, Opened, TickResult, TickStore, Unit
from openbell_server.application.ports.account_transaction import BrokerAccount, Hold
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.credentials import CredentialStatus
from openbell_server.domain.identifiers import Symbol, client_order_id
from openbell_server.domain.orders.broker_reports import BrokerExecution, OrderReport, Outcome, ReportStatus
from openbell_server.domain.orders.order_aggregate import Order
from simulation.memory_database import Book
from simulation.memory_ticks import MemoryTickStore
from support.builders.tenant import a_report
from support.environment.store_benches import Bench, InMemory, PostgresDatabase, memory_bench, postgres_bench

ALL_SLOTS: Final = range(64)
# Every row that is kept of an account.
_TABLES: Final = (
    *("account_counters", "action_states", "orders", "executions", "positions", "position_changes", "account_events"),
)


@dataclass(slots=True)
class TickBench(Bench):
    """An account, and others of its organization, with what an executor remembers of their orders."""

    ticks: TickStore
    attempts: list[UUID] = field(default_factory=list)

    async def tick(
        self,
        units: Sequence[Unit] = (),
        doors: Sequence[DoorRequest] = (),
        slots: Collection[int] = ALL_SLOTS,
    ) -> TickResult:
        """Write one tick, with an attempt of its own."""
        self.attempts.append(uuid4())
        return await self.ticks.write_tick_across_organizations(slots, units, doors, self.attempts[-1])

    async def request(self, doors: int = 9, account: BrokerAccount | None = None) -> DoorRequest:
        """Ask for doors of an account as it stands."""
        account = account or self.account
        terms = await self.ticks.door_terms_across_organizations([account.account_id])
        return DoorRequest(account, terms[account.account_id], None, doors)

    async def send(self, count: int = 1, account: BrokerAccount | None = None) -> list[Opened]:
        """New orders whose doors a tick opened."""
        for _ in range(count):
            await self.accept(account=account)
        result = await self.tick(doors=[await self.request(count, account)])
        assert len(result.opened) == count, result
        return [*result.opened]

    async def sent(self) -> Opened:
        """One new order whose door a tick opened."""
        (opened,) = await self.send()
        return opened

    def unit(
        self, opened: Opened, *received: Outcome | OrderReport, known: Collection[str] = (), account: BrokerAccount
    ) -> Unit:
        """What follows from news of an order, as the executor decides it."""
        draft = DraftTransaction(opened.action, frozenset(known), datetime.now(UTC))
        for each in received:
            draft.apply(each)
        return Unit(
            account=account,
            before=opened.action,
            after=draft.action,
            version=opened.version,
            reason=draft.reason,
            executions=draft.executions,
            change=draft.change,
            events=draft.events,
        )

    def of(self, opened: Opened, *received: Outcome | OrderReport) -> Unit:
        """A unit of this bench's account."""
        return self.unit(opened, *received, account=self.account)

    async def order(self, opened: Opened) -> Order:
        """The order as it stands."""
        return (await self.again(opened.action)).order

    async def record(self, account: BrokerAccount | None = None) -> Any:
        """All that is kept of an account, to be compared."""
        account, database = account or self.account, self.database
        if isinstance(database, InMemory):
            return database.memory.books[account.account_id].draft()
        assert isinstance(database, PostgresDatabase)
        return {
            table: await database.pool.fetch(
                f"select to_jsonb(t)::text from {table} t where t.account_id = $1 order by 1", account.account_id
            )
            for table in _TABLES
        }

    async def change(self, name: str) -> None:
        """Change the account, or what waits of it, as one of CHANGES does."""
        database, (statement, change) = self.database, CHANGES[name]
        if isinstance(database, InMemory):
            change(database.memory.books[self.account.account_id])
            return
        assert isinstance(database, PostgresDatabase)
        await database.pool.execute(statement.replace("$1", f"'{self.account.account_id}'"))


def filled(opened: Opened, *fills: BrokerExecution, status: ReportStatus = ReportStatus.WORKING) -> OrderReport:
    """The broker's report that counts these fills."""
    return a_report(status, fills, client_order_id=client_order_id(opened.action.action_id))


def after(opened: Opened, unit: Unit) -> Opened:
    """What the executor remembers after the unit was written."""
    return replace(opened, action=unit.after, version=opened.version + (unit.after.order != unit.before.order))


async def postgres_tick_bench(pool: Pool, tick_pool: Pool) -> TickBench:
    """On PostgreSQL."""
    bench = await postgres_bench(pool)
    return TickBench(bench.database, bench.account, PostgresTickStore(tick_pool))


async def memory_tick_bench() -> TickBench:
    """In memory."""
    bench = await memory_bench()
    assert isinstance(bench.database, InMemory)
    return TickBench(bench.database, bench.account, MemoryTickStore(bench.database.memory))


def _set(**values: Any) -> Callable[[Book], None]:
    def change(book: Book) -> None:
        for name, value in values.items():
            setattr(book, name, value)

    return change


def _of_actions(change: Callable[[Any], Mapping[str, Any]]) -> Callable[[Book], None]:
    def change_all(book: Book) -> None:
        book.actions = {key: replace(row, **change(row)) for key, row in book.actions.items()}

    return change_all


def _next_epoch(book: Book) -> None:
    book.epoch += 1


_ACCOUNT: Final = "update accounts set {} where account_id = $1"
_COUNTERS: Final = "update account_counters set {} where account_id = $1"
_ACTIONS: Final = "update action_states set {} where account_id = $1"
_POSITION: Final = """insert into positions (organization_id, account_id, symbol, quantity, updated_at)
select organization_id, account_id, 'AAPL', 100.25, clock_timestamp() from accounts where account_id = $1"""
_MINUTE: Final = timedelta(minutes=1)
# Changes of an account after it was judged, in each database.
CHANGES: Final[Mapping[str, tuple[str, Callable[[Book], None]]]] = {
    "epoch": (_COUNTERS.format("control_epoch = control_epoch + 1"), _next_epoch),
    "halt": (_COUNTERS.format("halt_code = 'TEST'"), _set(halt_code="TEST")),
    "disabled": (_ACCOUNT.format("disabled = true"), _set(is_disabled=True)),
    # Memory keeps nothing of organizations.
    "organization disabled": ("update organizations set disabled = true", _set(is_disabled=True)),
    "credential": (_ACCOUNT.format("credential_version = 7"), _set(credential_version=7)),
    "expired": (
        _ACCOUNT.format("credential_status = 'EXPIRED'"),
        _set(credential_status=CredentialStatus.EXPIRED),
    ),
    "restored": (_COUNTERS.format("recovered_epoch = 0"), _set(hold=Hold(2, None, None))),
    "revoked": (
        "update api_keys set revoked_at = clock_timestamp()",
        _of_actions(lambda _: {"principal_revoked": True}),
    ),
    "deadline": (
        _ACTIONS.format("deadline = clock_timestamp() - interval '1 millisecond'"),
        _of_actions(lambda row: {"deadline": row.queued_at}),
    ),
    "later deadline": (
        _ACTIONS.format("deadline = clock_timestamp() + interval '1 hour'"),
        _of_actions(lambda row: {"deadline": row.queued_at + 60 * _MINUTE}),
    ),
    "a minute": (
        _ACTIONS.format("queued_at = queued_at - interval '60 seconds'"),
        _of_actions(lambda row: {"queued_at": row.queued_at - _MINUTE}),
    ),
    "less than a minute": (
        _ACTIONS.format("queued_at = queued_at - interval '30 seconds'"),
        _of_actions(lambda row: {"queued_at": row.queued_at - _MINUTE / 2}),
    ),
    "live": (_ACCOUNT.format("environment = 'live'"), _set(environment=Environment.LIVE)),
    "position": (
        _POSITION,
        lambda book: book.positions.update({Symbol("AAPL"): Decimal("100.25")}),
    ),
}
