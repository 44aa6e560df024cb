"""The client of Alpaca: uses each account's own host, sends each command once, and reports every outcome as definite or
Unknown.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from http import HTTPStatus
from types import MappingProxyType
from typing import Final
from urllib.parse import quote

from openbell_server.application.ports.broker import LOOK_UP_ERRORS, BrokerOrder, BrokerReplacement, SlowDown
from openbell_server.brokers.account_feeds import SIGNED_OUT, AccountFeedsSession
from openbell_server.brokers.alpaca import look_ups
from openbell_server.brokers.alpaca.account import AlpacaAccount, Host
from openbell_server.brokers.alpaca.outcomes import (
    DELETE,
    NOT_CHANGEABLE,
    NOT_FOUND,
    PATCH,
    POST,
    error_of,
    is_error,
    outcome_of,
)
from openbell_server.brokers.alpaca.stream import AccountStream
from openbell_server.brokers.alpaca.wire import (
    ORDER_TYPES,
    SIDES,
    TIMES_IN_FORCE,
    AccountBody,
    AssetBody,
    BalancesBody,
    NewOrderBody,
    PositionBody,
    QuotesBody,
    ReplacementBody,
)
from openbell_server.brokers.http_client import (
    BrokerHttp,
    Reply,
    Request,
    UnreadableAnswer,
    decimal_text,
    describe_error,
    optional_text,
    read,
)
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.credentials import Secrets, SignedIn, SignInRefused
from openbell_server.domain.identifiers import AccountId, Symbol
from openbell_server.domain.markets.instruments import BrokerPosition, Instrument, Quote
from openbell_server.domain.money.balances import Balances
from openbell_server.domain.orders.broker_reports import NotSent, OrderName, OrderReport, Outcome, Refused, Unknown
from openbell_server.domain.orders.order_terms import EXACT

ADDRESSES: Final[Mapping[Environment, str]] = MappingProxyType(
    {Environment.PAPER: "https://paper-api.alpaca.markets", Environment.LIVE: "https://api.alpaca.markets"}
)
DATA_ADDRESS: Final = "https://data.alpaca.markets"
_KEY_PREFIXES: Final = {Environment.PAPER: "PK", Environment.LIVE: "AK"}
# Known account states in which Alpaca does not accept orders; not verified against an official list. Any other state
# except ACTIVE raises an error.
_NOT_TRADING: Final = frozenset(
    {
        "ONBOARDING",
        "SUBMISSION_FAILED",
        "SUBMITTED",
        "ACCOUNT_UPDATED",
        "APPROVAL_PENDING",
        "REJECTED",
        "INACTIVE",
        "DISABLED",
        "ACCOUNT_CLOSED",
    }
)
# A replace first queries the filled quantity; time must remain to send it.
_LOOK_SECONDS: Final = 1.5
_NO_BROKER_ID: Final = (
    "the broker cancels and replaces orders only by its own id, and has not reported one for this order"
)


class AlpacaSession(AccountFeedsSession[AlpacaAccount, AccountStream]):
    def __init__(self, addresses: Mapping[Environment, str]) -> None:
        super().__init__(AccountStream)
        self._hosts = {environment: _host(address) for environment, address in addresses.items()}

    async def sign_in(
        self, account_id: AccountId, environment: Environment, secrets: Secrets
    ) -> SignedIn | SignInRefused:
        other = next(each for each in Environment if each is not environment)
        if secrets["key_id"].startswith(_KEY_PREFIXES[other]):
            return SignInRefused(
                "WRONG_ENVIRONMENT",
                f"This is a key for {other} trading, and the account is for {environment} trading. Make a key in"
                f" Alpaca's {environment} dashboard; it begins with {_KEY_PREFIXES[environment]}.",
            )
        host = self._hosts.get(environment)
        if host is None:
            return SignInRefused("NO_ADDRESS", f"This installation has no address for {environment} trading.")
        account = AlpacaAccount(account_id, environment, host, secrets)
        reply = await account.query("/v2/account")
        error = error_of(reply)
        if error is not None and reply.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            return SignInRefused(str(error.code or reply.status), error.message)
        body = read(reply, AccountBody)
        if body.status in _NOT_TRADING:
            return SignInRefused(body.status, f"Alpaca reports that the account is {body.status}.")
        if body.status != "ACTIVE":
            raise UnreadableAnswer(f"an account that is {body.status}")
        self._accounts.enter(account)
        return SignedIn(body.account_number)

    async def submit(self, order: BrokerOrder) -> Outcome:
        account = self._accounts.find(order.account_id)
        if account is None:
            return NotSent(SIGNED_OUT)
        body = NewOrderBody(
            client_order_id=order.client_order_id,
            symbol=order.symbol,
            side=SIDES[order.order_side],
            type=ORDER_TYPES[order.order_type],
            qty=decimal_text(order.quantity),
            time_in_force=TIMES_IN_FORCE[order.time_in_force],
            limit_price=optional_text(order.limit_price),
            stop_price=optional_text(order.stop_price),
        )
        return await _command(account, account.command(POST, "/v2/orders", body), order.client_order_id)

    async def replace(self, replacement: BrokerReplacement) -> Outcome:
        """Replace an order by one for the remaining quantity, computed from Alpaca's current filled quantity.

        Our own count may lag by a report, and the difference would be bought twice.
        """
        account, terms = self._accounts.find(replacement.account_id), replacement.terms
        if account is None:
            return NotSent(SIGNED_OUT)
        ids = replacement.order.broker_order_ids
        if not ids:
            return NotSent(_NO_BROKER_ID)
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                order, filled = await look_ups.rest_of(account, ids)
        except SlowDown as slow_down:
            return NotSent(str(slow_down), slow_down.retry_after)
        except LOOK_UP_ERRORS as trouble:
            return NotSent(f"the filled quantity could not be read from the broker: {describe_error(trouble)}")
        remaining = EXACT.subtract(terms.quantity, max(replacement.filled_quantity, filled))
        if remaining <= 0:
            return NotSent("the filled quantity has reached the requested quantity")
        if datetime.now(UTC) > replacement.valid_until:
            return NotSent("the broker reported the filled quantity too late")
        body = ReplacementBody(
            client_order_id=replacement.client_order_id,
            qty=decimal_text(remaining),
            time_in_force=TIMES_IN_FORCE[terms.time_in_force],
            limit_price=optional_text(terms.limit_price),
            stop_price=optional_text(terms.stop_price),
        )
        request = account.command(PATCH, _path(order.id), body)
        return await _command(account, request, replacement.client_order_id)

    async def cancel(self, account_id: AccountId, order: OrderName, valid_until: datetime) -> Outcome:
        """Alpaca does not enforce valid_until."""
        del valid_until
        account = self._accounts.find(account_id)
        if account is None:
            return NotSent(SIGNED_OUT)
        if not order.broker_order_ids:
            return NotSent(_NO_BROKER_ID)
        order_id = account.places.newest(order.broker_order_ids)
        outcome = await _command(account, account.command(DELETE, _path(order_id)), order_id)
        if isinstance(outcome, Refused) and outcome.broker_code == str(NOT_CHANGEABLE[1]):
            try:
                chain = await look_ups.chain_by_id(account, order_id, order.broker_order_ids)
            except LOOK_UP_ERRORS as trouble:
                return Unknown(f"it is not known whether another order replaced this one: {describe_error(trouble)}")
            if chain.tip.id != order_id:
                return Unknown("another order replaced the one that could not be cancelled")
        return outcome

    async def find(self, account_id: AccountId, order: OrderName) -> OrderReport | None:
        return await look_ups.find(self._accounts.get(account_id), order)

    async def orders_since(self, account_id: AccountId, since: datetime) -> list[OrderReport]:
        return await look_ups.orders_since(self._accounts.get(account_id), since)

    async def positions(self, account_id: AccountId) -> list[BrokerPosition]:
        positions = read(await self._accounts.get(account_id).query("/v2/positions"), list[PositionBody])
        return [
            BrokerPosition(
                symbol=Symbol(each.symbol),
                quantity=Decimal(each.qty).copy_abs().copy_negate() if each.side == "short" else Decimal(each.qty),
                average_price=None if each.avg_entry_price is None else Decimal(each.avg_entry_price),
            )
            for each in positions
        ]

    async def balances(self, account_id: AccountId) -> Balances:
        as_of = datetime.now(UTC)
        return read(await self._accounts.get(account_id).query("/v2/account"), BalancesBody).to_balances(as_of)

    async def instruments(self, account_id: AccountId, symbols: Sequence[Symbol]) -> list[Instrument]:
        account, found = self._accounts.get(account_id), []
        for symbol in symbols:
            reply = await account.query(f"/v2/assets/{quote(symbol, safe='')}")
            if not is_error(reply, NOT_FOUND):
                asset = read(reply, AssetBody)
                if asset.symbol != symbol:
                    raise UnreadableAnswer(f"asked for {symbol}, it tells of {asset.symbol}")
                found.append(
                    Instrument(
                        symbol=symbol,
                        asset_class=asset.asset_class,
                        quote_currency="USD",
                        tradable=asset.tradable,
                        fractional=asset.fractionable,
                    )
                )
        return found

    async def quotes(self, account_id: AccountId, symbols: Sequence[Symbol]) -> list[Quote]:
        if not symbols:
            return []
        params = {"symbols": ",".join(symbols)}
        reply = await self._accounts.get(account_id).query("/v2/stocks/quotes/latest", params, data=True)
        return [
            Quote(symbol=Symbol(symbol), as_of=best.time, bid=best.bid or None, ask=best.ask or None)
            for symbol, best in read(reply, QuotesBody).quotes.items()
        ]

    async def close(self) -> None:
        await self._accounts.close()
        for host in self._hosts.values():
            await host.trading.close()
            await host.data.close()


async def _command(account: AlpacaAccount, request: Request, name: str) -> Outcome:
    reply = await account.host.trading.command(request)
    return outcome_of(request.method, reply, name) if isinstance(reply, Reply) else reply


def _host(address: str) -> Host:
    """Market data has its own host at Alpaca; any other address, such as a simulator, serves both."""
    address = address.rstrip("/")
    trading = BrokerHttp(address)
    return Host(address, trading, BrokerHttp(DATA_ADDRESS) if address in ADDRESSES.values() else trading)


def _path(order_id: str) -> str:
    return f"/v2/orders/{quote(order_id, safe='')}"
