"""A replace makes another order of an order: the chain of them is one order to us; pure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from openbell_server.brokers.alpaca.wire import REPLACED, AlpacaOrder, Fill, TradeUpdate, execution_id
from openbell_server.domain.broker_orders import BrokerExecution, OrderDescription, OrderReport
from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.orders import exact_total

PLACES_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class Place:
    """Where an order stands in its chain."""

    # The client_order_id of the first order, by which the chain goes.
    root: str
    # 1 for the first; a replacement that was refused after all counts too.
    position: int
    # What the orders before it filled.
    earlier: Decimal

    @property
    def terms_version(self) -> int:
        """Odd ones only: the answer to a replace makes the version in between.

        So what is told of an order's terms counts for more than what its replace asked for: had something filled
        meanwhile, the total is higher by that, and had the replacement been refused, the terms are the old ones.
        """
        return 2 * self.position - 1


@dataclass(frozen=True, slots=True)
class Chain:
    """Orders that replaced each other, first to last; refused are replacements that never came into force."""

    members: tuple[AlpacaOrder, ...]
    refused: frozenset[str] = frozenset()

    @property
    def tip(self) -> AlpacaOrder:
        """The one that counts now."""
        return self.members[-1]

    @property
    def filled(self) -> Decimal:
        """What all of them filled."""
        return exact_total(member.filled for member in self.members)

    def places(self) -> dict[str, Place]:
        """Where each of them stands, by id."""
        places, earlier = {}, Decimal(0)
        for position, member in enumerate(self.members, start=1):
            refused = len(self.refused) if member is self.tip else 0
            places[member.id] = Place(self.members[0].client_order_id, position + refused, earlier)
            earlier = exact_total([earlier, member.filled])
        return places

    def report(self, fills: Mapping[str, Sequence[Fill]]) -> OrderReport:
        """The chain as one order, with all executions that are known by now."""
        executions = [
            BrokerExecution(
                execution_id=execution_id(member.id, Decimal(fill.cum_qty)),
                quantity=Decimal(fill.qty),
                price=Decimal(fill.price),
                executed_at=fill.transaction_time,
            )
            for member in self.members
            for fill in fills.get(member.id, ())
        ]
        return told(self.tip, self.places()[self.tip.id], executions, _description(self.members[0]))


def told(
    order: AlpacaOrder,
    place: Place,
    executions: Iterable[BrokerExecution],
    description: OrderDescription | None = None,
) -> OrderReport:
    """What an order at its place says of the whole."""
    terms = order.terms(place.earlier)
    return OrderReport(
        client_order_id=place.root,
        broker_order_id=order.id,
        status=order.report_status,
        filled_quantity=exact_total([place.earlier, order.filled]),
        executions=tuple(executions),
        triggered=order.is_stop and exact_total([place.earlier, order.filled]) > 0,
        terms=terms,
        terms_version=None if terms is None else place.terms_version,
        description=description,
    )


def executions_of(update: TradeUpdate) -> list[BrokerExecution]:
    """The fill that an update tells of, if it does."""
    if update.qty is None or update.price is None or update.timestamp is None:
        return []
    return [
        BrokerExecution(
            execution_id=execution_id(update.order.id, update.order.filled),
            quantity=Decimal(update.qty),
            price=Decimal(update.price),
            executed_at=update.timestamp,
        )
    ]


class Places:
    """Where the orders stand that were heard of last."""

    def __init__(self) -> None:
        """None is known."""
        self._by_id: dict[str, Place] = {}

    def remember(self, chain: Chain) -> None:
        """Where the orders of a chain stand; those that were refused stand before all of them."""
        for order_id in chain.refused:
            self._keep(order_id, Place(chain.members[0].client_order_id, 0, Decimal(0)))
        for order_id, place in chain.places().items():
            self._keep(order_id, place)

    def hear(self, order: AlpacaOrder, place: Place) -> None:
        """An order at its place; what takes it stands next, once that has happened and the order fills no more."""
        self._keep(order.id, place)
        if order.status == REPLACED and order.replaced_by is not None:
            earlier = exact_total([place.earlier, order.filled])
            self._keep(order.replaced_by, Place(place.root, place.position + 1, earlier))

    def of(self, order: AlpacaOrder) -> Place | None:
        """Where an order stands; one that replaces none is the first of its chain."""
        place = self._by_id.get(order.id)
        if place is None and order.replaces is None:
            return Place(order.client_order_id, 1, Decimal(0))
        return place

    def newest(self, order_ids: Sequence[str]) -> str:
        """The last order of a chain; one that was not heard of yet is newer than those that were."""

        def age(index: int) -> tuple[float, int]:
            place = self._by_id.get(order_ids[index])
            return (math.inf if place is None else place.position), index

        return order_ids[max(range(len(order_ids)), key=age)]

    def _keep(self, order_id: str, place: Place) -> None:
        self._by_id.pop(order_id, None)
        self._by_id[order_id] = place
        while len(self._by_id) > PLACES_MAX:
            del self._by_id[next(iter(self._by_id))]


def _description(root: AlpacaOrder) -> OrderDescription | None:
    if root.symbol is None or root.order_side is None or root.order_type is None:
        return None
    return OrderDescription(
        symbol=Symbol(root.symbol),
        order_side=root.order_side,
        order_type=root.order_type,
        accepted_at=root.taken_at,
    )
