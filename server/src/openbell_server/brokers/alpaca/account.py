"""One account at Alpaca: its key, the only host the key is sent to, and the queries of that account."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import quote

import msgspec

from openbell_server.application.ports.broker import SlowDown
from openbell_server.brokers.alpaca.chains import Places
from openbell_server.brokers.alpaca.outcomes import NOT_FOUND, RATE_LIMITED, is_error
from openbell_server.brokers.alpaca.wire import AlpacaOrder, Fill
from openbell_server.brokers.http_client import BrokerHttp, ListBrokenOff, Reply, Request, UnreadableAnswer, read
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.credentials import Secrets
from openbell_server.domain.identifiers import AccountId

ORDERS_PAGE: Final = 500
FILLS_PAGE: Final = 100
# 100,000 orders or fills: far more than an account makes between two reconciliations.
ORDER_PAGES_MAX: Final = 200
FILL_PAGES_MAX: Final = 1_000
# Times have microseconds or finer, and several orders may share one, so each page starts a little before the end of the
# last one.
_OVERLAP: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Host:
    """The trading API and the market data API of one environment."""

    address: str
    trading: BrokerHttp
    data: BrokerHttp

    @property
    def stream(self) -> str:
        return f"{self.address.rstrip('/').replace('http', 'ws', 1)}/stream"


@dataclass(frozen=True, slots=True)
class AlpacaAccount:
    """A signed-in account. Its host never changes, so its key cannot be sent to the other environment."""

    account_id: AccountId
    environment: Environment
    host: Host
    secrets: Secrets
    places: Places = field(default_factory=Places)

    @property
    def headers(self) -> dict[str, str]:
        return {"APCA-API-KEY-ID": self.secrets["key_id"], "APCA-API-SECRET-KEY": self.secrets["secret"]}

    def command(self, method: str, path: str, body: msgspec.Struct | None = None) -> Request:
        """A request that the caller sends once."""
        if body is None:
            return self.host.trading.request(method, path, headers=self.headers)
        headers = {"content-type": "application/json", **self.headers}
        return self.host.trading.request(method, path, headers=headers, content=msgspec.json.encode(body))

    async def query(self, path: str, params: Mapping[str, str] | None = None, *, data: bool = False) -> Reply:
        """Any answer except 429, for which it raises SlowDown."""
        http = self.host.data if data else self.host.trading
        reply = await http.query(http.request("GET", path, headers=self.headers, params=params))
        if is_error(reply, RATE_LIMITED):
            raise SlowDown(reply.retry_after)
        return reply

    async def order(self, order_id: str) -> AlpacaOrder | None:
        """One order by Alpaca's id; None only if Alpaca reports that it does not exist."""
        order = await self._one(f"/v2/orders/{quote(order_id, safe='')}")
        if order is not None and order.id != order_id:
            raise UnreadableAnswer(f"asked for order {order_id}, it tells of {order.id}")
        return order

    async def order_by_client_id(self, client_order_id: str) -> AlpacaOrder | None:
        """One order by its client_order_id; None only if Alpaca reports that it does not exist."""
        order = await self._one("/v2/orders:by_client_order_id", {"client_order_id": client_order_id})
        if order is not None and order.client_order_id != client_order_id:
            raise UnreadableAnswer(f"asked for order {client_order_id}, it tells of {order.client_order_id}")
        return order

    async def orders(self, since: datetime) -> dict[str, AlpacaOrder]:
        """Every order submitted at or after a time, by id; raises unless the list is complete."""
        found: dict[str, AlpacaOrder] = {}
        after = since
        for _ in range(ORDER_PAGES_MAX):
            params = {
                "status": "all",
                "after": _time(after - _OVERLAP),
                "direction": "asc",
                "limit": str(ORDERS_PAGE),
                "nested": "false",
            }
            page = read(await self.query("/v2/orders", params), list[AlpacaOrder])
            news = {order.id: order for order in page if order.id not in found}
            found |= {order.id: order for order in page}
            if len(page) < ORDERS_PAGE:
                return found
            if not news:
                break
            after = max(order.taken_at for order in page)
        raise ListBrokenOff(f"the orders since {since} do not come to an end")

    async def fills(self, since: datetime) -> dict[str, list[Fill]]:
        """Every fill since a time by its order, oldest first; raises unless the list is complete."""
        found: dict[str, list[Fill]] = {}
        params = {"after": _time(since - _OVERLAP), "direction": "asc", "page_size": str(FILLS_PAGE)}
        for _ in range(FILL_PAGES_MAX):
            page = read(await self.query("/v2/account/activities/FILL", params), list[Fill])
            for fill in page:
                found.setdefault(fill.order_id, []).append(fill)
            if len(page) < FILLS_PAGE:
                return found
            if params.get("page_token") == page[-1].id:
                break
            params = {**params, "page_token": page[-1].id}
        raise ListBrokenOff(f"the fills since {since} do not come to an end")

    async def _one(self, path: str, params: Mapping[str, str] | None = None) -> AlpacaOrder | None:
        reply = await self.query(path, params)
        return None if is_error(reply, NOT_FOUND) else read(reply, AlpacaOrder)


def _time(time: datetime) -> str:
    return time.isoformat().replace("+00:00", "Z")
