"""Reads the order that a REPLACE changes."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from openbell_server.domain.identifiers import AccountId, IntentId, OrganizationId, Symbol
from openbell_server.domain.orders.order_terms import OrderSide, OrderType, Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderNow:
    """An order and the terms that a REPLACE may change."""

    symbol: Symbol
    order_side: OrderSide
    order_type: OrderType
    terms: Terms
    filled_quantity: Decimal
    # The account's position in the symbol; None if the broker never reported positions.
    position: Decimal | None
    # Type and id of who created the intent.
    creator: tuple[str, str]


class OrderStore(Protocol):
    async def find_order(
        self, organization_id: OrganizationId, account_id: AccountId, intent_id: IntentId
    ) -> OrderNow | None: ...
