"""Merges the separate feeds of all signed-in accounts into one stream of reports."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from typing import Final, Generic, Protocol, TypeVar

from openbell_server.application.ports.broker import FeedItem, NotSignedIn
from openbell_server.domain.access.credentials import Secrets
from openbell_server.domain.identifiers import AccountId

REPORTS_WAITING_MAX: Final = 1_000
SIGNED_OUT: Final = "the account is not signed in"

Publish = Callable[[FeedItem], Awaitable[None]]


class SignedInAccount(Protocol):
    """An account with its credentials and the only host that they may be sent to."""

    @property
    def account_id(self) -> AccountId: ...

    @property
    def host(self) -> object: ...

    @property
    def secrets(self) -> Secrets: ...


class OwnFeed(Protocol):
    """One account's feed: it publishes None when connected, then reports, and reconnects until it is cancelled."""

    is_connected: bool
    # True once the reader has received the start of the feed, not only when it was queued. The feed itself resets it
    # when it breaks.
    is_announced: bool

    async def run(self) -> None: ...


Account = TypeVar("Account", bound=SignedInAccount)
Feed = TypeVar("Feed", bound=OwnFeed)


class AccountFeeds(Generic[Account, Feed]):
    """The signed-in accounts and their feeds; the feeds run only while somebody reads `reports`."""

    def __init__(self, feed_of: Callable[[Account, Publish], Feed]) -> None:
        self.is_connected = False
        self._feed_of = feed_of
        self._accounts: dict[AccountId, Account] = {}
        self._feeds: dict[AccountId, Feed] = {}
        self._listening: dict[AccountId, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        # Exists only while somebody reads.
        self._queue: asyncio.Queue[FeedItem] | None = None

    @property
    def unheard(self) -> Collection[AccountId]:
        """Signed-in accounts whose feed is not connected, or whose start the reader has not received yet."""
        announced = {account_id for account_id, feed in self._feeds.items() if feed.is_announced}
        return self._accounts.keys() - announced

    def find(self, account_id: AccountId) -> Account | None:
        return self._accounts.get(account_id)

    def get(self, account_id: AccountId) -> Account:
        """Raises NotSignedIn if the account is not signed in."""
        account = self._accounts.get(account_id)
        if account is None:
            raise NotSignedIn(SIGNED_OUT)
        return account

    def feed(self, account_id: AccountId) -> Feed | None:
        """The account's feed; None while nobody reads."""
        return self._feeds.get(account_id)

    def enter(self, account: Account) -> None:
        """Add or replace an account and restart its feed; does nothing if secrets and host are the same as before."""
        known = self._accounts.get(account.account_id)
        if known is not None and known.host is account.host and known.secrets == account.secrets:
            return
        self._stop(account.account_id)
        self._accounts[account.account_id] = account
        self._listen(account)

    async def leave(self, account_id: AccountId) -> None:
        self._accounts.pop(account_id, None)
        self._stop(account_id)
        await self._ended()

    async def reports(self) -> AsyncGenerator[FeedItem, None]:
        """The reports of all feeds in the order of arrival. Only one reader at a time."""
        assert self._queue is None, "somebody reads already"
        queue = self._queue = asyncio.Queue[FeedItem](REPORTS_WAITING_MAX)
        try:
            for account in self._accounts.values():
                self._listen(account)
            self.is_connected = True
            yield None
            while True:
                item = await queue.get()
                if item is not None and item[1] is None and item[0] in self._feeds:
                    feed = self._feeds[item[0]]
                    feed.is_announced = feed.is_connected
                yield item
        finally:
            self.is_connected = False
            self._queue = None
            await self.close()

    def listen_again(self, accounts: Collection[AccountId]) -> None:
        """Restart the feeds of these accounts."""
        for account_id in accounts:
            if account_id in self._listening:
                self._stop(account_id)
                self._listen(self._accounts[account_id])

    async def close(self) -> None:
        for account_id in [*self._listening]:
            self._stop(account_id)
        await self._ended()

    def _listen(self, account: Account) -> None:
        if self._queue is not None:
            feed = self._feeds[account.account_id] = self._feed_of(account, self._queue.put)
            self._listening[account.account_id] = asyncio.create_task(feed.run())

    def _stop(self, account_id: AccountId) -> None:
        self._feeds.pop(account_id, None)
        task = self._listening.pop(account_id, None)
        if task is not None:
            task.cancel()
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def _ended(self) -> None:
        if self._ending:
            await asyncio.wait(self._ending)


class AccountFeedsSession(Generic[Account, Feed]):
    """The part of a BrokerSession that depends only on its accounts having feeds of their own."""

    def __init__(self, feed_of: Callable[[Account, Publish], Feed]) -> None:
        self._accounts = AccountFeeds(feed_of)

    @property
    def is_connected(self) -> bool:
        """True while somebody reads; each account has its own feed."""
        return self._accounts.is_connected

    @property
    def unheard(self) -> Collection[AccountId]:
        return self._accounts.unheard

    async def sign_out(self, account_id: AccountId) -> None:
        await self._accounts.leave(account_id)

    def reports(self) -> AsyncGenerator[FeedItem, None]:
        return self._accounts.reports()

    def listen_again(self, accounts: Collection[AccountId]) -> None:
        self._accounts.listen_again(accounts)
