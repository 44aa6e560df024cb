"""The database in memory: books of accounts under their locks, and transactions that end all or nothing."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from types import TracebackType
from typing import Self
from uuid import UUID

from openbell_server.application.ports.account_transaction import BrokerAccount, Hold, OrderTerms
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.credentials import CredentialStatus
from openbell_server.domain.controls.symbol_controls import SymbolControls
from openbell_server.domain.events.account_events import EventKind
from openbell_server.domain.identifiers import AccountId, ActionId, IntentId, Symbol
from openbell_server.domain.money.balances import Balances
from openbell_server.domain.orders.action_lifecycle import ActionState, Reason
from openbell_server.domain.orders.broker_reports import BrokerExecution, ExecutionChange
from openbell_server.domain.orders.external_orders import ExternalOrder
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_aggregate import Order
from openbell_server.domain.orders.order_terms import Terms
from openbell_server.domain.orders.positions import PositionCause

LOCK_SECONDS = 2.0


class DatabaseAway(ConnectionError):
    """The connection is gone, or a lock could not be had: what the real store's callers may retry."""


class LockHeld(DatabaseAway):
    """A lock could not be had: nothing was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRow:
    """An action with where it stands."""

    action_id: ActionId
    intent_id: IntentId
    seq: int
    number: int
    action_type: ActionType
    queued_at: datetime
    updated_at: datetime
    replacement: Terms | None = None
    state: ActionState = ActionState.QUEUED
    reason: Reason | None = None
    attempt_id: UUID | None = None
    send_started_at: datetime | None = None
    known_as: ActionId | None = None
    probes: tuple[tuple[datetime, bool], ...] = ()
    unknown_since: datetime | None = None
    settled_at: datetime | None = None
    principal_revoked: bool = False
    deadline: datetime | None = None
    resends: int = 0
    flagged_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """One line of an account's log."""

    number: int
    kind: EventKind
    intent_id: IntentId | None
    seq: int | None
    body: str


@dataclass(frozen=True, slots=True)
class Move:
    """One change of a position; the value of an external order's fills, the broker's average of what it holds."""

    symbol: Symbol
    change: Decimal
    cause: PositionCause
    value: Decimal | None = None
    average_price: Decimal | None = None


@dataclass(slots=True, kw_only=True)
class Book:
    """All that is kept of one account; rows are never changed, only replaced."""

    account: BrokerAccount
    # None where the account needs no credential.
    credential_version: int | None = None
    credential_status: CredentialStatus = CredentialStatus.NOT_REQUIRED
    environment: Environment = Environment.PAPER
    epoch: int = 1
    is_disabled: bool = False
    controls: dict[Symbol, SymbolControls] = field(default_factory=dict)
    actions: dict[ActionId, ActionRow] = field(default_factory=dict)
    # The actions of each intent, in order.
    intents: dict[IntentId, tuple[ActionId, ...]] = field(default_factory=dict)
    orders: dict[IntentId, Order] = field(default_factory=dict)
    # How often an order changed or its intent got another action; 1 where it is missing.
    versions: dict[IntentId, int] = field(default_factory=dict)
    terms: dict[IntentId, OrderTerms] = field(default_factory=dict)
    executions: dict[str, tuple[IntentId, BrokerExecution]] = field(default_factory=dict)
    changes: dict[tuple[str, int], tuple[IntentId, ExecutionChange]] = field(default_factory=dict)
    external: dict[str, ExternalOrder] = field(default_factory=dict)
    candidates: dict[ActionId, tuple[str, ...]] = field(default_factory=dict)
    reconciled_at: datetime | None = None
    reconciled_event: int = 0
    halt_code: str | None = None
    positions: dict[Symbol, Decimal] = field(default_factory=dict)
    positions_moved_at: dict[Symbol, datetime] = field(default_factory=dict)
    positions_as_of: datetime | None = None
    balances: Balances | None = None
    balances_read_at: datetime | None = None
    # When somebody last read them.
    balances_wanted_at: datetime | None = None
    adjustments: list[tuple[Symbol, Decimal, str]] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    # What a restored database forgot, and when that began.
    hold: Hold | None = None
    was_restored: bool = False
    forgotten: dict[ActionId, None] = field(default_factory=dict)

    def write_order(self, intent_id: IntentId, order: Order) -> None:
        """Replace an order, as its next version."""
        self.orders[intent_id] = order
        self.versions[intent_id] = self.versions.get(intent_id, 1) + 1

    def draft(self) -> "Book":
        """A copy to write in, which becomes the book when its transaction commits."""
        return Book(
            account=self.account,
            credential_version=self.credential_version,
            credential_status=self.credential_status,
            environment=self.environment,
            epoch=self.epoch,
            is_disabled=self.is_disabled,
            controls={**self.controls},
            actions={**self.actions},
            intents={**self.intents},
            orders={**self.orders},
            versions={**self.versions},
            terms={**self.terms},
            executions={**self.executions},
            changes={**self.changes},
            external={**self.external},
            candidates={**self.candidates},
            reconciled_at=self.reconciled_at,
            reconciled_event=self.reconciled_event,
            halt_code=self.halt_code,
            positions={**self.positions},
            positions_moved_at={**self.positions_moved_at},
            positions_as_of=self.positions_as_of,
            balances=self.balances,
            balances_read_at=self.balances_read_at,
            balances_wanted_at=self.balances_wanted_at,
            adjustments=[*self.adjustments],
            moves=[*self.moves],
            events=[*self.events],
            hold=self.hold,
            was_restored=self.was_restored,
            forgotten={**self.forgotten},
        )


@dataclass(slots=True)
class _Lock:
    holder: "Transaction | None" = None
    waiting: list[tuple["Transaction", asyncio.Future[None]]] = field(default_factory=list)


async def _at_once() -> None:
    await asyncio.sleep(0)


@dataclass(slots=True)
class MemoryDatabase:
    """Whoever waits for a lock may be next, whoever loses its connection is rolled back, and an end can be doubtful."""

    clock: Callable[[], datetime]
    # Who speaks: all of its transactions end with it.
    whose: Callable[[], object] = lambda: None
    # The way of a statement to the database, or of its answer back; may raise DatabaseAway.
    trip: Callable[[], Awaitable[None]] = _at_once
    # Which of so many waits no longer.
    choose: Callable[[int], int] = lambda _: 0
    # What becomes of the next commit: None is well, True a lost answer, False a lost commit.
    commit_doubt: Callable[[], bool | None] = lambda: None
    note: Callable[[str], None] = lambda _: None
    books: dict[AccountId, Book] = field(default_factory=dict)
    _locks: dict[AccountId, _Lock] = field(default_factory=dict)
    _open: dict["Transaction", None] = field(default_factory=dict)

    def add_account(self, book: Book) -> None:
        """Open an account."""
        self.books[book.account.account_id] = book

    def disconnect(self, owner: object = None) -> None:
        """End the transactions of one who is gone, or of everybody."""
        for transaction in [*self._open]:
            if owner is None or transaction.owner is owner:
                transaction.lose()

    def take_lock(self, transaction: "Transaction") -> asyncio.Future[None] | None:
        """Have the account's lock now, or what to wait for."""
        lock = self._locks.setdefault(transaction.account.account_id, _Lock())
        self._open[transaction] = None
        if lock.holder is None:
            lock.holder = transaction
            return None
        future = asyncio.get_running_loop().create_future()
        lock.waiting.append((transaction, future))
        return future

    def let_go(self, transaction: "Transaction") -> None:
        """Give the lock to one who waits."""
        self._open.pop(transaction, None)
        lock = self._locks[transaction.account.account_id]
        lock.waiting = [waits for waits in lock.waiting if waits[0] is not transaction]
        if lock.holder is transaction:
            lock.holder = None
            while lock.waiting and lock.holder is None:
                following, future = lock.waiting.pop(self.choose(len(lock.waiting)))
                if not future.done():
                    lock.holder = following
                    future.set_result(None)


@dataclass(eq=False, slots=True)
class Transaction:
    """One transaction that holds an account's lock and writes in a draft of its book."""

    database: MemoryDatabase
    account: BrokerAccount
    owner: object = None
    is_lost: bool = False
    began_at: datetime = field(init=False)
    book: Book = field(init=False)

    async def __aenter__(self) -> Self:
        """Wait for the lock, as long as the real one lets wait."""
        self.owner = self.database.whose()
        await self.database.trip()
        self.began_at = self.database.clock()
        waits = self.database.take_lock(self)
        if waits is not None:
            timer = asyncio.get_running_loop().call_later(LOCK_SECONDS, self.lose)
            try:
                await waits
            except BaseException:
                self.lose()
                raise
            finally:
                timer.cancel()
        self.check()
        self.book = self.database.books[self.account.account_id].draft()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit, or roll back after any error."""
        if error is not None:
            self.lose()
            return
        try:
            self.finish()
            await self.statement()
            doubt = self.database.commit_doubt()
            if doubt is not False:
                self.commit()
        finally:
            self.lose()
        if doubt is not None:
            raise DatabaseAway("nobody heard the end of the commit")
        await self.database.trip()

    def finish(self) -> None:
        """What is written last."""

    def commit(self) -> None:
        """The draft is the book from now on."""
        self.database.books[self.account.account_id] = self.book

    def lose(self) -> None:
        """Roll back, if it is not over."""
        self.is_lost = True
        for transaction, waits in self.database._locks[self.account.account_id].waiting:
            if transaction is self and not waits.done():
                waits.set_exception(LockHeld("the lock could not be had"))
        self.database.let_go(self)

    def check(self) -> None:
        """Refuse to go on without a connection."""
        if self.is_lost:
            raise DatabaseAway("the connection is gone")

    async def statement(self) -> None:
        """One round trip."""
        try:
            await self.database.trip()
        except DatabaseAway:
            self.lose()
            raise
        self.check()
