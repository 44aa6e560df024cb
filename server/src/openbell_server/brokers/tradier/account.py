"""One account at Tradier: its token, the only host the token is sent to, and the queries of that account."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final
from urllib.parse import quote, urlencode

from openbell_server.application.ports.broker import SlowDown
from openbell_server.brokers.http_client import BrokerHttp, ListBrokenOff, Reply, Request, UnreadableAnswer, read
from openbell_server.brokers.tradier.outcomes import is_rate_limited
from openbell_server.brokers.tradier.wire import MULTI_ORDER_CLASSES, OrderBody, OrdersBody, TradierOrder
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.credentials import Secrets
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.orders.broker_reports import OrderName

PAGE: Final = 1_000
# Tradier may return fewer orders than the requested limit; a page with fewer than its default of 25 is certainly the
# last.
PAGE_MIN: Final = 25
PAGES_MAX: Final = 500
# A list with a filter covers a month; its days are New York's, so each span starts a day early.
SPAN: Final = timedelta(days=28)
_DAY: Final = timedelta(days=1)
# Older than any order at Tradier.
FIRST_DAY: Final = date(2012, 1, 1)
_MILLISECOND: Final = 1_000
_TAGS: Final = {"includeTags": "true"}


@dataclass(frozen=True, slots=True)
class TradierAccount:
    """A signed-in account. Its host never changes, so its token cannot be sent to the other environment."""

    account_id: AccountId
    environment: Environment
    host: BrokerHttp
    secrets: Secrets

    @property
    def number(self) -> str:
        """Tradier's account number; one token may cover several accounts."""
        return self.secrets["account"]

    def path(self, *rest: str) -> str:
        return "/".join(["/v1/accounts", *(quote(part, safe="") for part in (self.number, *rest))])

    def command(self, method: str, path: str, form: Mapping[str, str] | None = None) -> Request:
        """A request that the caller sends once."""
        if form is None:
            return self.host.request(method, path, headers=self._headers)
        headers = {"content-type": "application/x-www-form-urlencoded", **self._headers}
        return self.host.request(method, path, headers=headers, content=urlencode(form).encode())

    async def query(self, path: str, params: Mapping[str, str] | None = None) -> Reply:
        """Any answer except one over the rate limit, for which it raises SlowDown."""
        reply = await self.host.query(self.host.request("GET", path, headers=self._headers, params=params))
        if is_rate_limited(reply):
            raise SlowDown(reply.retry_after)
        return reply

    async def order(self, order_id: str) -> TradierOrder:
        """One order by Tradier's id; raises if it does not exist, because Tradier has no distinct answer for that."""
        order = read(await self.query(self.path("orders", order_id), _TAGS), OrderBody).order
        if str(order.id) != order_id:
            raise UnreadableAnswer(f"asked for order {order_id}, it tells of {order.id}")
        return order

    async def orders_now(self) -> dict[int, TradierOrder]:
        """Today's orders, ended ones included, and older ones that still work, by id."""
        return await self._pages({})

    async def orders_since(self, since: datetime) -> list[TradierOrder]:
        """Every order created at or after a time; raises unless the list is complete."""
        found: dict[int, TradierOrder] = {}
        for first, last in _spans(since.astimezone(UTC).date(), datetime.now(UTC).date()):
            end = {} if last is None else {"end": last.isoformat()}
            found |= await self._pages({"filter": "all", "start": first.isoformat(), **end})
        # Tradier's times have milliseconds.
        since_millisecond = since.replace(microsecond=since.microsecond // _MILLISECOND * _MILLISECOND)
        return [order for order in found.values() if order.create_date >= since_millisecond]

    async def find(self, name: OrderName) -> TradierOrder | None:
        """Find an order by Tradier's id, or by our tag in today's list and then in the list of a month.

        None only if it is in neither list.
        """
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
            # Tags are documented for today's list only; without any tag this list proves nothing.
            raise ListBrokenOff("the list of a month tells no tags")
        return _tagged(orders, name.client_order_id)

    async def _pages(self, params: Mapping[str, str]) -> dict[int, TradierOrder]:
        """Read all pages. An order placed meanwhile can only move others to a later page, so none is skipped."""
        found: dict[int, TradierOrder] = {}
        for page in range(1, PAGES_MAX + 1):
            asked = {**params, **_TAGS, "page": str(page), "limit": str(PAGE)}
            orders = read(await self.query(self.path("orders"), asked), OrdersBody).as_list()
            news = {order.id: order for order in orders if order.id not in found}
            found |= news
            if len(orders) < PAGE_MIN or not news:
                return {
                    order_id: order for order_id, order in found.items() if order.order_class not in MULTI_ORDER_CLASSES
                }
        raise ListBrokenOff("the orders do not come to an end")

    @property
    def _headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.secrets['token']}", "accept": "application/json"}


def _spans(since: date, today: date) -> Iterator[tuple[date, date | None]]:
    first = max(since, FIRST_DAY) - _DAY
    while first + SPAN < today:
        yield first, first + SPAN
        first += SPAN
    yield first, None


def _tagged(orders: Mapping[int, TradierOrder], tag: str) -> TradierOrder | None:
    return next((order for _, order in sorted(orders.items()) if order.tag == tag), None)
