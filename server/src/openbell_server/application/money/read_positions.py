"""Read what an account holds, what that cost, and what it is worth."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Final

from openbell_server.application.access.find_account import find_account
from openbell_server.application.access.ports.account_records import AccountStore
from openbell_server.application.intents.ports import ListedPosition, ListedPositions, OrderLists
from openbell_server.application.money.ports import Mark, MarkStore
from openbell_server.application.money.read_books import ReadBooks
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.identifiers import AccountId, OrganizationId, Symbol
from openbell_server.domain.money.profit import Book, CostMethod, divided
from openbell_server.domain.orders.order_terms import EXACT

# A reply beyond this limit reports that it is incomplete.
POSITIONS_MAX: Final = 10_000
# A book of more trades that a late or changed fill makes anew is left out until the executor has saved it.
TRADES_MAX: Final = 20_000
# A trade between the reads of positions and books makes both read again.
READS_MAX: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ValuedPosition:
    """A position with its money; None where a price or a cost is not known."""

    symbol: Symbol
    quantity: Decimal
    updated_at: datetime
    cost: Decimal | None = None
    average_cost: Decimal | None = None
    market_price: Decimal | None = None
    market_price_at: datetime | None = None
    market_value: Decimal | None = None
    unrealized: Decimal | None = None
    realized: Decimal | None = None
    fees: Decimal | None = None
    currency: str | None = None
    # Whether realized and fees include every trade.
    is_complete: bool = False


@dataclass(frozen=True, slots=True)
class ValuedPositions:
    listed: ListedPositions
    positions: Sequence[ValuedPosition]
    # Whether there are no more than POSITIONS_MAX.
    is_all: bool


@dataclass(frozen=True, slots=True)
class ReadPositions:
    accounts: AccountStore
    lists: OrderLists
    books: ReadBooks
    marks: MarkStore

    async def __call__(self, caller: Principal, account_id: AccountId, method: CostMethod) -> ValuedPositions:
        account = await find_account(self.accounts, caller, Operation.READ_INTENTS, account_id)
        listed, books = await self._agreeing(account.organization_id, account.id)
        shown = listed.positions[:POSITIONS_MAX]
        marks = await self.marks.read_marks(account, [each.symbol for each in shown])
        return ValuedPositions(
            listed,
            [_valued(each, books.get(each.symbol), marks[each.symbol], method) for each in shown],
            is_all=len(shown) == len(listed.positions),
        )

    async def _agreeing(
        self, organization_id: OrganizationId, account_id: AccountId
    ) -> tuple[ListedPositions, dict[Symbol, Book]]:
        """Positions and books of the same trades; a book that still differs after READS_MAX reads is left out."""
        for _ in range(READS_MAX):
            listed = await self.lists.list_positions(organization_id, account_id, POSITIONS_MAX + 1)
            books = (await self.books(organization_id, account_id)).books
            agreeing = {
                each.symbol: books[each.symbol]
                for each in listed.positions
                if each.symbol in books and books[each.symbol].quantity == each.quantity
            }
            if len(agreeing) == len(listed.positions):
                break
        return listed, agreeing


def _valued(position: ListedPosition, book: Book | None, mark: Mark, method: CostMethod) -> ValuedPosition:
    valued = ValuedPosition(
        symbol=position.symbol,
        quantity=position.quantity,
        updated_at=position.updated_at,
        market_price=mark.price,
        market_price_at=mark.as_of,
        market_value=None if mark.price is None else _times(mark.price, position.quantity, mark.multiplier),
        currency=mark.currency,
    )
    if book is None:
        return valued
    unit_cost, total = book.cost_by(method), book.total
    cost = None if unit_cost is None else _times(unit_cost, mark.multiplier)
    worth = valued.market_value
    return replace(
        valued,
        cost=cost,
        average_cost=None if unit_cost is None else divided(unit_cost, position.quantity),
        unrealized=None if worth is None or cost is None else EXACT.subtract(worth, cost),
        realized=_times(total.realized(method), mark.multiplier),
        fees=total.fees,
        is_complete=not (total.unknown or total.without_fee),
    )


def _times(*numbers: Decimal) -> Decimal:
    product = Decimal(1)
    for number in numbers:
        product = EXACT.multiply(product, number)
    return product
