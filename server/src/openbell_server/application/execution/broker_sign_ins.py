"""Keep the accounts of our slots signed in at their brokers with their current credentials."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Final

from openbell_server.application.access.ports.vault import Opener, VaultError
from openbell_server.application.execution.ports import SealedStore, SessionStore, StoredCredential
from openbell_server.application.execution.slot_leases import SlotLeases
from openbell_server.application.ports.account_transaction import AccountStanding, AccountTransaction, BrokerAccount
from openbell_server.application.ports.broker import BrokerSession
from openbell_server.application.ports.hints import Hints
from openbell_server.domain.access.credentials import NOT_READY, CredentialStatus, SignedIn
from openbell_server.domain.identifiers import AccountId

SIGN_IN_SECONDS: Final = 3.0
# Concurrent sign-ins per broker, so that a slow broker does not delay others.
AT_ONCE_MAX: Final = 16
# Places reserved for urgent sign-ins, however many accounts a takeover brings.
RESERVED: Final = 4
RETRY_SECONDS: Final = 0.5
RETRY_SECONDS_MAX: Final = 30.0
STANDINGS_MAX: Final = 100_000
SIGNING_IN_REPORTED_MAX: Final = 1_000
# No credential has this version.
_IN_DOUBT: Final = 0


class SendPermission(Enum):
    """What may be sent for an account."""

    OPEN = "open"
    # The credential is missing or invalid: new commands are skipped, cancels wait.
    NOT_READY = "not_ready"
    # The account must be signed in first.
    WAIT = "wait"


@dataclass(slots=True)
class _Trouble:
    """An account whose sign-in failed without an answer about its credential."""

    account: BrokerAccount
    failures: int
    retry_at: float


@dataclass(slots=True)
class BrokerSignIns:
    """Signed-in accounts and their credential versions; a sign-in without an answer is retried with backoff."""

    store: SessionStore
    sealed: SealedStore
    # None if no key is configured: then secrets cannot be opened.
    opener: Opener | None
    sessions: Mapping[str, BrokerSession]
    slots: SlotLeases
    hints: Hints
    monotonic: Callable[[], float]
    # Called with the account after every sign-in attempt.
    listeners: list[Callable[[AccountId], None]] = field(default_factory=list)
    # Failed sign-ins for the log: account and error type, never the text, which may contain secrets.
    failures: list[tuple[AccountId, str]] = field(default_factory=list)
    # Counts completed refreshes: after one, the broker may answer for an account that it refused before.
    changes: int = 0
    _signed_in: dict[AccountId, tuple[BrokerAccount, int]] = field(default_factory=dict)
    _pending: set[AccountId] = field(default_factory=set)
    _standings: dict[AccountId, AccountStanding] = field(default_factory=dict)
    _trouble: dict[AccountId, _Trouble] = field(default_factory=dict)
    _urgent: dict[AccountId, BrokerAccount] = field(default_factory=dict)
    _queued: dict[AccountId, BrokerAccount] = field(default_factory=dict)
    _running: dict[AccountId, asyncio.Task[None]] = field(default_factory=dict)
    _busy: Counter[str] = field(default_factory=Counter)
    _database_epoch: int | None = None
    _closing: bool = False

    async def passage(self, account: BrokerAccount, transaction: AccountTransaction) -> SendPermission:
        """What may be sent now, decided under the account's lock; starts a missing sign-in."""
        standing = self._standings.get(account.account_id)
        self._enter(transaction.epochs[0])
        # Every change of an account starts a new epoch under the same lock.
        if standing is None or standing.epochs != transaction.epochs:
            standing = await transaction.standing()
            if len(self._standings) >= STANDINGS_MAX:
                self._standings.clear()
            self._standings[account.account_id] = standing
        if standing.credential_status in NOT_READY:
            return SendPermission.NOT_READY
        if self._version(account.account_id) == standing.credential_version:
            return SendPermission.OPEN
        if account.account_id not in self._running and self._is_due(account.account_id):
            self._start(account, urgent=True)
        return SendPermission.WAIT

    def version_for(self, account_id: AccountId, database_epoch: int) -> int | None:
        """The credential version that an account is signed in with; None without one."""
        self._enter(database_epoch)
        return self._version(account_id)

    def notify(self, account: BrokerAccount) -> None:
        """The account or its credential changed, or a caller requested a verification."""
        if account.slot in self.slots.held():
            self._trouble.pop(account.account_id, None)
            self._start(account, urgent=True)

    async def begin(self, broker: str, slots: Collection[int]) -> None:
        """Start sign-ins of accounts in newly held slots, or after the broker was unreachable; returns at once."""
        for account in await self.store.accounts_with_credentials_across_organizations(broker, slots):
            if not self._version(account.account_id):
                self._pending.add(account.account_id)
                self._start(account, urgent=False)

    def is_pending(self, account_id: AccountId) -> bool:
        """Whether the account must be signed in and the broker has not answered yet."""
        return account_id in self._pending

    def signing_in(self) -> frozenset[AccountId]:
        """Accounts for which nothing is sent until they are signed in, at most SIGNING_IN_REPORTED_MAX."""
        waiting = sorted(each for each in {*self._pending, *self._trouble} if not self._version(each))
        return frozenset(waiting[:SIGNING_IN_REPORTED_MAX])

    async def sweep(self, *, is_asked: bool = True) -> None:
        """Find requests without a hint, retry failed sign-ins, and sign out accounts of slots that we lost.

        With is_asked=False there are no requests.
        """
        held = self.slots.held()
        # Without a valid lease we cannot know whether a slot belongs to another executor.
        if not held:
            return
        for account, _ in [*self._signed_in.values()]:
            if account.slot not in held and account.account_id not in self._trouble:
                self._start(account, urgent=False)
        for trouble in [*self._trouble.values()]:
            if trouble.account.slot not in held and trouble.account.account_id not in self._signed_in:
                del self._trouble[trouble.account.account_id]
            elif self.monotonic() >= trouble.retry_at:
                self._start(trouble.account, urgent=False)
        self._pending &= {*self._running, *self._urgent, *self._queued, *self._trouble}
        for account in await self.store.accounts_asked_across_organizations(held) if is_asked else ():
            if account.account_id not in self._trouble and account.account_id not in self._running:
                self._start(account, urgent=True)

    async def close(self) -> None:
        """Cancel running sign-ins and start no more; unanswered requests stay recorded."""
        self._closing = True
        running = [*self._running.values()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _enter(self, database_epoch: int) -> None:
        """A restored database may reuse version numbers for other credentials, so every account signs in again."""
        if self._database_epoch not in {None, database_epoch}:
            self._signed_in = {account_id: (account, _IN_DOUBT) for account_id, (account, _) in self._signed_in.items()}
        self._database_epoch = database_epoch

    def _version(self, account_id: AccountId) -> int | None:
        signed_in = self._signed_in.get(account_id)
        return signed_in[1] if signed_in else None

    def _is_due(self, account_id: AccountId) -> bool:
        trouble = self._trouble.get(account_id)
        return trouble is None or self.monotonic() >= trouble.retry_at

    def _start(self, account: BrokerAccount, *, urgent: bool) -> None:
        """One sign-in at a time per account; a request meanwhile runs after it."""
        if account.account_id not in self._urgent:
            (self._urgent if urgent else self._queued)[account.account_id] = account
        if urgent:
            self._queued.pop(account.account_id, None)
        self._pump()

    def _pump(self) -> None:
        for waiting, places in ((self._urgent, AT_ONCE_MAX), (self._queued, AT_ONCE_MAX - RESERVED)):
            for account in self._due(waiting, places):
                del waiting[account.account_id]
                task = asyncio.ensure_future(self._refresh(account))
                self._running[account.account_id] = task
                task.add_done_callback(partial(self._end, account))

    def _due(self, waiting: Mapping[AccountId, BrokerAccount], places: int) -> list[BrokerAccount]:
        """Take the places of accounts that may start now, the longest waiting first."""
        due: list[BrokerAccount] = []
        for account in waiting.values():
            if self._closing or all(self._busy[broker] >= places for broker in self.sessions):
                break
            if self._busy[account.broker] < places and account.account_id not in self._running:
                self._busy[account.broker] += 1
                due.append(account)
        return due

    def _end(self, account: BrokerAccount, _: asyncio.Task[None]) -> None:
        del self._running[account.account_id]
        self._busy[account.broker] -= 1
        self._pump()

    async def _refresh(self, account: BrokerAccount) -> None:
        """Sign the account in or out as its row requires; errors are retried later."""
        account_id, held = account.account_id, self.slots.held()
        if not held:
            return
        try:
            # An account of another executor is signed out.
            credential = await self.store.credential_of(account) if account.slot in held else None
            if credential is None:
                await self._sign_out(account)
            elif credential.is_asked or self._version(account_id) != credential.place.version:
                await self._sign_in(account, credential)
        except Exception as error:  # noqa: BLE001 - an error of one account must not stop the others
            known = self._trouble.get(account_id)
            failures = known.failures + 1 if known else 1
            wait = min(RETRY_SECONDS_MAX, RETRY_SECONDS * 2 ** min(failures - 1, 10))
            self._trouble[account_id] = _Trouble(account, failures, self.monotonic() + wait)
            self.failures.append((account_id, type(error).__name__))
        else:
            self._trouble.pop(account_id, None)
            self._pending.discard(account_id)
            self.changes += 1
        for listener in self.listeners:
            listener(account_id)

    async def _sign_in(self, account: BrokerAccount, credential: StoredCredential) -> None:
        place = credential.place
        sealed = await self.sealed.read(place)
        if self.opener is None or sealed is None:
            raise VaultError("there is no key, or the secrets were replaced meanwhile")
        secrets = await self.opener.open(place, sealed)
        session = self.sessions[account.broker]
        if self._version(account.account_id) != place.version:
            # From here the session may use either credential, so nothing is sent before the answer is recorded.
            self._signed_in[account.account_id] = (account, _IN_DOUBT)
        async with asyncio.timeout(SIGN_IN_SECONDS):
            answer = await session.sign_in(account.account_id, credential.environment, secrets)
        status = await self.store.record_answer(credential, answer)
        if status is not None and isinstance(answer, SignedIn):
            self._signed_in[account.account_id] = (account, place.version)
        if status is None:
            return self._start(account, urgent=True)
        self.hints.events_were_written([account.account_id])
        if status is CredentialStatus.INVALID and isinstance(answer, SignedIn):
            # The broker accepted the credential, but for another account.
            await self._sign_out(account)
        return None

    async def _sign_out(self, account: BrokerAccount) -> None:
        if account.account_id in self._signed_in:
            self._signed_in[account.account_id] = (account, _IN_DOUBT)
            async with asyncio.timeout(SIGN_IN_SECONDS):
                await self.sessions[account.broker].sign_out(account.account_id)
            del self._signed_in[account.account_id]
