"""What callers ask for: the accept step in memory, and a seeded mixture of creates, replaces and cancels."""

import asyncio
import random
from dataclasses import dataclass, field, replace
from decimal import Decimal

from openbell_server.application.ports.execution import BrokerAccount, OrderTerms
from openbell_server.domain.identifiers import ActionId, IntentId, Symbol
from openbell_server.domain.intents import ActionType
from openbell_server.domain.order_aggregate import Certainty, Order, Pending, Standing
from openbell_server.domain.orders import OrderSide, OrderType, RouteStrategy, Terms, TimeInForce
from simulation.memory_database import ActionRow, Book, DatabaseAway, Transaction
from simulation.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """How many intents, over what time, and how many of them are changed or cancelled."""

    intents: int = 50
    seconds: float = 20.0
    market: float = 0.5
    replaced: float = 0.4
    cancelled: float = 0.4


@dataclass(slots=True)
class Load:
    """Asks until everything was asked for."""

    world: World
    mixture: Mixture
    accounts: list[BrokerAccount]
    # What was accepted, in order.
    accepted: list[tuple[BrokerAccount, ActionId]] = field(default_factory=list)

    async def run(self) -> None:
        """Ask for all intents, each at its own time."""
        chance = self.world.chance("load")
        async with asyncio.TaskGroup() as tasks:
            for number in range(self.mixture.intents):
                at = chance.random() * self.mixture.seconds
                tasks.create_task(self._one(number, at, random.Random(f"{self.world.seed}/intent {number}")))

    async def _one(self, number: int, at: float, chance: random.Random) -> None:
        await asyncio.sleep(at)
        account = self.accounts[number % len(self.accounts)]
        is_market = chance.random() < self.mixture.market
        quantity = Decimal(chance.randint(1, 20))
        price = None if is_market else Decimal(chance.randint(1, 9))
        terms = Terms(quantity=quantity, limit_price=price, time_in_force=TimeInForce.DAY)
        intent_id = IntentId(self.world.new_id())
        side = chance.choice([OrderSide.BUY, OrderSide.SELL])
        kind = OrderType.MARKET if is_market else OrderType.LIMIT
        await self._ask(account, intent_id, ActionType.CREATE, terms, side, kind)
        if not is_market and chance.random() < self.mixture.replaced:
            await asyncio.sleep(chance.random() * chance.choice([0.1, 1.0, 10.0]))
            wanted = replace(terms, quantity=Decimal(chance.randint(1, 30)), limit_price=Decimal(chance.randint(1, 9)))
            await self._ask(account, intent_id, ActionType.REPLACE, wanted)
        if chance.random() < self.mixture.cancelled:
            await asyncio.sleep(chance.random() * chance.choice([0.05, 1.0, 10.0]))
            await self._ask(account, intent_id, ActionType.CANCEL)

    async def _ask(
        self,
        account: BrokerAccount,
        intent_id: IntentId,
        action_type: ActionType,
        terms: Terms | None = None,
        side: OrderSide = OrderSide.BUY,
        kind: OrderType = OrderType.LIMIT,
    ) -> None:
        """Ask, again while the database is away: whatever was recorded unnoticed is not recorded twice."""
        action_id = ActionId(self.world.new_id())
        while True:
            try:
                async with Transaction(self.world.database, account) as transaction:
                    book = transaction.book
                    if action_id in book.actions or not _is_allowed(book, intent_id, action_type, terms):
                        break
                    self._record(book, action_id, intent_id, action_type, terms)
                    if action_type is ActionType.CREATE:
                        assert terms is not None
                        book.orders[intent_id] = Order(terms=terms)
                        book.terms[intent_id] = OrderTerms(
                            symbol=Symbol("AAPL"),
                            order_side=side,
                            order_type=kind,
                            route_strategy=RouteStrategy.SMART,
                            client_reference_id=None,
                        )
                break
            except DatabaseAway:
                await asyncio.sleep(0.1)
        if action_id in self.world.database.books[account.account_id].actions:
            self.accepted.append((account, action_id))
            # With its row in truth; a hint may only come later, which the relay bears out.
            self.world.outbox.add(account)

    def _record(
        self, book: Book, action_id: ActionId, intent_id: IntentId, action_type: ActionType, terms: Terms | None
    ) -> None:
        known = book.intents.get(intent_id, ())
        now = self.world.clock()
        book.intents[intent_id] = (*known, action_id)
        book.actions[action_id] = ActionRow(
            action_id=action_id,
            intent_id=intent_id,
            seq=len(known) + 1,
            number=len(book.actions) + 1,
            action_type=action_type,
            queued_at=now,
            updated_at=now,
            replacement=terms if action_type is ActionType.REPLACE else None,
        )
        if action_type is not ActionType.CREATE:
            order = book.orders[intent_id]
            if order.pending is Pending.NONE or (
                order.pending is Pending.REPLACE and action_type is ActionType.CANCEL
            ):
                book.orders[intent_id] = replace(order, pending=Pending(action_type))


def _is_allowed(book: Book, intent_id: IntentId, action_type: ActionType, terms: Terms | None) -> bool:
    """Whether the accept step takes it."""
    if action_type is ActionType.CREATE:
        return True
    if intent_id not in book.intents:
        return False
    order = book.orders[intent_id]
    if order.standing is Standing.CLOSED:
        return False
    if action_type is ActionType.REPLACE:
        assert terms is not None
        is_unknown = order.certainty is Certainty.UNKNOWN and order.pending is Pending.NEW
        return not is_unknown and terms.quantity > order.filled_quantity
    rows = [book.actions[action_id] for action_id in book.intents[intent_id]]
    return not any(row.action_type is ActionType.CANCEL and row.settled_at is None for row in rows)
