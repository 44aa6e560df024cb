"""What a trial of a broker trades, how it names its orders, and what it measured."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final, Protocol

from openbell_server.application.ports.broker import (
    BrokerDefinition,
    BrokerOrder,
    BrokerReplacement,
    BrokerSession,
)
from openbell_server.domain.identifiers import AccountId, Symbol
from openbell_server.domain.orders.broker_reports import OrderName, OrderReport, Outcome, ReportStatus, Unknown
from openbell_server.domain.orders.order_terms import OrderSide, OrderType, RouteStrategy, Terms, TimeInForce

COMMAND_SECONDS: Final = 10.0
TICK: Final = Decimal("0.01")
# The broker's clock may be behind ours.
CLOCK_SECONDS: Final = 120
ENDED: Final = frozenset({ReportStatus.FILLED, ReportStatus.CANCELED, ReportStatus.EXPIRED, ReportStatus.REJECTED})


class TrialStopped(Exception):
    """The broker did not do what every measurement needs; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One answer about a broker; `documented` is what its adapter relies on, None if nothing does."""

    name: str
    measured: str
    documented: str | None = None
    evidence: str = ""

    @property
    def agrees(self) -> bool:
        return self.documented in {None, self.measured}


class SentOrders(Protocol):
    """Remembers orders before they are sent, so that a later run can cancel them if this one is killed."""

    def add(self, client_order_id: str, at: datetime) -> None: ...

    def all(self) -> Mapping[str, datetime]: ...

    def clear(self) -> None: ...


@dataclass(slots=True, kw_only=True)
class Subject:
    """An account of a sandbox, and the terms of orders that rest there without filling."""

    definition: BrokerDefinition
    session: BrokerSession
    account_id: AccountId
    symbol: Symbol
    quantity: Decimal
    price: Decimal
    sent: SentOrders
    new_name: Callable[[], str]
    now: Callable[[], datetime]
    monotonic: Callable[[], float]
    begun_at: datetime = field(init=False)
    # The broker's ids of an order, by ours.
    broker_ids: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.begun_at = self.now()

    def name_of(self, name: str) -> OrderName:
        return OrderName(client_order_id=name, broker_order_ids=self.broker_ids.get(name, ()))

    @property
    def prices(self) -> tuple[Decimal, Decimal, Decimal]:
        """Of an order, and of its replacements."""
        return self.price, self.price + TICK, self.price + 2 * TICK

    async def submit(self, name: str, seconds: float = COMMAND_SECONDS) -> Outcome:
        """Send an order that the broker may accept for so many seconds."""
        self.sent.add(name, self.now())
        return await self._within(self.session.submit(self._order(name, seconds)))

    async def replace(self, order: str, name: str, price: Decimal) -> Outcome:
        terms = Terms(quantity=self.quantity, limit_price=price, time_in_force=self._time_in_force())
        replacement = BrokerReplacement(
            account_id=self.account_id,
            order=self.name_of(order),
            client_order_id=name,
            terms=terms,
            filled_quantity=Decimal(0),
            valid_until=self._valid_until(),
        )
        return await self._within(self.session.replace(replacement))

    async def cancel(self, order: OrderName) -> Outcome:
        return await self._within(self.session.cancel(self.account_id, order, self._valid_until()))

    async def cancel_reported(self, report: OrderReport) -> None:
        """Under every id that the report has."""
        name, ids = report.client_order_id or "", (report.broker_order_id,)
        await self.cancel(OrderName(client_order_id=name, broker_order_ids=ids))

    async def _within(self, command: Awaitable[Outcome]) -> Outcome:
        try:
            async with asyncio.timeout(COMMAND_SECONDS):
                return await command
        except Exception as error:  # noqa: BLE001 - as the executor does it: any exception is an unknown outcome
            return Unknown(repr(error))

    async def listed(self) -> list[OrderReport]:
        """The orders of this trial that the broker accepted; refused ones are left out."""
        reports = await self.session.orders_since(self.account_id, self.begun_at - timedelta(seconds=CLOCK_SECONDS))
        return [each for each in reports if self.is_ours(each) and each.status is not ReportStatus.REJECTED]

    def is_ours(self, report: OrderReport) -> bool:
        """Whether this trial sent the order: by our id or, at a broker that stores no ids, by the order's terms."""
        if report.client_order_id is not None:
            return report.client_order_id in self.sent.all()
        symbol, terms = None if report.description is None else report.description.symbol, report.terms
        return symbol == self.symbol and (
            terms is None or (terms.quantity == self.quantity and terms.limit_price in self.prices)
        )

    def _order(self, name: str, seconds: float) -> BrokerOrder:
        return BrokerOrder(
            account_id=self.account_id,
            client_order_id=name,
            symbol=self.symbol,
            order_side=OrderSide.BUY,
            order_type=OrderType.LIMIT,
            route_strategy=RouteStrategy.SMART,
            quantity=self.quantity,
            limit_price=self.price,
            stop_price=None,
            time_in_force=self._time_in_force(),
            valid_until=self._valid_until(seconds),
        )

    def _time_in_force(self) -> TimeInForce:
        offered = self.definition.capabilities.times_in_force
        longest = TimeInForce.GOOD_TILL_CANCEL
        return longest if longest in offered else self.definition.capabilities.default_time_in_force

    def _valid_until(self, seconds: float = COMMAND_SECONDS) -> datetime:
        return self.now() + timedelta(seconds=seconds)
