"""One account at Tradier: its token, the one host that the token is for, and what can be asked there."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final
from urllib.parse import quote, urlencode

import httpx

from openbell_server.application.ports.broker import SlowDown
from openbell_server.brokers.http_client import (
    BrokerHttp,
    ListBrokenOff,
    Reply,
    UnreadableAnswer,
    read,
)
from openbell_server.brokers.tradier.outcomes import is_rate_limited
from openbell_server.brokers.tradier.wire import SEVERAL, OrderBody, OrdersBody, TradierOrder
from openbell_server.domain.accounts import Environment
from openbell_server.domain.broker_orders import OrderName
from openbell_server.domain.credentials import Secrets
from openbell_server.domain.identifiers import AccountId

PAGE: Final = 1_000
# It need not give as many as it is asked for: fewer than these, its own measure, are certainly the last.
PAGE_MIN: Final = 25
PAGES_MAX: Final = 500
# A list of more than today reaches over a month; days are New York's, so each span begins a day early.
SPAN: Final = timedelta(days=28)
_DAY: Final = timedelta(days=1)
# Nobody has orders there from before.
FIRST_DAY: Final = date(2012, 1, 1)
_MILLISECOND: Final = 1_000
_TAGS: Final = {"includeTags": "true"}


@dataclass(frozen=True, slots=True)
class TradierAccount:
    """A signed-in account; it has one host for good, so that nothing of it can go to another environment's."""

    account_id: AccountId
    environment: Environment
    host: BrokerHttp
    secrets: Secrets

    @property
    def number(self) -> str:
        """Tradier's own name of it; one token may be for several."""
        return self.secrets["account"]

    def path(self, *rest: str) -> str:
        """Where something of the account is."""
        return "/".join(["/v1/accounts", *(quote(part, safe="") for part in (self.number, *rest))])

    def command(self, method: str, path: str, form: Mapping[str, str] | None = None) -> httpx.Request:
        """A command, ready to be written once."""
        if form is None:
            return self.host.request(method, path, headers=self._headers)
        headers = {"content-type": "application/x-www-form-urlencoded", **self._headers}
        return self.host.request(method, path, headers=headers, content=urlencode(form).encode())

    async def ask(self, path: str, params: Mapping[str, str] | None = None) -> Reply:
        """An answer, whatever it is, unless it is that we ask too often."""
        reply = await self.host.ask(self.host.request("GET", path, headers=self._headers, params=params))
        if is_rate_limited(reply):
            raise SlowDown(reply.retry_after)
        return reply

    async def order(self, order_id: str) -> TradierOrder:
        """One order by the broker's id; it has no word for one that is not there which means only that."""
        order = read(await self.ask(self.path("orders", order_id), _TAGS), OrderBody).order
        if str(order.id) != order_id:
            raise UnreadableAnswer(f"asked for order {order_id}, it tells of {order.id}")
        return order

    async def orders_now(self) -> dict[int, TradierOrder]:
        """The orders of today's session, ended ones too, and those from before that work still, by id."""
        return await self._pages({})

    async def orders_since(self, since: datetime) -> list[TradierOrder]:
        """Every order taken at or after a time; complete or an exception."""
        found: dict[int, TradierOrder] = {}
        for first, last in _spans(since.astimezone(UTC).date(), datetime.now(UTC).date()):
            end = {} if last is None else {"end": last.isoformat()}
            found |= await self._pages({"filter": "all", "start": first.isoformat(), **end})
        # Times are told to the millisecond.
        told_from = since.replace(microsecond=since.microsecond // _MILLISECOND * _MILLISECOND)
        return [order for order in found.values() if order.create_date >= told_from]

    async def find(self, name: OrderName) -> TradierOrder | None:
        """An order by its id, or by our tag among those of today, or of a month; None only if it is not there."""
        if name.broker_order_ids:
            order = await self.order(name.broker_order_ids[-1])
            if order.tag and name.client_order_id and order.tag != name.client_order_id:
                raise UnreadableAnswer(f"order {order.id} is tagged with another's id")
            return order
        tagged = _tagged(await self.orders_now(), name.client_order_id)
        if tagged is not None:
            return tagged
        orders = await self._pages({"filter": "all"})
        if orders and not any(order.tag for order in orders.values()):
            # Tags are documented for today's list and not for this one: without any, it would prove nothing.
            raise ListBrokenOff("the list of a month tells no tags")
        return _tagged(orders, name.client_order_id)

    async def _pages(self, params: Mapping[str, str]) -> dict[int, TradierOrder]:
        """A list to its end: what is placed meanwhile moves others to a later page at most, and none is skipped."""
        found: dict[int, TradierOrder] = {}
        for page in range(1, PAGES_MAX + 1):
            asked = {**params, **_TAGS, "page": str(page), "limit": str(PAGE)}
            told = read(await self.ask(self.path("orders"), asked), OrdersBody).told()
            news = {order.id: order for order in told if order.id not in found}
            found |= news
            if len(told) < PAGE_MIN or not news:
                return {order_id: order for order_id, order in found.items() if order.order_class not in SEVERAL}
        raise ListBrokenOff("the orders do not come to an end")

    @property
    def _headers(self) -> dict[str, str]:
        return {
            "authorization": f"Bearer {self.secrets['token']}",
            "accept": "application/json",
        }


def _spans(since: date, today: date) -> Iterator[tuple[date, date | None]]:
    first = max(since, FIRST_DAY) - _DAY
    while first + SPAN < today:
        yield first, first + SPAN
        first += SPAN
    yield first, None


def _tagged(orders: Mapping[int, TradierOrder], tag: str) -> TradierOrder | None:
    return next((order for _, order in sorted(orders.items()) if order.tag == tag), None)
