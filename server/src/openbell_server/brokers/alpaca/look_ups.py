"""Looks up one order with its chain and executions, or all orders of an account."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Final

from openbell_server.application.ports.broker import QueryFailed
from openbell_server.brokers.alpaca.account import AlpacaAccount
from openbell_server.brokers.alpaca.chains import Chain
from openbell_server.brokers.alpaca.wire import MULTI_LEG, REPLACED, AlpacaOrder
from openbell_server.domain.orders.broker_reports import OrderName, OrderReport
from openbell_server.domain.orders.order_terms import exact_total

CHAIN_MAX: Final = 100


class ChainBroken(QueryFailed):
    """The chain of an order cannot be read from the first to the last."""


# All errors that a look-up can end with.


class _Known:
    """Cache of orders read during one look-up, with the replacements of each."""

    def __init__(self, account: AlpacaAccount, orders: Iterable[AlpacaOrder]) -> None:
        self._account = account
        self._orders: dict[str, AlpacaOrder] = {}
        self._after: defaultdict[str, set[str]] = defaultdict(set)
        for order in orders:
            self.add(order)

    def add(self, order: AlpacaOrder) -> None:
        self._orders[order.id] = order
        if order.replaces is not None:
            self._after[order.replaces].add(order.id)

    async def get(self, order_id: str) -> AlpacaOrder:
        return self._orders.get(order_id) or await self.get_again(order_id)

    async def get_again(self, order_id: str) -> AlpacaOrder:
        """Read the order again, without the cache."""
        order = await _get_order(self._account, order_id)
        self.add(order)
        return order

    async def before(self, order: AlpacaOrder) -> AlpacaOrder | None:
        """The order that this one replaces; read again if the cached state is from before the replacement."""
        if order.replaces is None:
            return None
        earlier = await self.get(order.replaces)
        return earlier if _is_replaced_by(earlier, order) else await self.get_again(order.replaces)

    def refused(self, members: Sequence[AlpacaOrder]) -> frozenset[str]:
        ids = {member.id for member in members}
        after = {order_id for member in members for order_id in self._after[member.id]}
        return frozenset(order_id for order_id in after - ids if self._orders[order_id].has_ended)


async def find(account: AlpacaAccount, name: OrderName) -> OrderReport | None:
    """The current state of the order first submitted with this client id; None only if Alpaca reports that it does not
    exist.
    """
    order = await account.order_by_client_id(name.client_order_id)
    if order is None:
        return None
    chain = await chain_of(account, order, name.broker_order_ids)
    return await _report(account, chain)


async def look_at(account: AlpacaAccount, order_id: str) -> OrderReport:
    """The same by Alpaca's id of any order of the chain."""
    return await _report(account, await chain_by_id(account, order_id))


async def orders_since(account: AlpacaAccount, since: datetime) -> list[OrderReport]:
    """Every chain with an order submitted at or after a time, each once; raises unless the list is complete."""
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
    """The order of a chain that is in force now, and the filled quantity of the whole chain."""
    newest = account.places.newest(order_ids)
    order = await _get_order(account, newest)
    place = account.places.of(order)
    if place is not None and place.position and order.status != REPLACED:
        return order, exact_total([place.earlier, order.filled])
    chain = await chain_of(account, order, order_ids)
    return chain.tip, chain.filled


async def chain_by_id(account: AlpacaAccount, order_id: str, others: Iterable[str] = ()) -> Chain:
    return await chain_of(account, await _get_order(account, order_id), others)


async def chain_of(account: AlpacaAccount, order: AlpacaOrder, others: Iterable[str] = ()) -> Chain:
    """Read the chain of an order; others are ids of orders that may have been meant to replace one of its members."""
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
    """Follow the chain back to the first order, then forward to the last; skips replacements that are not in force."""
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


async def _get_order(account: AlpacaAccount, order_id: str) -> AlpacaOrder:
    order = await account.order(order_id)
    if order is None:
        raise ChainBroken(f"order {order_id} is part of a chain, but the broker does not find it")
    return order


async def _report(account: AlpacaAccount, chain: Chain) -> OrderReport:
    filled = [member.taken_at for member in chain.members if member.filled]
    return chain.report(await account.fills(min(filled)) if filled else {})
