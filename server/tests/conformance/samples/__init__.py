"""What a broker answers when all is well, by route: what hostile answers are made of."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from importlib import import_module
from typing import Final
from uuid import UUID

from openbell_server.application.ports.broker import BrokerDefinition, BrokerOrder, BrokerReplacement
from openbell_server.domain.access.credentials import Secrets
from openbell_server.domain.identifiers import AccountId, Symbol
from openbell_server.domain.orders.broker_reports import OrderName
from openbell_server.domain.orders.order_terms import OrderSide, OrderType, RouteStrategy, Terms, TimeInForce

# Every session is asked about this account and this order.
ACCOUNT: Final = AccountId(UUID("00000000-0000-7000-8000-000000000001"))
CLIENT_ORDER_ID: Final = "0QmZ4rT7yUi1OpA2sDfG3h"
REPLACEMENT_ID: Final = "0QmZ4rT7yUi1OpA2sDfG4j"
SYMBOL: Final = Symbol("AAPL")
TOLD_AT: Final = datetime(2026, 11, 2, 15, 30, 1, 123456, tzinfo=UTC)
VALID_UNTIL: Final = datetime(2099, 1, 1, tzinfo=UTC)
ORDER: Final = BrokerOrder(
    account_id=ACCOUNT,
    client_order_id=CLIENT_ORDER_ID,
    symbol=SYMBOL,
    order_side=OrderSide.BUY,
    order_type=OrderType.LIMIT,
    route_strategy=RouteStrategy.SMART,
    quantity=Decimal("10.5"),
    limit_price=Decimal("189.5"),
    stop_price=None,
    time_in_force=TimeInForce.DAY,
    valid_until=VALID_UNTIL,
)


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer as the broker gives it; several lines are several JSON documents."""

    status: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Route:
    """One thing that the broker can be asked, and its answers: the first is the one that says yes."""

    name: str
    method: str
    path: re.Pattern[str]
    answers: tuple[Answer, ...]
    # Statuses that say all by themselves, whatever comes with them.
    definite: frozenset[int] = frozenset()
    # An answer that goes on for ever, in lines; or over a WebSocket, where each line is a message: the first two answer
    # one of the client's each.
    is_feed: bool = False
    is_socket: bool = False
    # Calls for which only the first answer is one; any other means that there is none.
    first_only: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """One broker: its routes, and what the names in its answers mean."""

    definition: BrokerDefinition
    broker_order_id: str
    routes: tuple[Route, ...]
    # Where texts are free; any other text is a number, a time or one of a few words.
    free: frozenset[str]
    # What may be missing, or a word that nobody knows, without harm: anywhere, or as `route.name`.
    optional: frozenset[str]
    # Numbers that may be below zero, as `route.name`.
    signed: frozenset[str] = frozenset()
    # Without one of these nothing is proved: anywhere, or as `route.name`.
    proofs: frozenset[str] = frozenset()
    # What tells whose answer it is, as `route.name`, with what another's would say.
    echoes: dict[str, str] = field(default_factory=dict)
    secrets: Secrets | None = None

    @property
    def order(self) -> OrderName:
        """All that the order is known by."""
        return OrderName(client_order_id=CLIENT_ORDER_ID, broker_order_ids=(self.broker_order_id,))

    @property
    def replacement(self) -> BrokerReplacement:
        """The order with another quantity and limit."""
        return BrokerReplacement(
            account_id=ACCOUNT,
            order=self.order,
            client_order_id=REPLACEMENT_ID,
            terms=Terms(
                quantity=Decimal(12), limit_price=Decimal("189.75"), stop_price=None, time_in_force=TimeInForce.DAY
            ),
            filled_quantity=Decimal("4.25"),
            valid_until=VALID_UNTIL,
        )

    def route(self, method: str, path: str) -> Route | None:
        """What is asked by this request."""
        return next((r for r in self.routes if r.method == method and r.path.fullmatch(path)), None)


def samples_of(broker: str) -> Samples:
    """Those of a broker: `samples.<broker>`; the kinds of the paper broker share one module."""
    name = "paper" if broker.partition("-")[0] == "paper" else broker.replace("-", "_")
    make: Callable[[str], Samples] = import_module(f"conformance.samples.{name}").samples
    return make(broker)
