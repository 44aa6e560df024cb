"""The client of Tradier: every account at its environment's host, each command written once, endings told honestly."""

import asyncio
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Final

import httpx

from openbell_server.application.ports.broker import BrokerOrder, BrokerReplacement, FeedItem
from openbell_server.brokers.http_client import BrokerHttp, Reply, UnreadableAnswer
from openbell_server.brokers.tradier.account import TradierAccount, read
from openbell_server.brokers.tradier.feed import AccountFeed
from openbell_server.brokers.tradier.outcomes import DELETE, POST, TURNED_AWAY, fault_of, outcome_of
from openbell_server.brokers.tradier.wire import (
    ORDER_TYPES,
    SIDES,
    TIMES_IN_FORCE,
    PositionsBody,
    ProfileBody,
    QuotesBody,
    TradierQuote,
)
from openbell_server.domain.accounts import Environment
from openbell_server.domain.broker_orders import NotSent, OrderName, OrderReport, Outcome
from openbell_server.domain.credentials import Secrets, SignedIn, SignInRefused
from openbell_server.domain.identifiers import AccountId, Symbol
from openbell_server.domain.instruments import BrokerPosition, Instrument, Quote

ADDRESSES: Final[Mapping[Environment, str]] = MappingProxyType(
    {Environment.PAPER: "https://sandbox.tradier.com", Environment.LIVE: "https://api.tradier.com"}
)
REPORTS_WAITING_MAX: Final = 1_000
_TRADED: Final = frozenset({"stock", "etf"})
_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_NAMELESS: Final = "the broker ends orders by its own ids only, and has told none for this one"
_SIGNED_OUT: Final = "the account is not signed in"


class NotSignedIn(Exception):
    """There is no token to ask with."""


class TradierSession:
    """Accounts at Tradier, each with its own token, host and feed."""

    def __init__(self, addresses: Mapping[Environment, str]) -> None:
        """Nothing is sent yet."""
        self.is_connected = False
        self._hosts = {environment: BrokerHttp(address) for environment, address in addresses.items()}
        self._accounts: dict[AccountId, TradierAccount] = {}
        self._feeds: dict[AccountId, AccountFeed] = {}
        self._listening: dict[AccountId, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        # There is one while somebody listens.
        self._queue: asyncio.Queue[FeedItem] | None = None

    @property
    def unheard(self) -> Collection[AccountId]:
        """Signed-in accounts whose feed does not stand."""
        heard = {account_id for account_id, feed in self._feeds.items() if feed.is_heard}
        return self._accounts.keys() - heard

    async def sign_in(
        self, account_id: AccountId, environment: Environment, secrets: Secrets
    ) -> SignedIn | SignInRefused:
        """Use this token for the account from now on, at its environment's host; raises when in doubt."""
        host = self._hosts.get(environment)
        if host is None:
            return SignInRefused("NO_ADDRESS", f"This installation has no address for {environment} trading.")
        account = TradierAccount(account_id, environment, host, secrets)
        reply = await account.ask("/v1/user/profile")
        fault = fault_of(reply)
        if fault is not None and (reply.status, fault.detail.errorcode) in TURNED_AWAY:
            return SignInRefused(fault.detail.errorcode, fault.faultstring)
        status = {each.account_number: each.status for each in read(reply, ProfileBody).accounts()}.get(account.number)
        if status is None:
            return SignInRefused("UNKNOWN_ACCOUNT", "The token is not for this account number.")
        if status == "closed":
            return SignInRefused(status, "Tradier says that the account is closed.")
        if status != "active":
            raise UnreadableAnswer(f"the account is {status}")
        self._enter(account)
        return SignedIn(account.number)

    async def sign_out(self, account_id: AccountId) -> None:
        """Forget the account's token and end its feed."""
        self._accounts.pop(account_id, None)
        self._stop(account_id)
        await self._ended()

    async def submit(self, order: BrokerOrder) -> Outcome:
        """Ask for a new order."""
        account = self._accounts.get(order.account_id)
        if account is None:
            return NotSent(_SIGNED_OUT)
        return await self._command(account, account.command(POST, account.path("orders"), form_of(order)))

    async def replace(self, replacement: BrokerReplacement) -> Outcome:
        """Nothing: it changes prices in place, but no quantity, and ours may change both."""
        del replacement
        return NotSent("the broker cannot change the quantity of an order")

    async def cancel(self, account_id: AccountId, order: OrderName, valid_until: datetime) -> Outcome:
        """Ask for the end of an order; the broker knows no valid_until."""
        del valid_until
        account = self._accounts.get(account_id)
        if account is None:
            return NotSent(_SIGNED_OUT)
        if not order.broker_order_ids:
            return NotSent(_NAMELESS)
        order_id = order.broker_order_ids[-1]
        return await self._command(account, account.command(DELETE, account.path("orders", order_id)), order_id)

    async def find(self, account_id: AccountId, order: OrderName) -> OrderReport | None:
        """The order as it stands, or None if the broker has none by our tag; raises when in doubt."""
        found = await self._account(account_id).find(order)
        return None if found is None else found.report()

    async def orders_since(self, account_id: AccountId, since: datetime) -> list[OrderReport]:
        """Every order since then; raises when one page is in doubt."""
        return [order.report() for order in await self._account(account_id).orders_since(since)]

    async def positions(self, account_id: AccountId) -> list[BrokerPosition]:
        """What the account holds, by the broker's books."""
        account = self._account(account_id)
        told = read(await account.ask(account.path("positions")), PositionsBody).told()
        return [BrokerPosition(symbol=Symbol(each.symbol), quantity=each.quantity) for each in told]

    async def instruments(self, account_id: AccountId, symbols: Sequence[Symbol]) -> list[Instrument]:
        """Those that the broker knows."""
        return [
            Instrument(
                symbol=Symbol(told.symbol),
                asset_class=told.type,
                quote_currency="USD",
                tradable=told.type in _TRADED,
                fractional=False,
            )
            for told in await self._quoted(account_id, symbols)
        ]

    async def quotes(self, account_id: AccountId, symbols: Sequence[Symbol]) -> list[Quote]:
        """The latest prices of each; 0 where nobody offers or nothing was traded."""
        return [
            Quote(
                symbol=Symbol(told.symbol),
                as_of=_EPOCH + timedelta(milliseconds=max(told.bid_date, told.ask_date, told.trade_date)),
                bid=told.bid or None,
                ask=told.ask or None,
                last=told.last or None,
            )
            for told in await self._quoted(account_id, symbols)
        ]

    async def reports(self) -> AsyncGenerator[FeedItem, None]:
        """Reports of all accounts as they come; the feeds stand for as long as somebody listens."""
        assert self._queue is None, "somebody listens already"
        queue = self._queue = asyncio.Queue[FeedItem](REPORTS_WAITING_MAX)
        try:
            for account in self._accounts.values():
                self._listen(account)
            self.is_connected = True
            yield None
            while True:
                yield await queue.get()
        finally:
            self.is_connected = False
            self._queue = None
            for account_id in [*self._listening]:
                self._stop(account_id)
            await self._ended()

    def listen_again(self, accounts: Collection[AccountId]) -> None:
        """Begin the feeds of these accounts anew."""
        for account_id in accounts:
            if account_id in self._listening:
                self._stop(account_id)
                self._listen(self._accounts[account_id])

    async def close(self) -> None:
        """Let go of everything."""
        for account_id in [*self._listening]:
            self._stop(account_id)
        await self._ended()
        for host in self._hosts.values():
            await host.close()

    def _account(self, account_id: AccountId) -> TradierAccount:
        account = self._accounts.get(account_id)
        if account is None:
            raise NotSignedIn(_SIGNED_OUT)
        return account

    async def _command(self, account: TradierAccount, request: httpx.Request, order_id: str | None = None) -> Outcome:
        reply = await account.host.command(request)
        feed = self._feeds.get(account.account_id)
        if feed is not None:
            feed.hurry()
        return outcome_of(request.method, reply, order_id) if isinstance(reply, Reply) else reply

    async def _quoted(self, account_id: AccountId, symbols: Sequence[Symbol]) -> list[TradierQuote]:
        if not symbols:
            return []
        reply = await self._account(account_id).ask("/v1/markets/quotes", {"symbols": ",".join(symbols)})
        return read(reply, QuotesBody).told()

    def _enter(self, account: TradierAccount) -> None:
        """Put an account in the place of what it was; the same token at the same host changes nothing."""
        known = self._accounts.get(account.account_id)
        if known is not None and known.host is account.host and dict(known.secrets) == dict(account.secrets):
            return
        self._stop(account.account_id)
        self._accounts[account.account_id] = account
        self._listen(account)

    def _listen(self, account: TradierAccount) -> None:
        if self._queue is not None:
            feed = self._feeds[account.account_id] = AccountFeed(account, self._queue.put)
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


def form_of(order: BrokerOrder) -> dict[str, str]:
    """A new order in Tradier's words, its numbers exactly as they are."""
    prices = {"price": order.limit_price, "stop": order.stop_price}
    return {
        "class": "equity",
        "symbol": order.symbol,
        "side": SIDES[order.order_side],
        "quantity": f"{order.quantity:f}",
        "type": ORDER_TYPES[order.order_type],
        "duration": TIMES_IN_FORCE[order.time_in_force],
        "tag": order.client_order_id,
        **{name: f"{price:f}" for name, price in prices.items() if price is not None},
    }
