"""The client of Tradier: uses each account's own host, sends each command once, and reports every outcome as definite
or Unknown.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Final

from openbell_server.application.ports.broker import BrokerOrder, BrokerReplacement
from openbell_server.brokers.account_feeds import SIGNED_OUT, AccountFeedsSession
from openbell_server.brokers.http_client import BrokerHttp, Reply, Request, UnreadableAnswer, read
from openbell_server.brokers.tradier.account import TradierAccount
from openbell_server.brokers.tradier.feed import AccountFeed
from openbell_server.brokers.tradier.outcomes import DELETE, POST, TURNED_AWAY, fault_of, outcome_of
from openbell_server.brokers.tradier.wire import (
    ORDER_TYPES,
    SIDES,
    TIMES_IN_FORCE,
    BalancesBody,
    PositionsBody,
    ProfileBody,
    QuotesBody,
    TradierQuote,
)
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.credentials import Secrets, SignedIn, SignInRefused
from openbell_server.domain.identifiers import AccountId, Symbol
from openbell_server.domain.markets.instruments import BrokerPosition, Instrument, Quote
from openbell_server.domain.money.balances import Balances
from openbell_server.domain.orders.broker_reports import NotSent, OrderName, OrderReport, Outcome

ADDRESSES: Final[Mapping[Environment, str]] = MappingProxyType(
    {Environment.PAPER: "https://sandbox.tradier.com", Environment.LIVE: "https://api.tradier.com"}
)
_TRADED: Final = frozenset({"stock", "etf"})
_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_NO_BROKER_ID: Final = "the broker cancels orders only by its own id, and has not reported one for this order"


class TradierSession(AccountFeedsSession[TradierAccount, AccountFeed]):
    def __init__(self, addresses: Mapping[Environment, str]) -> None:
        super().__init__(AccountFeed)
        self._hosts = {environment: BrokerHttp(address) for environment, address in addresses.items()}

    async def sign_in(
        self, account_id: AccountId, environment: Environment, secrets: Secrets
    ) -> SignedIn | SignInRefused:
        host = self._hosts.get(environment)
        if host is None:
            return SignInRefused("NO_ADDRESS", f"This installation has no address for {environment} trading.")
        account = TradierAccount(account_id, environment, host, secrets)
        reply = await account.query("/v1/user/profile")
        fault = fault_of(reply)
        if fault is not None and (reply.status, fault.detail.errorcode) in TURNED_AWAY:
            return SignInRefused(fault.detail.errorcode, fault.faultstring)
        status = {each.account_number: each.status for each in read(reply, ProfileBody).accounts()}.get(account.number)
        if status is None:
            return SignInRefused("UNKNOWN_ACCOUNT", "The token is not for this account number.")
        if status == "closed":
            return SignInRefused(status, "Tradier reports that the account is closed.")
        if status != "active":
            raise UnreadableAnswer(f"the account is {status}")
        self._accounts.enter(account)
        return SignedIn(account.number)

    async def submit(self, order: BrokerOrder) -> Outcome:
        account = self._accounts.find(order.account_id)
        if account is None:
            return NotSent(SIGNED_OUT)
        return await self._command(account, account.command(POST, account.path("orders"), form_of(order)))

    async def replace(self, replacement: BrokerReplacement) -> Outcome:
        """Never sends: Tradier cannot change a quantity, which our replace may contain."""
        del replacement
        return NotSent("the broker cannot change the quantity of an order")

    async def cancel(self, account_id: AccountId, order: OrderName, valid_until: datetime) -> Outcome:
        """Tradier does not enforce valid_until."""
        del valid_until
        account = self._accounts.find(account_id)
        if account is None:
            return NotSent(SIGNED_OUT)
        if not order.broker_order_ids:
            return NotSent(_NO_BROKER_ID)
        order_id = order.broker_order_ids[-1]
        return await self._command(account, account.command(DELETE, account.path("orders", order_id)), order_id)

    async def find(self, account_id: AccountId, order: OrderName) -> OrderReport | None:
        found = await self._accounts.get(account_id).find(order)
        return None if found is None else found.report()

    async def orders_since(self, account_id: AccountId, since: datetime) -> list[OrderReport]:
        return [order.report() for order in await self._accounts.get(account_id).orders_since(since)]

    async def positions(self, account_id: AccountId) -> list[BrokerPosition]:
        account = self._accounts.get(account_id)
        positions = read(await account.query(account.path("positions")), PositionsBody).as_list()
        return [BrokerPosition(symbol=Symbol(each.symbol), quantity=each.quantity) for each in positions]

    async def balances(self, account_id: AccountId) -> Balances:
        account, as_of = self._accounts.get(account_id), datetime.now(UTC)
        body = read(await account.query(account.path("balances")), BalancesBody).balances
        if body.account_number != account.number:
            raise UnreadableAnswer(f"asked for the balances of {account.number}, it tells of {body.account_number}")
        return Balances(
            currency="USD",
            cash=body.total_cash,
            equity=body.total_equity,
            buying_power=body.buying_power,
            as_of=as_of,
        )

    async def instruments(self, account_id: AccountId, symbols: Sequence[Symbol]) -> list[Instrument]:
        return [
            Instrument(
                symbol=Symbol(quoted.symbol),
                asset_class=quoted.type,
                quote_currency="USD",
                tradable=quoted.type in _TRADED,
                fractional=False,
            )
            for quoted in await self._quoted(account_id, symbols)
        ]

    async def quotes(self, account_id: AccountId, symbols: Sequence[Symbol]) -> list[Quote]:
        return [
            Quote(
                symbol=Symbol(quoted.symbol),
                as_of=_EPOCH + timedelta(milliseconds=max(quoted.bid_date, quoted.ask_date, quoted.trade_date)),
                bid=quoted.bid or None,
                ask=quoted.ask or None,
                last=quoted.last or None,
            )
            for quoted in await self._quoted(account_id, symbols)
        ]

    async def close(self) -> None:
        await self._accounts.close()
        for host in self._hosts.values():
            await host.close()

    async def _command(self, account: TradierAccount, request: Request, order_id: str | None = None) -> Outcome:
        reply = await account.host.command(request)
        feed = self._accounts.feed(account.account_id)
        if feed is not None:
            feed.poll_soon()
        return outcome_of(request.method, reply, order_id) if isinstance(reply, Reply) else reply

    async def _quoted(self, account_id: AccountId, symbols: Sequence[Symbol]) -> list[TradierQuote]:
        if not symbols:
            return []
        reply = await self._accounts.get(account_id).query("/v1/markets/quotes", {"symbols": ",".join(symbols)})
        return read(reply, QuotesBody).as_list()


def form_of(order: BrokerOrder) -> dict[str, str]:
    """A new order as form fields, with exact decimals."""
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
