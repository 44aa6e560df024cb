"""What the simulator of Alpaca needs of an exchange, wherever that keeps its orders."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import NamedTuple, Protocol
from uuid import UUID

from openbell_exchange.history import History
from openbell_exchange.memory import OrderUpdate
from openbell_exchange.terms import OrderSide, OrderSpec, Symbol, Terms
from openbell_torture.alpaca.wire import Caller


class RequestKind(Enum):
    COMMAND = "command"
    READ = "read"
    STREAM = "stream"


class Broken(Exception):
    """The exchange failed: the client gets an error that leaves open what became of the command."""


class Cut(Exception):
    """The connection ends without an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewOrder:
    client_order_id: str
    symbol: Symbol
    side: OrderSide
    spec: OrderSpec


class HeldPosition(NamedTuple):
    symbol: Symbol
    quantity: Decimal
    price: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountState:
    cash: Decimal
    buying_power: Decimal
    fees: Decimal
    positions: Sequence[HeldPosition]


class Engine(Protocol):
    """Every method raises Refusal, Broken or Cut if the exchange does not do it, or does not answer."""

    async def admit(self, kind: RequestKind) -> None:
        """Called first, with each request."""

    async def submit(self, who: Caller, order: NewOrder) -> None:
        """Raises Refusal with the code duplicate_client_order_id if an order has the id."""

    async def replace(self, who: Caller, history: History, client_order_id: str, terms: Terms) -> None:
        """Give the order these terms; the quantity counts what has filled."""

    async def cancel(self, who: Caller, history: History) -> None: ...

    async def named(self, account_id: UUID, client_order_id: str) -> tuple[int, int] | None:
        """The number of the order with this id, and how often it was replaced before it had the id."""

    async def history(self, number: int) -> History | None: ...

    async def find(self, who: Caller, number: int) -> History | None:
        """As a look-up finds it, which may be later than the order was accepted."""

    async def list_orders(self, who: Caller) -> list[History]: ...

    async def state(self, account_id: UUID) -> AccountState: ...

    async def position(self, account_id: UUID, symbol: str) -> Decimal: ...

    async def price(self, symbol: Symbol) -> Decimal: ...

    def updates(self) -> AbstractAsyncContextManager[AsyncIterator[OrderUpdate]]:
        """All updates from now on; ends when the exchange cuts the feed."""
