"""What execution looks at next, in memory."""

from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from openbell_server.application.ports.account_transaction import AccountTransaction, BrokerAccount
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.orders.action_lifecycle import ActionState
from simulation.memory_database import ActionRow, Book, MemoryDatabase
from simulation.memory_execution import MemoryAccountTransaction, is_open, is_queued, is_to_flag

NEAR_SECONDS = 20
PROBE_SECONDS_MAX = 30


@dataclass(frozen=True, slots=True)
class MemoryExecutionStore:
    """Implements ExecutionStore."""

    database: MemoryDatabase

    def account_transaction(self, account: BrokerAccount) -> AbstractAsyncContextManager[AccountTransaction]:
        """A transaction under the account's lock."""
        return MemoryAccountTransaction(self.database, account)

    async def find_account_across_organizations(self, account_id: AccountId) -> BrokerAccount | None:
        """Whose account this is, and where it trades."""
        await self.database.trip()
        book = self.database.books.get(account_id)
        return None if book is None else book.account

    async def accounts_waiting_across_organizations(
        self, slots: Collection[int], older_than_seconds: float
    ) -> list[AccountId]:
        """Accounts of these slots with an action that has been queued for long."""
        await self.database.trip()
        before = self.database.clock() - timedelta(seconds=older_than_seconds)
        return self._accounts(slots, lambda row: is_queued(row) and row.queued_at < before)

    async def accounts_in_doubt_across_organizations(
        self, slots: Collection[int], stuck_after_seconds: float
    ) -> list[AccountId]:
        """Accounts of these slots with an action that passed the door and has no outcome."""
        await self.database.trip()
        now = self.database.clock()

        def is_due(row: ActionRow) -> bool:
            if row.send_started_at is None:
                return False
            if row.state is ActionState.DISPATCHING:
                return row.send_started_at < now - timedelta(seconds=stuck_after_seconds)
            age = (now - row.send_started_at).total_seconds()
            wait = 1.0 if age < NEAR_SECONDS else min(PROBE_SECONDS_MAX, age / 4)
            return row.state is ActionState.UNKNOWN and row.updated_at < now - timedelta(seconds=wait)

        return self._accounts(slots, is_due)

    async def accounts_held_across_organizations(
        self, slots: Collection[int], settle_seconds: float
    ) -> list[AccountId]:
        """Accounts of these slots that must be compared with their broker before anything is sent."""
        await self.database.trip()
        before = self.database.clock() - timedelta(seconds=settle_seconds)
        return [
            account_id
            for account_id, book in self.database.books.items()
            if book.account.slot in slots and book.hold and book.hold.began_at and book.hold.began_at < before
        ]

    async def accounts_to_flag_across_organizations(
        self, slots: Collection[int], stuck_after_seconds: float, flag_after_seconds: float
    ) -> list[AccountId]:
        """Accounts of these slots with an action whose doubt nobody sees yet, or nobody was told to look at."""
        await self.database.trip()
        return self._accounts(slots, is_to_flag(self.database.clock(), stuck_after_seconds, flag_after_seconds))

    async def accounts_with_open_orders_across_organizations(
        self, broker: str, slots: Collection[int]
    ) -> list[BrokerAccount]:
        """Accounts of these slots with orders that a broker may have."""
        await self.database.trip()
        return [
            book.account
            for book in self._at(broker, slots)
            if any(
                not is_queued(book.actions[action_ids[0]]) and is_open(book.orders[intent_id])
                for intent_id, action_ids in book.intents.items()
            )
        ]

    async def accounts_touched_across_organizations(self, broker: str, slots: Collection[int]) -> list[BrokerAccount]:
        """Accounts of these slots that something happened to since they were last compared with a broker."""
        await self.database.trip()
        return [book.account for book in self._at(broker, slots) if len(book.events) > book.reconciled_event]

    async def accounts_without_positions_across_organizations(
        self, broker: str, slots: Collection[int]
    ) -> list[BrokerAccount]:
        """None: no account here has a rule."""
        del broker, slots
        await self.database.trip()
        return []

    async def accounts_with_old_balances_across_organizations(
        self, slots: Collection[int], older_than_seconds: float
    ) -> list[BrokerAccount]:
        """Accounts of these slots whose balances somebody reads and which are missing or old; the oldest first."""
        await self.database.trip()
        now = self.database.clock()
        wanted_since, fresh_since = now - timedelta(seconds=600), now - timedelta(seconds=older_than_seconds)
        due = [
            (book.balances_read_at, book.account)
            for book in self.database.books.values()
            if book.account.slot in slots
            and book.balances_wanted_at is not None
            and book.balances_wanted_at > wanted_since
            and (book.balances_read_at is None or book.balances_read_at < fresh_since)
        ]
        never = datetime.min.replace(tzinfo=UTC)
        return [account for _, account in sorted(due, key=lambda row: row[0] or never)]

    def _at(self, broker: str, slots: Collection[int]) -> list[Book]:
        books = self.database.books.values()
        return [book for book in books if book.account.broker == broker and book.account.slot in slots]

    def _accounts(self, slots: Collection[int], is_due: Callable[[ActionRow], bool]) -> list[AccountId]:
        return [
            account_id
            for account_id, book in self.database.books.items()
            if book.account.slot in slots
            and any(row.settled_at is None and is_due(row) for row in book.actions.values())
        ]
