"""The outbox, the leases and the credentials in memory."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from uuid import UUID

from openbell_server.application.execution.ports import StoredCredential
from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.credentials import (
    CredentialStatus,
    SealedSecrets,
    SecretPlace,
    Secrets,
    SignedIn,
    SignInRefused,
)
from openbell_server.domain.events.outbox import ATTEMPTS_MAX, ClaimedRow, OutboxStatus
from openbell_server.domain.identifiers import SLOTS, AccountId, ActionId
from openbell_server.domain.orders.action_lifecycle import ActionState
from simulation.memory_database import MemoryDatabase, Transaction

CLAIM_SECONDS = 5
FORGET_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxRow:
    """A row of the intents' queue."""

    outbox_id: int
    account_id: AccountId
    action_id: ActionId
    slot: int
    available_at: datetime
    status: OutboxStatus = OutboxStatus.PENDING
    claimed_at: datetime | None = None
    claim_token: int = 0
    attempts: int = 0


@dataclass(slots=True)
class MemoryOutboxStore:
    """Implements OutboxStore."""

    database: MemoryDatabase
    attempts_max: int = ATTEMPTS_MAX
    rows: dict[int, OutboxRow] = field(default_factory=dict)

    def add(self, account: BrokerAccount, action_id: ActionId) -> None:
        """Write a row, as the accept step does."""
        number = len(self.rows) + 1
        self.rows[number] = OutboxRow(
            outbox_id=number,
            account_id=account.account_id,
            action_id=action_id,
            slot=account.slot,
            available_at=self.database.clock(),
        )

    async def claim_across_organizations(self, limit: int) -> list[ClaimedRow]:
        """Take rows into our hands for five seconds, the oldest first."""
        await self.database.trip()
        now = self.database.clock()
        stale = now - timedelta(seconds=CLAIM_SECONDS)
        blocked: set[AccountId] = set()
        claimed: list[ClaimedRow] = []
        for row in [row for row in self.rows.values() if row.status in _UNRESOLVED]:
            is_due = row.available_at <= now if row.claimed_at is None else row.claimed_at < stale
            if not is_due or row.account_id in blocked:
                blocked.add(row.account_id)
            elif row.attempts >= self.attempts_max:
                self._set(replace(row, status=OutboxStatus.FAILED, claimed_at=None))
            elif len(claimed) < limit:
                token, attempts = row.claim_token + 1, row.attempts + 1
                self._set(
                    replace(row, status=OutboxStatus.PROCESSING, claimed_at=now, claim_token=token, attempts=attempts)
                )
                claimed.append(
                    ClaimedRow(row.outbox_id, token, attempts, str(row.account_id), "intent.queued", slot=row.slot)
                )
        await self.database.trip()
        return claimed

    async def complete_taken_up_across_organizations(self, limit: int) -> int:
        """Resolve waiting rows whose action has passed its door."""
        await self.database.trip()
        waiting = [row for row in self.rows.values() if row.status is OutboxStatus.PENDING][:limit]
        taken_up = [row for row in waiting if not self._is_queued(row)]
        for row in taken_up:
            self._set(replace(row, status=OutboxStatus.COMPLETED))
        await self.database.trip()
        return len(taken_up)

    async def complete_across_organizations(self, rows: Sequence[ClaimedRow]) -> int:
        """Resolve rows we still hold; how many that were."""
        await self.database.trip()
        ours = [row for row in rows if self._is_ours(row)]
        for row in ours:
            self._set(replace(self.rows[row.outbox_id], status=OutboxStatus.COMPLETED, claimed_at=None))
        await self.database.trip()
        return len(ours)

    async def release_across_organizations(
        self, rows: Sequence[ClaimedRow], wait_seconds: Sequence[float | None]
    ) -> list[int]:
        """Give rows back for a later try; those that used up their tries and are failed."""
        await self.database.trip()
        failed = []
        for row, wait in zip(rows, wait_seconds, strict=True):
            if not self._is_ours(row):
                continue
            kept = replace(
                self.rows[row.outbox_id],
                status=OutboxStatus.PENDING,
                claimed_at=None,
                available_at=self.database.clock() + timedelta(seconds=wait or 0),
            )
            if wait is None:
                kept = replace(kept, attempts=kept.attempts - 1)
            elif kept.attempts >= self.attempts_max:
                kept = replace(kept, status=OutboxStatus.FAILED)
                failed.append(row.outbox_id)
            self._set(kept)
        await self.database.trip()
        return failed

    def _is_ours(self, row: ClaimedRow) -> bool:
        kept = self.rows[row.outbox_id]
        return kept.claim_token == row.claim_token and kept.status is OutboxStatus.PROCESSING

    def _is_queued(self, row: OutboxRow) -> bool:
        action = self.database.books[row.account_id].actions.get(row.action_id)
        return action is not None and action.state is ActionState.QUEUED

    def _set(self, row: OutboxRow) -> None:
        self.rows[row.outbox_id] = row


_UNRESOLVED = {OutboxStatus.PENDING, OutboxStatus.PROCESSING}


@dataclass(slots=True)
class MemoryLeaseStore:
    """Implements LeaseStore."""

    database: MemoryDatabase
    seen: dict[UUID, datetime] = field(default_factory=dict)
    leases: dict[int, tuple[UUID, datetime] | None] = field(default_factory=lambda: dict.fromkeys(range(SLOTS)))

    async def join(self, executor_id: UUID) -> None:
        """Come in the place of earlier runs of the same name."""
        await self.database.trip()
        for namesake in self._namesakes(executor_id):
            del self.seen[namesake]
        self.seen[executor_id] = self.database.clock()

    async def renew(self, executor_id: UUID, seconds: float) -> tuple[set[int], int]:
        """Hold on to what is ours; which slots those are, and how many executors live: none for one replaced."""
        await self.database.trip()
        now = self.database.clock()
        since = now - timedelta(seconds=seconds)
        forget = now - timedelta(seconds=FORGET_SECONDS)
        self.seen = {each: at for each, at in self.seen.items() if at >= forget}
        if executor_id not in self.seen and any(self.seen[each] > since for each in self._namesakes(executor_id)):
            return set(), 0
        self.seen[executor_id] = now
        held = {slot for slot, lease in self.leases.items() if lease and lease[0] == executor_id}
        for slot in held:
            self.leases[slot] = (executor_id, now + timedelta(seconds=seconds))
        living = sum(at > since for at in self.seen.values())
        await self.database.trip()
        return held, living

    async def take(self, executor_id: UUID, seconds: float, limit: int) -> set[int]:
        """Take slots that nobody holds any more."""
        await self.database.trip()
        now = self.database.clock()
        free = [slot for slot, lease in self.leases.items() if not lease or lease[1] < now or lease[0] not in self.seen]
        for slot in free[:limit]:
            self.leases[slot] = (executor_id, now + timedelta(seconds=seconds))
        await self.database.trip()
        return set(free[:limit])

    async def release(self, executor_id: UUID, slots: Collection[int]) -> None:
        """Give slots to whoever wants them."""
        await self.database.trip()
        for slot in slots:
            lease = self.leases[slot]
            if lease and lease[0] == executor_id:
                self.leases[slot] = None

    async def leave(self, executor_id: UUID) -> None:
        """Stop counting as one of the living."""
        await self.database.trip()
        self.seen.pop(executor_id, None)

    def _namesakes(self, executor_id: UUID) -> list[UUID]:
        name = executor_id.bytes[:8]
        return [each for each in self.seen if each.bytes[:8] == name and each != executor_id]


@dataclass(slots=True)
class MemorySessionStore:
    """Implements SessionStore, SealedStore and Opener: who must sign in, with a secret that is not one."""

    database: MemoryDatabase

    async def credential_of(self, account: BrokerAccount) -> StoredCredential | None:
        """What the account must sign in with now."""
        await self.database.trip()
        book = self.database.books[account.account_id]
        if book.credential_version is None:
            return None
        place = SecretPlace(account.organization_id, account.account_id, account.account_id, book.credential_version)
        is_asked = book.credential_status is CredentialStatus.UNVERIFIED
        return StoredCredential(place, Environment.PAPER, self.database.clock(), is_asked)

    async def record_answer(
        self, credential: StoredCredential, answer: SignedIn | SignInRefused
    ) -> CredentialStatus | None:
        """Write what the broker said; None if that version is not current any more."""
        account = self.database.books[credential.place.account_id].account
        async with Transaction(self.database, account) as transaction:
            book = transaction.book
            if book.credential_version != credential.place.version:
                return None
            status = CredentialStatus.VALID if isinstance(answer, SignedIn) else CredentialStatus.INVALID
            if status is not book.credential_status:
                book.credential_status = status
                book.epoch += 1
            return status

    async def accounts_with_credentials_across_organizations(
        self, broker: str, slots: Collection[int]
    ) -> list[BrokerAccount]:
        """Accounts of these slots that must be signed in at a broker."""
        await self.database.trip()
        books = self.database.books.values()
        return [
            book.account
            for book in books
            if book.credential_version and book.account.broker == broker and book.account.slot in slots
        ]

    async def accounts_asked_across_organizations(self, slots: Collection[int]) -> list[BrokerAccount]:
        """Accounts of these slots whose broker was not asked yet."""
        await self.database.trip()
        asked = [b for b in self.database.books.values() if b.credential_status is CredentialStatus.UNVERIFIED]
        return [book.account for book in asked if book.account.slot in slots]

    async def read(self, place: SecretPlace) -> SealedSecrets | None:
        """The sealed secrets of a place."""
        await self.database.trip()
        return SealedSecrets("", b"", str(place.version).encode())

    async def open(self, place: SecretPlace, sealed: SealedSecrets) -> Secrets:
        """Their one field: the version they were sealed for."""
        del place
        return Secrets({"key_id": sealed.sealed.decode()})
