"""Alpaca's replace creates a new order; this module treats such a chain of orders as one order. Pure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from openbell_server.brokers.alpaca.wire import REPLACED, AlpacaOrder, Fill, TradeUpdate, execution_id
from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.orders.broker_reports import BrokerExecution, OrderDescription, OrderReport
from openbell_server.domain.orders.order_terms import exact_total

PLACES_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class Place:
    """An order's place in its chain of replacements."""

    # The client_order_id of the first order, which identifies the chain.
    root: str
    # 1 for the first. A refused replacement also counts.
    position: int
    # Filled quantity of the earlier orders of the chain.
    earlier: Decimal

    @property
    def terms_version(self) -> int:
        """Always odd: the answer to a replace uses the even version in between.

        So reported terms take precedence over requested terms. If something filled meanwhile, the total is higher; if
        the replacement was refused, the old terms apply.
        """
        return 2 * self.position - 1


@dataclass(frozen=True, slots=True)
class Chain:
    """Orders that replaced each other, first to last; refused contains replacements that never came into force."""

    members: tuple[AlpacaOrder, ...]
    refused: frozenset[str] = frozenset()

    @property
    def tip(self) -> AlpacaOrder:
        """The order that is in force now."""
        return self.members[-1]

    @property
    def filled(self) -> Decimal:
        return exact_total(member.filled for member in self.members)

    def places(self) -> dict[str, Place]:
        places, earlier = {}, Decimal(0)
        for position, member in enumerate(self.members, start=1):
            refused = len(self.refused) if member is self.tip else 0
            places[member.id] = Place(self.members[0].client_order_id, position + refused, earlier)
            earlier = exact_total([earlier, member.filled])
        return places

    def report(self, fills: Mapping[str, Sequence[Fill]]) -> OrderReport:
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
        return order_report(self.tip, self.places()[self.tip.id], executions, _description(self.members[0]))


def order_report(
    order: AlpacaOrder, place: Place, executions: Iterable[BrokerExecution], description: OrderDescription | None = None
) -> OrderReport:
    """A report about the whole chain from one of its orders."""
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
    """The fill of an update; empty if the update has none."""
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
    """The places of the orders seen last, at most PLACES_MAX."""

    def __init__(self) -> None:
        self._by_id: dict[str, Place] = {}

    def remember(self, chain: Chain) -> None:
        """Store the places of a chain; refused replacements get position 0."""
        for order_id in chain.refused:
            self._keep(order_id, Place(chain.members[0].client_order_id, 0, Decimal(0)))
        for order_id, place in chain.places().items():
            self._keep(order_id, place)

    def notify(self, order: AlpacaOrder, place: Place) -> None:
        """Store an order's place, and the place of its replacement once it has replaced the order, which then fills no
        more.
        """
        self._keep(order.id, place)
        if order.status == REPLACED and order.replaced_by is not None:
            earlier = exact_total([place.earlier, order.filled])
            self._keep(order.replaced_by, Place(place.root, place.position + 1, earlier))

    def of(self, order: AlpacaOrder) -> Place | None:
        """The order's place; an order that replaces none is the first of its chain."""
        place = self._by_id.get(order.id)
        if place is None and order.replaces is None:
            return Place(order.client_order_id, 1, Decimal(0))
        return place

    def newest(self, order_ids: Sequence[str]) -> str:
        """The newest order of a chain; an unknown order counts as newer than the known ones."""

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
        symbol=Symbol(root.symbol), order_side=root.order_side, order_type=root.order_type, accepted_at=root.taken_at
    )
