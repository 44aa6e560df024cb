"""The paper broker's operator API: set prices, cash, rules and fault plans, hold auctions, read an account."""

import hmac
import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final
from urllib.parse import unquote
from uuid import UUID

from openbell_exchange.decisions import UNKNOWN_SYMBOL, Refusal
from openbell_exchange.faults import InvalidFaults, plan_of
from openbell_exchange.listings import unlisted_text
from openbell_exchange.matching import Quote
from openbell_server.brokers.http_client import decimal_text
from openbell_server.brokers.paper.accounts import account, set_cash
from openbell_server.brokers.paper.exchange import Exchange, account_of, symbol_of
from openbell_server.brokers.paper.ledger import AccountFaults, Ledger
from openbell_server.brokers.paper.market import Market
from openbell_server.brokers.paper.wire import (
    OPERATOR_HEADER,
    AccountFaultsBody,
    AccountRules,
    CashBody,
    FaultsBody,
    PriceBody,
)
from openbell_server.domain.errors import InvalidCommand
from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.orders.order_terms import TimeInForce, exact_decimal

_PRICE: Final = re.compile(r"/prices/([^/]{1,96})")
_ACCOUNT: Final = re.compile(r"/accounts/([0-9a-f-]{36})")
_CASH: Final = re.compile(r"/accounts/([0-9a-f-]{36})/cash")
_FAULTS: Final = re.compile(r"/accounts/([0-9a-f-]{36})/faults")
_RULES: Final = re.compile(r"/accounts/([0-9a-f-]{36})/rules")
_BELLS: Final = {"/bells/open": TimeInForce.AT_OPEN, "/bells/close": TimeInForce.AT_CLOSE}


class OperatorRoutes:
    """Routes that a real broker would not offer; all but GET of a price and of an account need the secret.

    rules apply to accounts that have none of their own. An empty secret lets nobody in.
    """

    def __init__(self, ledger: Ledger, market: Market, rules: AccountRules, secret: str) -> None:
        self._ledger = ledger
        self._market = market
        self._rules = rules
        self._secret = secret.encode()

    async def answer(self, exchange: Exchange) -> bool:
        """Answer if this is one of these routes; return whether it was."""
        if found := _PRICE.fullmatch(exchange.path):
            return await self._price(exchange, symbol_of(unquote(found[1])))
        if (found := _ACCOUNT.fullmatch(exchange.path)) and exchange.method == "GET":
            await self._account(exchange, account_of(found[1]))
        elif (found := _CASH.fullmatch(exchange.path)) and exchange.method == "PUT":
            await self._cash(exchange, account_of(found[1]))
        elif found := _FAULTS.fullmatch(exchange.path):
            return await self._faults(exchange, account_of(found[1]))
        elif found := _RULES.fullmatch(exchange.path):
            return await self._account_rules(exchange, account_of(found[1]))
        elif exchange.method == "POST" and exchange.path in _BELLS:
            self._require_secret(exchange)
            await self._market.ring(_BELLS[exchange.path])
            await exchange.answer(200, {"rang": exchange.path.rpartition("/")[2]})
        else:
            return False
        return True

    def _require_secret(self, exchange: Exchange) -> None:
        if not (self._secret and hmac.compare_digest(exchange.operator_secret, self._secret)):
            raise Refusal("operator_only", f"send the secret of OPENBELL_PAPER_SECRET in the header {OPERATOR_HEADER}")

    async def _price(self, exchange: Exchange, symbol: Symbol) -> bool:
        if exchange.method != "GET":
            self._require_secret(exchange)
        elif not self._market.is_listed(symbol):
            raise Refusal(UNKNOWN_SYMBOL, unlisted_text(symbol))
        if exchange.method == "PUT":
            body = await exchange.body(PriceBody)
            try:
                size = None if body.size is None else exact_decimal(body.size, "size")
                await self._market.set_price(symbol, Quote(exact_decimal(body.price, "price"), size))
            except InvalidCommand as problem:
                raise Refusal("malformed", problem.detail) from problem
        elif exchange.method == "DELETE":
            await self._market.free_price(symbol)
        elif exchange.method != "GET":
            return False
        quote = self._market.quote(symbol)
        size_now = {} if quote.size is None else {"size": decimal_text(quote.size)}
        await exchange.answer(200, {"symbol": symbol, "price": decimal_text(quote.price), **size_now})
        return True

    async def _cash(self, exchange: Exchange, account_id: UUID) -> None:
        self._require_secret(exchange)
        body = await exchange.body(CashBody)
        await set_cash(self._ledger, account_id, Decimal(body.cash), self._market.quote)
        await self._account(exchange, account_id)

    async def _account_rules(self, exchange: Exchange, account_id: UUID) -> bool:
        self._require_secret(exchange)
        if exchange.method == "PUT":
            await self._ledger.set_rules(account_id, await exchange.body(AccountRules))
        elif exchange.method == "DELETE":
            await self._ledger.clear_rules(account_id)
        elif exchange.method != "GET":
            return False
        await exchange.answer(200, self._ledger.rules.get(account_id, self._rules))
        return True

    async def _faults(self, exchange: Exchange, account_id: UUID) -> bool:
        self._require_secret(exchange)
        if exchange.method == "PUT":
            body = await exchange.body(FaultsBody)
            try:
                plan = plan_of(body.seed, body.faults)
            except InvalidFaults as problem:
                raise Refusal("malformed", str(problem)) from problem
            await self._ledger.set_faults(account_id, AccountFaults(body.seed, body.faults, datetime.now(UTC), plan))
        elif exchange.method == "DELETE":
            await self._ledger.clear_faults(account_id)
        elif exchange.method != "GET":
            return False
        asked = self._ledger.faults.get(account_id)
        body_now = AccountFaultsBody(0, {}, None)
        if asked is not None:
            body_now = AccountFaultsBody(asked.seed, dict(asked.faults), asked.set_at)
        await exchange.answer(200, body_now)
        return True

    async def _account(self, exchange: Exchange, account_id: UUID) -> None:
        await exchange.answer(200, await account(self._ledger, account_id, self._market.quote))
