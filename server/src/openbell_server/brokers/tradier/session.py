"""The client of Tradier: every account at its environment's host, each command written once, endings told honestly."""

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Final

import httpx

from openbell_server.application.ports.broker import BrokerOrder, BrokerReplacement, FeedItem
from openbell_server.brokers.account_feeds import SIGNED_OUT, AccountFeeds
from openbell_server.brokers.http_client import BrokerHttp, Reply, UnreadableAnswer, read
from openbell_server.brokers.tradier.account import TradierAccount
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
_TRADED: Final = frozenset({"stock", "etf"})
_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_NAMELESS: Final = "the broker ends orders by its own ids only, and has told none for this one"


class TradierSession:
    """Accounts at Tradier, each with its own token, host and feed."""

    def __init__(self, addresses: Mapping[Environment, str]) -> None:
        """Nothing is sent yet."""
        self._hosts = {environment: BrokerHttp(address) for environment, address in addresses.items()}
        self._accounts = AccountFeeds(AccountFeed)

    @property
    def is_connected(self) -> bool:
        """Whether somebody reads: each account has a feed of its own."""
        return self._accounts.is_connected

    @property
    def unheard(self) -> Collection[AccountId]:
        """Signed-in accounts whose feed does not stand."""
        return self._accounts.unheard

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
        self._accounts.enter(account)
        return SignedIn(account.number)

    async def sign_out(self, account_id: AccountId) -> None:
        """Forget the account's token and end its feed."""
        await self._accounts.leave(account_id)

    async def submit(self, order: BrokerOrder) -> Outcome:
        """Ask for a new order."""
        account = self._accounts.find(order.account_id)
        if account is None:
            return NotSent(SIGNED_OUT)
        return await self._command(account, account.command(POST, account.path("orders"), form_of(order)))

    async def replace(self, replacement: BrokerReplacement) -> Outcome:
        """Nothing: it changes prices in place, but no quantity, and ours may change both."""
        del replacement
        return NotSent("the broker cannot change the quantity of an order")

    async def cancel(self, account_id: AccountId, order: OrderName, valid_until: datetime) -> Outcome:
        """Ask for the end of an order; the broker knows no valid_until."""
        del valid_until
        account = self._accounts.find(account_id)
        if account is None:
            return NotSent(SIGNED_OUT)
        if not order.broker_order_ids:
            return NotSent(_NAMELESS)
        order_id = order.broker_order_ids[-1]
        return await self._command(account, account.command(DELETE, account.path("orders", order_id)), order_id)

    async def find(self, account_id: AccountId, order: OrderName) -> OrderReport | None:
        """The order as it stands, or None if the broker has none by our tag; raises when in doubt."""
        found = await self._accounts.get(account_id).find(order)
        return None if found is None else found.report()

    async def orders_since(self, account_id: AccountId, since: datetime) -> list[OrderReport]:
        """Every order since then; raises when one page is in doubt."""
        return [order.report() for order in await self._accounts.get(account_id).orders_since(since)]

    async def positions(self, account_id: AccountId) -> list[BrokerPosition]:
        """What the account holds, by the broker's books."""
        account = self._accounts.get(account_id)
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

    def reports(self) -> AsyncGenerator[FeedItem, None]:
        """Reports of all accounts as they come."""
        return self._accounts.reports()

    def listen_again(self, accounts: Collection[AccountId]) -> None:
        """Begin the feeds of these accounts anew."""
        self._accounts.listen_again(accounts)

    async def close(self) -> None:
        """Let go of everything."""
        await self._accounts.close()
        for host in self._hosts.values():
            await host.close()

    async def _command(self, account: TradierAccount, request: httpx.Request, order_id: str | None = None) -> Outcome:
        reply = await account.host.command(request)
        feed = self._accounts.feed(account.account_id)
        if feed is not None:
            feed.hurry()
        return outcome_of(request.method, reply, order_id) if isinstance(reply, Reply) else reply

    async def _quoted(self, account_id: AccountId, symbols: Sequence[Symbol]) -> list[TradierQuote]:
        if not symbols:
            return []
        reply = await self._accounts.get(account_id).ask("/v1/markets/quotes", {"symbols": ",".join(symbols)})
        return read(reply, QuotesBody).told()


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
