"""One account at Alpaca: its key, the one host that the key is for, and what can be asked there."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import quote

import httpx
import msgspec

from openbell_server.application.ports.broker import SlowDown
from openbell_server.brokers.alpaca.chains import Places
from openbell_server.brokers.alpaca.outcomes import NOT_FOUND, RATE_LIMITED, is_error
from openbell_server.brokers.alpaca.wire import AlpacaOrder, Fill
from openbell_server.brokers.http_client import (
    BrokerHttp,
    ListBrokenOff,
    Reply,
    UnreadableAnswer,
    read,
)
from openbell_server.domain.accounts import Environment
from openbell_server.domain.credentials import Secrets
from openbell_server.domain.identifiers import AccountId

ORDERS_PAGE: Final = 500
FILLS_PAGE: Final = 100
# A hundred thousand orders or fills: far more than an account makes between two comparisons.
ORDER_PAGES_MAX: Final = 200
FILL_PAGES_MAX: Final = 1_000
# Times are told to the microsecond or finer, and orders may share one: each page begins a little before the last ended.
_OVERLAP: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Host:
    """Where one environment is: its trading address, and where prices are asked for."""

    address: str
    trading: BrokerHttp
    data: BrokerHttp

    @property
    def stream(self) -> str:
        """The address of its stream."""
        return f"{self.address.rstrip('/').replace('http', 'ws', 1)}/stream"


@dataclass(frozen=True, slots=True)
class AlpacaAccount:
    """A signed-in account; it has one host for good, so that nothing of it can go to another environment's."""

    account_id: AccountId
    environment: Environment
    host: Host
    secrets: Secrets
    places: Places = field(default_factory=Places)

    @property
    def headers(self) -> dict[str, str]:
        """What every request carries."""
        return {
            "APCA-API-KEY-ID": self.secrets["key_id"],
            "APCA-API-SECRET-KEY": self.secrets["secret"],
        }

    def command(self, method: str, path: str, body: msgspec.Struct | None = None) -> httpx.Request:
        """A command, ready to be written once."""
        if body is None:
            return self.host.trading.request(method, path, headers=self.headers)
        headers = {"content-type": "application/json", **self.headers}
        return self.host.trading.request(method, path, headers=headers, content=msgspec.json.encode(body))

    async def ask(self, path: str, params: Mapping[str, str] | None = None, *, data: bool = False) -> Reply:
        """An answer, whatever it is, unless it is that we ask too often."""
        http = self.host.data if data else self.host.trading
        reply = await http.ask(http.request("GET", path, headers=self.headers, params=params))
        if is_error(reply, RATE_LIMITED):
            raise SlowDown(reply.retry_after)
        return reply

    async def order(self, order_id: str) -> AlpacaOrder | None:
        """One order by the broker's id; None only if it says that it has none."""
        order = await self._one(f"/v2/orders/{quote(order_id, safe='')}")
        if order is not None and order.id != order_id:
            raise UnreadableAnswer(f"asked for order {order_id}, it tells of {order.id}")
        return order

    async def order_by_client_id(self, client_order_id: str) -> AlpacaOrder | None:
        """One order by the id that a client gave it; None only if the broker says that it has none."""
        order = await self._one("/v2/orders:by_client_order_id", {"client_order_id": client_order_id})
        if order is not None and order.client_order_id != client_order_id:
            raise UnreadableAnswer(f"asked for order {client_order_id}, it tells of {order.client_order_id}")
        return order

    async def orders(self, since: datetime) -> dict[str, AlpacaOrder]:
        """Every order taken at or after a time, by id; complete or an exception."""
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
            page = read(await self.ask("/v2/orders", params), list[AlpacaOrder])
            news = {order.id: order for order in page if order.id not in found}
            found |= {order.id: order for order in page}
            if len(page) < ORDERS_PAGE:
                return found
            if not news:
                break
            after = max(order.taken_at for order in page)
        raise ListBrokenOff(f"the orders since {since} do not come to an end")

    async def fills(self, since: datetime) -> dict[str, list[Fill]]:
        """Every fill since a time by its order, oldest first; complete or an exception."""
        found: dict[str, list[Fill]] = {}
        params = {"after": _time(since - _OVERLAP), "direction": "asc", "page_size": str(FILLS_PAGE)}
        for _ in range(FILL_PAGES_MAX):
            page = read(await self.ask("/v2/account/activities/FILL", params), list[Fill])
            for fill in page:
                found.setdefault(fill.order_id, []).append(fill)
            if len(page) < FILLS_PAGE:
                return found
            if params.get("page_token") == page[-1].id:
                break
            params = {**params, "page_token": page[-1].id}
        raise ListBrokenOff(f"the fills since {since} do not come to an end")

    async def _one(self, path: str, params: Mapping[str, str] | None = None) -> AlpacaOrder | None:
        reply = await self.ask(path, params)
        return None if is_error(reply, NOT_FOUND) else read(reply, AlpacaOrder)


def _time(time: datetime) -> str:
    return time.isoformat().replace("+00:00", "Z")
