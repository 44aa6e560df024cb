"""The client of the paper broker: sends each command once and reports every outcome as definite or Unknown."""

import asyncio
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Final
from urllib.parse import quote

import msgspec
import structlog

from openbell_exchange.decisions import DUPLICATE_ID, TOO_MANY_REQUESTS, UNKNOWN_ORDER, UNKNOWN_SYMBOL
from openbell_server.application.ports.broker import BrokerOrder, BrokerReplacement, FeedItem
from openbell_server.brokers.http_client import (
    QUERY_ERRORS,
    BrokerHttp,
    ListBrokenOff,
    Reply,
    Request,
    UnreadableAnswer,
    decimal_text,
    decoded,
    describe_error,
    optional_text,
    read,
)
from openbell_server.brokers.paper.keys import KEY_EXPIRED, KEY_REFUSED, Key, signature
from openbell_server.brokers.paper.profiles import PAPER, Profile
from openbell_server.brokers.paper.wire import (
    REFUSALS,
    AcceptedBody,
    AccountBody,
    FeedLine,
    LedgerOrderBody,
    OrderBody,
    OrderPage,
    QuotedBody,
    RefusalBody,
    ReplacementBody,
    SessionBody,
    in_utc,
)
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.credentials import Secrets, SignedIn, SignInRefused
from openbell_server.domain.identifiers import AccountId, Symbol
from openbell_server.domain.markets.instruments import BrokerPosition, Instrument, Quote
from openbell_server.domain.money.balances import Balances
from openbell_server.domain.orders.broker_reports import (
    Accepted,
    NotSent,
    OrderName,
    OrderReport,
    Outcome,
    Refused,
    Unknown,
)

FEED_SILENCE_SECONDS: Final = 15
RECONNECT_SECONDS_MAX: Final = 1.0
# 500,000 orders: far more than an account makes between two reconciliations.
PAGES_MAX: Final = 1_000
_RECONNECT_SECONDS_MIN: Final = 0.05
_ENCODER: Final = msgspec.json.Encoder()
_NO_BROKER_ID: Final = "the broker finds orders only by its own id, and has not reported one for this order"


class NoBrokerOrderId(Exception):
    """The profile finds orders by the broker's id only, and this order has none yet."""


class PaperSession:
    def __init__(self, address: str, profile: Profile = PAPER) -> None:
        self._profile = profile
        self.is_connected = False
        self.unheard: Collection[AccountId] = ()
        self._log = structlog.get_logger()
        # By signed-in account.
        self._secrets: dict[AccountId, Secrets] = {}
        self._http = BrokerHttp(address if profile is PAPER else f"{address}/{profile.name}")

    async def sign_in(
        self, account_id: AccountId, environment: Environment, secrets: Secrets
    ) -> SignedIn | SignInRefused:
        # Both environments trade with simulated money.
        del environment
        reply = await self._http.query(
            self._http.request("POST", f"/accounts/{account_id}/session", headers=_signed(secrets))
        )
        refusal = _refusal(reply)
        if refusal is not None and refusal.code in {KEY_REFUSED, KEY_EXPIRED}:
            return SignInRefused(refusal.code, refusal.text, expired=refusal.code == KEY_EXPIRED)
        terms = read(reply, SessionBody)
        expires_at = None if terms.expires_at is None else in_utc(terms.expires_at)
        self._secrets[account_id] = secrets
        return SignedIn(terms.external_account_id, expires_at)

    async def sign_out(self, account_id: AccountId) -> None:
        self._secrets.pop(account_id, None)

    async def submit(self, order: BrokerOrder) -> Outcome:
        body = OrderBody(
            client_order_id=order.client_order_id if self._profile.has_client_ids else None,
            symbol=order.symbol,
            side=order.order_side,
            type=order.order_type,
            quantity=decimal_text(order.quantity),
            limit_price=optional_text(order.limit_price),
            stop_price=optional_text(order.stop_price),
            time_in_force=order.time_in_force,
            valid_until=order.valid_until,
        )
        path = f"/accounts/{order.account_id}/orders"
        return await self._command(self._with_body(order.account_id, "POST", path, body), 201)

    async def replace(self, replacement: BrokerReplacement) -> Outcome:
        terms = replacement.terms
        body = ReplacementBody(
            client_order_id=replacement.client_order_id if self._profile.has_client_ids else None,
            quantity=decimal_text(terms.quantity),
            limit_price=optional_text(terms.limit_price),
            stop_price=optional_text(terms.stop_price),
            time_in_force=terms.time_in_force,
            valid_until=replacement.valid_until,
        )
        path = self._path_to_change(replacement.account_id, replacement.order)
        if path is None:
            return NotSent(_NO_BROKER_ID)
        return await self._command(self._with_body(replacement.account_id, "PATCH", path, body), 200)

    async def cancel(self, account_id: AccountId, order: OrderName, valid_until: datetime) -> Outcome:
        path = self._path_to_change(account_id, order)
        if path is None:
            return NotSent(_NO_BROKER_ID)
        request = self._http.request(
            "DELETE", path, params={"valid_until": valid_until.isoformat()}, headers=self._headers(account_id)
        )
        return await self._command(request, 200)

    async def find(self, account_id: AccountId, order: OrderName) -> OrderReport | None:
        path = _client_path(account_id, order) if self._profile.has_client_ids else _broker_path(account_id, order)
        if path is None:
            raise NoBrokerOrderId(_NO_BROKER_ID)
        reply = await self._query(account_id, path)
        refusal = _refusal(reply)
        if refusal is not None and refusal.code == UNKNOWN_ORDER:
            return None
        order_body = read(reply, LedgerOrderBody)
        asked = (order.client_order_id,) if self._profile.has_client_ids else order.broker_order_ids[-1:]
        shown = order_body.client_order_id if self._profile.has_client_ids else order_body.broker_order_id
        if order_body.account_id != account_id or shown not in asked:
            raise UnreadableAnswer(f"asked for {asked[0]} of {account_id}, it tells {shown} of {order_body.account_id}")
        return order_body.to_report()

    async def orders_since(self, account_id: AccountId, since: datetime) -> list[OrderReport]:
        orders: list[LedgerOrderBody] = []
        after = 0
        for _ in range(PAGES_MAX):
            page = await self._page(account_id, since, after)
            orders += page.orders
            if page.next is None:
                return [order.to_report() for order in orders]
            after = page.next
        raise ListBrokenOff(f"the account has more orders since {since} than {PAGES_MAX} pages hold")

    async def positions(self, account_id: AccountId) -> list[BrokerPosition]:
        body = read(await self._query(account_id, f"/accounts/{account_id}"), AccountBody)
        return [BrokerPosition(symbol=Symbol(p.symbol), quantity=Decimal(p.quantity)) for p in body.positions]

    async def balances(self, account_id: AccountId) -> Balances:
        """The paper broker lends nothing, so there is no margin to report."""
        as_of = datetime.now(UTC)
        body = read(await self._query(account_id, f"/accounts/{account_id}"), AccountBody)
        return Balances(
            currency="USD",
            cash=Decimal(body.cash),
            equity=Decimal(body.equity),
            buying_power=Decimal(body.buying_power),
            as_of=as_of,
        )

    async def instruments(self, account_id: AccountId, symbols: Sequence[Symbol]) -> list[Instrument]:
        """Every listed symbol is tradable, in any fraction."""
        return [
            Instrument(
                symbol=quote.symbol, asset_class="us_equity", quote_currency="USD", tradable=True, fractional=True
            )
            for quote in await self.quotes(account_id, symbols)
        ]

    async def quotes(self, account_id: AccountId, symbols: Sequence[Symbol]) -> list[Quote]:
        """The single trading price of each listed symbol serves as bid, ask and last."""
        quotes = []
        for symbol in symbols:
            reply = await self._query(account_id, f"/prices/{quote(symbol, safe='')}")
            refusal = _refusal(reply)
            if refusal is not None and refusal.code == UNKNOWN_SYMBOL:
                continue
            price = Decimal(read(reply, QuotedBody).price)
            quotes.append(Quote(symbol=symbol, as_of=datetime.now(UTC), bid=price, ask=price, last=price))
        return quotes

    async def reports(self) -> AsyncGenerator[FeedItem, None]:
        """Reports, and None after each connect; reconnects until the session is closed."""
        pause = _RECONNECT_SECONDS_MIN
        while not self._http.is_closed:
            try:
                async with aclosing(self._feed()) as lines:
                    async for line in lines:
                        if line.connected is not None:
                            pause = _RECONNECT_SECONDS_MIN
                            self.is_connected = True
                            yield None
                        elif line.account_id is not None and line.report is not None:
                            yield AccountId(line.account_id), line.report.to_report()
            except QUERY_ERRORS as trouble:
                self._log.warning("broker_feed_broken", broker=self._profile.name, why=describe_error(trouble))
            finally:
                self.is_connected = False
            await asyncio.sleep(pause)
            pause = min(pause * 2, RECONNECT_SECONDS_MAX)

    def listen_again(self, accounts: Collection[AccountId]) -> None:
        """Does nothing: all accounts share one feed."""

    async def close(self) -> None:
        await self._http.close()

    async def _page(self, account_id: AccountId, since: datetime, after: int) -> OrderPage:
        params = {"since": since.isoformat(), "after": str(after)}
        page = read(await self._query(account_id, f"/accounts/{account_id}/orders", params), OrderPage)
        numbers = [after, *(order.number for order in page.orders)]
        if (
            any(later <= earlier for earlier, later in pairwise(numbers))
            or any(order.account_id != account_id for order in page.orders)
            or (page.next is not None and not after < page.next == numbers[-1])
        ):
            raise ListBrokenOff(f"the page after {after} does not continue the list of account {account_id}")
        return page

    async def _feed(self) -> AsyncGenerator[FeedLine, None]:
        request = self._http.request("GET", "/updates", headers={})
        async with aclosing(self._http.lines(request, FEED_SILENCE_SECONDS)) as lines:
            async for line in lines:
                yield decoded(line, FeedLine)

    def _path_to_change(self, account_id: AccountId, order: OrderName) -> str | None:
        by_client_id = self._profile.capabilities.cancels_by_client_id
        return _client_path(account_id, order) if by_client_id else _broker_path(account_id, order)

    def _headers(self, account_id: AccountId) -> dict[str, str]:
        secrets = self._secrets.get(account_id)
        return {} if secrets is None else _signed(secrets)

    def _with_body(self, account_id: AccountId, method: str, path: str, body: msgspec.Struct) -> Request:
        headers = {"content-type": "application/json", **self._headers(account_id)}
        return self._http.request(method, path, content=_ENCODER.encode(body), headers=headers)

    async def _query(self, account_id: AccountId, path: str, params: Mapping[str, str] | None = None) -> Reply:
        return await self._http.query(self._http.request("GET", path, params=params, headers=self._headers(account_id)))

    async def _command(self, request: Request, done: int) -> Outcome:
        reply = await self._http.command(request)
        if not isinstance(reply, Reply):
            return reply
        if reply.status == done:
            try:
                return Accepted(decoded(reply.body, AcceptedBody).broker_order_id)
            except UnreadableAnswer as trouble:
                return Unknown(f"{reply.status} with a body that cannot be read: {trouble}")
        refusal = _refusal(reply)
        if refusal is None:
            return Unknown(f"the broker answered {reply.status}")
        if refusal.code == DUPLICATE_ID:
            # The duplicate proves that an earlier command with this id was accepted, not that this one is refused.
            return Unknown(refusal.text)
        if refusal.code == TOO_MANY_REQUESTS:
            return NotSent(refusal.text, reply.retry_after)
        return Refused(refusal.code, refusal.text)


def _signed(secrets: Secrets) -> dict[str, str]:
    return {"authorization": signature(Key(secrets["key_id"], secrets["secret"]))}


def _refusal(reply: Reply) -> RefusalBody | None:
    """A definite refusal: a code of the table together with its status."""
    try:
        refusal = decoded(reply.body, RefusalBody)
    except UnreadableAnswer:
        return None
    return refusal if REFUSALS.get(refusal.code) == reply.status else None


def _client_path(account_id: AccountId, order: OrderName) -> str:
    return f"/accounts/{account_id}/orders/{quote(order.client_order_id, safe='')}"


def _broker_path(account_id: AccountId, order: OrderName) -> str | None:
    """By the newest broker id, if there is one."""
    if not order.broker_order_ids:
        return None
    return f"/accounts/{account_id}/broker-orders/{quote(order.broker_order_ids[-1], safe='')}"
