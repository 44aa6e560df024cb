"""What comparing an account with its broker reads and writes, in memory."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from openbell_server.application.ports.account_transaction import HeldPositions, LastReconciliation
from openbell_server.domain.identifiers import ActionId, IntentId, Symbol
from openbell_server.domain.money.balances import Balances
from openbell_server.domain.orders.action_lifecycle import ActionState
from openbell_server.domain.orders.external_orders import ExternalOrder
from openbell_server.domain.orders.order_terms import exact_total
from openbell_server.domain.orders.positions import PositionCause
from simulation.memory_database import Move, Transaction


class ReconcilingTransaction(Transaction):
    """The part of AccountTransaction that reconciliation needs."""

    __slots__ = ()

    async def last_reconciliation(self) -> LastReconciliation:
        """How far the account was compared."""
        await self.statement()
        return LastReconciliation(len(self.book.events), self.book.reconciled_at, None)

    async def save_reconciliation(self, reconciled_at: datetime, event_no: int | None) -> None:
        """The broker's list was read up to a time; with an event, nothing is to be looked for until another one."""
        await self.statement()
        self.book.reconciled_at = reconciled_at
        if event_no is not None:
            self.book.reconciled_event = event_no

    async def forgotten_among(self, action_ids: Collection[ActionId]) -> set[ActionId]:
        """Those that a restored database forgot."""
        await self.statement()
        return {action_id for action_id in action_ids if action_id in self.book.forgotten}

    async def skipped_among(self, action_ids: Collection[ActionId]) -> set[ActionId]:
        """Those that were never sent and never will be."""
        await self.statement()
        known = [self.book.actions[action_id] for action_id in action_ids if action_id in self.book.actions]
        return {row.action_id for row in known if row.state is ActionState.SKIPPED}

    async def external_orders_among(self, broker_order_ids: Collection[str]) -> dict[str, ExternalOrder]:
        """Those that are kept, by the broker's ids."""
        await self.statement()
        return {key: self.book.external[key] for key in broker_order_ids if key in self.book.external}

    async def external_orders_named(self, client_order_ids: Collection[str]) -> list[ExternalOrder]:
        """Those that bear these ids of ours."""
        await self.statement()
        return [order for order in self.book.external.values() if order.client_order_id in client_order_ids]

    async def open_external_orders(self) -> list[ExternalOrder]:
        """Those that may still fill."""
        await self.statement()
        return [order for order in self.book.external.values() if order.is_open]

    async def save_external_order(self, order: ExternalOrder) -> None:
        """Keep an order that is not ours."""
        await self.statement()
        self.book.external[order.broker_order_id] = order

    async def set_candidates(self, action_id: ActionId, broker_order_ids: Sequence[str]) -> None:
        """Say which orders at the broker may be an action's."""
        await self.statement()
        self.book.candidates[action_id] = tuple(sorted(broker_order_ids))

    async def held_positions(self) -> HeldPositions:
        """What the account holds by our count."""
        await self.statement()
        return HeldPositions(self.book.positions_as_of, {**self.book.positions}, {**self.book.positions_moved_at})

    async def save_positions_as_of(self, as_of: datetime) -> None:
        """The positions are what the broker said at that time."""
        await self.statement()
        self.book.positions_as_of = as_of

    async def balances(self) -> Balances | None:
        """The balances stored last."""
        await self.statement()
        return self.book.balances

    async def save_balances(self, balances: Balances) -> bool:
        """Store them, unless newer ones are stored; no time is in the future."""
        await self.statement()
        now = self.database.clock()
        balances = replace(balances, as_of=min(balances.as_of, now))
        if self.book.balances is not None and self.book.balances.as_of > balances.as_of:
            return False
        self.book.balances, self.book.balances_read_at = balances, now
        return True

    async def keep_fill_price(self, symbol: Symbol, price: Decimal, executed_at: datetime) -> None:
        """Nothing here judges by prices."""
        del symbol, price, executed_at
        await self.statement()

    async def add_to_position(
        self,
        symbol: Symbol,
        change: Decimal,
        cause: PositionCause,
        intent_id: IntentId | None = None,
        *,
        value: Decimal | None = None,
        average_price: Decimal | None = None,
    ) -> Decimal:
        """What the account holds of the symbol after the change."""
        await self.statement()
        assert (intent_id is None) == (cause is not PositionCause.EXECUTION)
        if cause in {PositionCause.OPENING, PositionCause.UNEXPLAINED}:
            self.database.note(f"adjusts {symbol} by {change}: {cause}")
            self.book.adjustments.append((symbol, change, cause))
        if change:
            self.book.moves.append(Move(symbol, change, cause, value, average_price))
        self.book.positions[symbol] = exact_total([self.book.positions.get(symbol, Decimal(0)), change])
        self.book.positions_moved_at[symbol] = self.database.clock()
        return self.book.positions[symbol]

    async def halt(self, code: str, detail: str) -> bool:
        """Let no new order of the account pass; whether it was not so before."""
        await self.statement()
        self.database.note(f"halt {code} {detail}")
        was_halted, self.book.halt_code = self.book.halt_code is not None, self.book.halt_code or code
        return not was_halted
