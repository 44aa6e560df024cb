"""Keep every account of our slots signed in at its broker with the credential that it has now."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Final

from openbell_server.application.hold_slots import HoldSlots
from openbell_server.application.ports.broker import BrokerSession
from openbell_server.application.ports.execution import AccountStanding, AccountTransaction, BrokerAccount
from openbell_server.application.ports.hints import Hints
from openbell_server.application.ports.sessions import SealedStore, SessionStore, StoredCredential
from openbell_server.application.ports.vault import Opener, VaultError
from openbell_server.domain.credentials import NOT_READY, CredentialStatus, SignedIn
from openbell_server.domain.identifiers import AccountId

SIGN_IN_SECONDS: Final = 3.0
# At each broker: one that is slow to let accounts in keeps no other's waiting.
AT_ONCE_MAX: Final = 16
# Places for what somebody waits for, however many accounts a takeover brings.
RESERVED: Final = 4
RETRY_SECONDS: Final = 0.5
RETRY_SECONDS_MAX: Final = 30.0
STANDINGS_MAX: Final = 100_000
SIGNING_IN_TOLD_MAX: Final = 1_000
# No credential has this version.
_IN_DOUBT: Final = 0


class Passage(Enum):
    """What may pass the door of an account."""

    OPEN = "open"
    # The credential is missing or bad: what is new is skipped, and a cancel waits.
    NOT_READY = "not_ready"
    # It must be signed in first.
    WAIT = "wait"


@dataclass(slots=True)
class _Trouble:
    """An account that could not be signed in; nothing is known of its credential."""

    account: BrokerAccount
    failures: int
    retry_at: float


@dataclass(slots=True)
class KeepSessions:
    """Who is signed in with which version; an answer that nobody could give is asked for again, ever more slowly."""

    store: SessionStore
    sealed: SealedStore
    # None where no key was given: what is sealed stays closed.
    opener: Opener | None
    sessions: Mapping[str, BrokerSession]
    slots: HoldSlots
    hints: Hints
    monotonic: Callable[[], float]
    # Called when an account may have something to do: its credential, or anything else about it, has changed.
    then: Callable[[AccountId], None]
    # Why sign-ins failed, for the log: an account and the kind of trouble, never its text.
    failures: list[tuple[AccountId, str]] = field(default_factory=list)
    # How often an account came to stand anew: what a broker did not tell before, it may tell now.
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

    async def passage(self, account: BrokerAccount, transaction: AccountTransaction) -> Passage:
        """What may pass the account's door now, decided under its lock; a sign-in that is missing is begun."""
        standing = self._standings.get(account.account_id)
        self._enter(transaction.epochs[0])
        # Every change of an account begins a new epoch, under the same lock.
        if standing is None or standing.epochs != transaction.epochs:
            standing = await transaction.standing()
            if len(self._standings) >= STANDINGS_MAX:
                self._standings.clear()
            self._standings[account.account_id] = standing
        if standing.credential_status in NOT_READY:
            return Passage.NOT_READY
        if self._version(account.account_id) == standing.credential_version:
            return Passage.OPEN
        if account.account_id not in self._running and self._is_due(account.account_id):
            self._start(account, urgent=True)
        return Passage.WAIT

    def hear(self, account: BrokerAccount) -> None:
        """Something about the account or its credential has changed, or somebody wants its broker asked."""
        if account.slot in self.slots.held():
            self._trouble.pop(account.account_id, None)
            self._start(account, urgent=True)

    async def begin(self, broker: str, slots: Collection[int]) -> None:
        """Sign in what is not, in slots that were taken or whose broker was out of reach; nobody waits for it here."""
        for account in await self.store.accounts_with_credentials_across_organizations(broker, slots):
            if not self._version(account.account_id):
                self._pending.add(account.account_id)
                self._start(account, urgent=False)

    def is_pending(self, account_id: AccountId) -> bool:
        """Whether the account must be signed in and its broker has not answered yet, so that asking is no use."""
        return account_id in self._pending

    def signing_in(self) -> frozenset[AccountId]:
        """Accounts that must be signed in and are not, so that nothing is sent for them; of very many not all."""
        waiting = sorted(each for each in {*self._pending, *self._trouble} if not self._version(each))
        return frozenset(waiting[:SIGNING_IN_TOLD_MAX])

    async def sweep(self) -> None:
        """Find what no message announced, try again what failed, and let go of accounts that are another's."""
        held = self.slots.held()
        # That nothing is surely ours does not say that it is another's.
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
        for account in await self.store.accounts_asked_across_organizations(held):
            if account.account_id not in self._trouble and account.account_id not in self._running:
                self._start(account, urgent=True)

    async def close(self) -> None:
        """Ask no more; a question that is not answered stays one."""
        self._closing = True
        running = [*self._running.values()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _enter(self, database_epoch: int) -> None:
        """A restored database may give the same numbers to other credentials: all are signed in anew."""
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
        """One at a time for an account; what is asked meanwhile is asked once more after it."""
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
        """Who may begin now, the longest waiting of each broker first; their places are taken."""
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
        """Make the session what the account's row says; whatever goes wrong is tried again later."""
        account_id, held = account.account_id, self.slots.held()
        if not held:
            return
        try:
            # An account that is another's is let go of.
            credential = await self.store.credential_of(account) if account.slot in held else None
            if credential is None:
                await self._sign_out(account)
            elif credential.is_asked or self._version(account_id) != credential.place.version:
                await self._sign_in(account, credential)
        except Exception as error:  # noqa: BLE001 - one account's trouble is not its neighbours'
            known = self._trouble.get(account_id)
            failures = known.failures + 1 if known else 1
            wait = min(RETRY_SECONDS_MAX, RETRY_SECONDS * 2 ** min(failures - 1, 10))
            self._trouble[account_id] = _Trouble(account, failures, self.monotonic() + wait)
            self.failures.append((account_id, type(error).__name__))
        else:
            self._trouble.pop(account_id, None)
            self._pending.discard(account_id)
            self.changes += 1
        self.then(account_id)

    async def _sign_in(self, account: BrokerAccount, credential: StoredCredential) -> None:
        place = credential.place
        sealed = await self.sealed.read(place)
        if self.opener is None or sealed is None:
            raise VaultError("there is no key, or the secrets were replaced meanwhile")
        secrets = await self.opener.open(place, sealed)
        session = self.sessions[account.broker]
        if self._version(account.account_id) != place.version:
            # From here on nobody knows what the broker is sent with: no door opens before the answer is on record.
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
            # The broker let it in, but for an account that is not this one.
            await self._sign_out(account)
        return None

    async def _sign_out(self, account: BrokerAccount) -> None:
        if account.account_id in self._signed_in:
            self._signed_in[account.account_id] = (account, _IN_DOUBT)
            async with asyncio.timeout(SIGN_IN_SECONDS):
                await self.sessions[account.broker].sign_out(account.account_id)
            del self._signed_in[account.account_id]
