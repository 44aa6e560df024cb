"""Read balances from brokers: after fills and reconciliations, and while somebody reads an account's balances."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Final

from openbell_server.application.events.account_log import log_balances_changed
from openbell_server.application.execution.follow_broker import SignIns
from openbell_server.application.execution.ports import ExecutionStore
from openbell_server.application.execution.slot_leases import SlotLeases
from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.application.ports.broker import BrokerSession, NotSignedIn
from openbell_server.application.ports.hints import Hints
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.money.balances import Balances

SWEEP_SECONDS: Final = 2.0
# Balances that somebody reads are read again after this time: with the sweep and the call, within 30 seconds.
STALE_SECONDS: Final = 25.0
# The least time between two reads of an account: many fills follow each other.
SPACING_SECONDS: Final = 3.0
# After a failure, the account is read again after this time.
RETRY_SECONDS: Final = 10.0
ASK_SECONDS: Final = 5.0
# Of each broker: few at once, and few after fills in one sweep, because commands need the broker and the account's lock
# more.
ACCOUNTS_AT_ONCE_MAX: Final = 2
MOVED_MAX: Final = 20


@dataclass(slots=True)
class RefreshBalances:
    """Queries brokers through sessions that give commands priority."""

    store: ExecutionStore
    sessions: Mapping[str, BrokerSession]
    signed_in: SignIns
    slots: SlotLeases
    hints: Hints
    clock: Callable[[], float]
    # Accounts with a fill or a reconciliation since their balances were read; execution adds them.
    moved: MutableMapping[AccountId, BrokerAccount] = field(default_factory=dict)
    # Failed calls by broker and error type; the process logs and clears them.
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    # When an account may be read again.
    _not_before: dict[AccountId, float] = field(default_factory=dict)

    async def sweep(self) -> None:
        """Read the balances of due accounts once, as many as their broker answers in ASK_SECONDS; the others wait."""
        now, held = self.clock(), self.slots.held()
        self._not_before = {account_id: at for account_id, at in self._not_before.items() if at > now}
        for account_id in [each for each, account in self.moved.items() if account.slot not in held]:
            del self.moved[account_id]
        wanted = await self.store.accounts_with_old_balances_across_organizations(held, STALE_SECONDS)
        due: dict[str, dict[AccountId, BrokerAccount]] = {}
        for account in filter(self._may_read, self.moved.values()):
            of_broker = due.setdefault(account.broker, {})
            if len(of_broker) < MOVED_MAX:
                of_broker[account.account_id] = account
        for account in filter(self._may_read, wanted):
            due.setdefault(account.broker, {})[account.account_id] = account
        await asyncio.gather(*(self._refresh_all(broker, [*accounts.values()]) for broker, accounts in due.items()))

    def _may_read(self, account: BrokerAccount) -> bool:
        account_id = account.account_id
        return account_id not in self._not_before and not self.signed_in.is_pending(account_id)

    async def _refresh_all(self, broker: str, accounts: list[BrokerAccount]) -> None:
        session, waiting = self.sessions.get(broker), deque(accounts)
        if session is None or not accounts:
            return
        end = self.clock() + ASK_SECONDS

        async def work() -> None:
            # A slow broker's accounts are left to the next sweep, so that the others do not wait for them.
            while waiting and self.clock() < end:
                await self._refresh(waiting.popleft(), session)

        await asyncio.gather(*(work() for _ in range(ACCOUNTS_AT_ONCE_MAX)))

    async def _refresh(self, account: BrokerAccount, session: BrokerSession) -> None:
        """Errors are counted, so that one does not stop the other accounts."""
        account_id = account.account_id
        # Before the call: a fill that it may not cover adds the account again.
        had_moved = self.moved.pop(account_id, None) is not None
        self._not_before[account_id] = self.clock() + RETRY_SECONDS
        try:
            async with asyncio.timeout(ASK_SECONDS):
                balances = await session.balances(account_id)
            await self._keep(account, balances)
        except NotSignedIn:
            # The account's credential status shows the reason; after its sign-in it is reconciled.
            return
        except Exception as error:  # noqa: BLE001 - it is counted, and the call is repeated
            self.failures[account.broker, type(error).__name__] += 1
            if had_moved:
                self.moved[account_id] = account
            return
        self._not_before[account_id] = self.clock() + SPACING_SECONDS

    async def _keep(self, account: BrokerAccount, balances: Balances) -> None:
        """Store the balances unless newer ones are stored; the account's log contains changes of its cash."""
        async with self.store.account_transaction(account) as transaction:
            before = await transaction.balances()
            # Nothing is known of an account on hold before it was compared with its broker.
            if transaction.hold is not None or not await transaction.save_balances(balances):
                return
            is_news = balances.is_news_after(before)
            if is_news:
                log_balances_changed(transaction, balances)
        if is_news:
            self.hints.events_were_written([account.account_id])
