"""Accounts that are signed in, each with a feed of its own, read as one."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from typing import Final, Generic, Protocol, TypeVar

from openbell_server.application.ports.broker import FeedItem, NotSignedIn
from openbell_server.domain.credentials import Secrets
from openbell_server.domain.identifiers import AccountId

REPORTS_WAITING_MAX: Final = 1_000
SIGNED_OUT: Final = "the account is not signed in"

Tell = Callable[[FeedItem], Awaitable[None]]


class SignedInAccount(Protocol):
    """An account with what it signs in with, and the one host that this is for."""

    @property
    def account_id(self) -> AccountId:
        """Which one."""

    @property
    def host(self) -> object:
        """Where it is signed in."""

    @property
    def secrets(self) -> Secrets:
        """With what."""


class OwnFeed(Protocol):
    """One account's feed: it tells where it begins, then reports, and begins anew by itself until it is cancelled."""

    is_connected: bool
    # From the moment on that its beginning was given out, not only written into a queue; the feed itself ends it when
    # it breaks.
    is_heard: bool

    async def run(self) -> None:
        """Listen."""


Account = TypeVar("Account", bound=SignedInAccount)
Feed = TypeVar("Feed", bound=OwnFeed)


class AccountFeeds(Generic[Account, Feed]):
    """Who is signed in, and the feeds, which stand for as long as somebody reads."""

    def __init__(self, feed_of: Callable[[Account, Tell], Feed]) -> None:
        """Nobody is signed in."""
        self.is_connected = False
        self._feed_of = feed_of
        self._accounts: dict[AccountId, Account] = {}
        self._feeds: dict[AccountId, Feed] = {}
        self._listening: dict[AccountId, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        # There is one while somebody reads.
        self._queue: asyncio.Queue[FeedItem] | None = None

    @property
    def unheard(self) -> Collection[AccountId]:
        """Signed-in accounts whose feed does not stand, or has not been given out."""
        heard = {account_id for account_id, feed in self._feeds.items() if feed.is_heard}
        return self._accounts.keys() - heard

    def find(self, account_id: AccountId) -> Account | None:
        """An account, if it is signed in."""
        return self._accounts.get(account_id)

    def get(self, account_id: AccountId) -> Account:
        """An account that must be signed in."""
        account = self._accounts.get(account_id)
        if account is None:
            raise NotSignedIn(SIGNED_OUT)
        return account

    def feed(self, account_id: AccountId) -> Feed | None:
        """The feed of an account, while somebody reads."""
        return self._feeds.get(account_id)

    def enter(self, account: Account) -> None:
        """Put an account in the place of what it was; the same secrets at the same host change nothing."""
        known = self._accounts.get(account.account_id)
        if known is not None and known.host is account.host and known.secrets == account.secrets:
            return
        self._stop(account.account_id)
        self._accounts[account.account_id] = account
        self._listen(account)

    async def leave(self, account_id: AccountId) -> None:
        """Forget an account and end its feed."""
        self._accounts.pop(account_id, None)
        self._stop(account_id)
        await self._ended()

    async def reports(self) -> AsyncGenerator[FeedItem, None]:
        """What all feeds tell, as it comes."""
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
                    feed.is_heard = feed.is_connected
                yield item
        finally:
            self.is_connected = False
            self._queue = None
            await self.close()

    def listen_again(self, accounts: Collection[AccountId]) -> None:
        """Begin the feeds of these accounts anew."""
        for account_id in accounts:
            if account_id in self._listening:
                self._stop(account_id)
                self._listen(self._accounts[account_id])

    async def close(self) -> None:
        """End all feeds."""
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
