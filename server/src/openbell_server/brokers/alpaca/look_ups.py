"""Look an order up with its whole chain and all its executions, or every order of an account."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Final

import httpx

from openbell_server.application.ports.broker import SlowDown
from openbell_server.brokers.alpaca.account import AlpacaAccount
from openbell_server.brokers.alpaca.chains import Chain
from openbell_server.brokers.alpaca.wire import MULTI_LEG, REPLACED, AlpacaOrder
from openbell_server.brokers.http_client import ListBrokenOff
from openbell_server.domain.broker_orders import OrderName, OrderReport
from openbell_server.domain.orders import exact_total

CHAIN_MAX: Final = 100


class ChainBroken(Exception):
    """Orders that replaced each other cannot be read from the first to the last."""


# What a question may come to instead of an answer.
NOT_TOLD: Final = (
    httpx.HTTPError,
    TimeoutError,
    SlowDown,
    ChainBroken,
    ListBrokenOff,
)


class _Known:
    """Orders that were read, so that none is asked for twice, and which of them replace which."""

    def __init__(self, account: AlpacaAccount, orders: Iterable[AlpacaOrder]) -> None:
        """These were read."""
        self._account = account
        self._orders: dict[str, AlpacaOrder] = {}
        self._after: defaultdict[str, set[str]] = defaultdict(set)
        for order in orders:
            self.add(order)

    def add(self, order: AlpacaOrder) -> None:
        """One more, or a newer word of the same."""
        self._orders[order.id] = order
        if order.replaces is not None:
            self._after[order.replaces].add(order.id)

    async def get(self, order_id: str) -> AlpacaOrder:
        """One that another names."""
        return self._orders.get(order_id) or await self.get_again(order_id)

    async def get_again(self, order_id: str) -> AlpacaOrder:
        """The same, as it is now."""
        order = await _told(self._account, order_id)
        self.add(order)
        return order

    async def before(self, order: AlpacaOrder) -> AlpacaOrder | None:
        """The one that it shall replace; read again if it was read before that happened."""
        if order.replaces is None:
            return None
        earlier = await self.get(order.replaces)
        return earlier if _is_replaced_by(earlier, order) else await self.get_again(order.replaces)

    def refused(self, members: Sequence[AlpacaOrder]) -> frozenset[str]:
        """Replacements of these that ended without coming into force."""
        ids = {member.id for member in members}
        after = {order_id for member in members for order_id in self._after[member.id]}
        return frozenset(order_id for order_id in after - ids if self._orders[order_id].has_ended)


async def find(account: AlpacaAccount, name: OrderName) -> OrderReport | None:
    """The order that began under this client id, as it is now; None only if the broker says that it has none."""
    order = await account.order_by_client_id(name.client_order_id)
    if order is None:
        return None
    chain = await chain_of(account, order, name.broker_order_ids)
    return await _report(account, chain)


async def look_at(account: AlpacaAccount, order_id: str) -> OrderReport:
    """The same by an id of the broker's, of any order of the chain."""
    return await _report(account, await chain_by_id(account, order_id))


async def orders_since(account: AlpacaAccount, since: datetime) -> list[OrderReport]:
    """Every order that has something taken at or after a time, each chain once; complete or an exception."""
    listed = await account.orders(since)
    orders = [order for order in listed.values() if order.order_class != MULTI_LEG]
    known = _Known(account, orders)
    chains: dict[str, Chain] = {}
    for order in orders:
        chain = await _walk(order, known)
        chains[chain.members[0].id] = chain
    for chain in chains.values():
        account.places.remember(chain)
    filled = [member.taken_at for chain in chains.values() for member in chain.members if member.filled]
    fills = await account.fills(min(filled)) if filled else {}
    return [chain.report(fills) for chain in chains.values()]


async def rest_of(account: AlpacaAccount, order_ids: Sequence[str]) -> tuple[AlpacaOrder, Decimal]:
    """The order that counts now of a chain with these ids, and what the whole chain has filled."""
    newest = account.places.newest(order_ids)
    order = await _told(account, newest)
    place = account.places.of(order)
    if place is not None and place.position and order.status != REPLACED:
        return order, exact_total([place.earlier, order.filled])
    chain = await chain_of(account, order, order_ids)
    return chain.tip, chain.filled


async def chain_by_id(account: AlpacaAccount, order_id: str, others: Iterable[str] = ()) -> Chain:
    """The chain of an order by an id that the broker has told."""
    return await chain_of(account, await _told(account, order_id), others)


async def chain_of(account: AlpacaAccount, order: AlpacaOrder, others: Iterable[str] = ()) -> Chain:
    """The chain of an order; others are orders that may have been meant to replace one of it."""
    known = _Known(account, [order])
    chain = await _walk(order, known)
    members = {member.id for member in chain.members}
    for order_id in others:
        if order_id not in members:
            other = await account.order(order_id)
            if other is not None:
                known.add(other)
    chain = Chain(chain.members, known.refused(chain.members))
    account.places.remember(chain)
    return chain


async def _walk(order: AlpacaOrder, known: _Known) -> Chain:
    """Back to the first, then on to the last; a replacement that is not in force is none."""
    members = [order]
    for _ in range(CHAIN_MAX):
        earlier = await known.before(members[0])
        if earlier is None:
            break
        members = [earlier, *members] if _is_replaced_by(earlier, members[0]) else [earlier]
    for _ in range(CHAIN_MAX):
        following = members[-1].replaced_by
        if members[-1].status != REPLACED or following is None:
            break
        members.append(await known.get(following))
    is_whole = members[0].replaces is None and members[-1].status != REPLACED
    if not is_whole or len(members) > CHAIN_MAX:
        raise ChainBroken(f"the chain of order {order.id} does not come to an end")
    return Chain(tuple(members), known.refused(members))


def _is_replaced_by(earlier: AlpacaOrder, order: AlpacaOrder) -> bool:
    return earlier.status == REPLACED and earlier.replaced_by == order.id


async def _told(account: AlpacaAccount, order_id: str) -> AlpacaOrder:
    """An order that the broker has told of."""
    order = await account.order(order_id)
    if order is None:
        raise ChainBroken(f"order {order_id} was told of, and is not there")
    return order


async def _report(account: AlpacaAccount, chain: Chain) -> OrderReport:
    filled = [member.taken_at for member in chain.members if member.filled]
    return chain.report(await account.fills(min(filled)) if filled else {})
