"""Broker reports → executions, positions, orders, settled actions and events, in one transaction per account."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from openbell_server.application.account_log import log_action, log_order
from openbell_server.application.ports.execution import (
    AccountTransaction,
    BrokerAccount,
    ExecutionStore,
    TrackedAction,
)
from openbell_server.application.ports.hints import Hints
from openbell_server.domain.action_outcomes import after_report
from openbell_server.domain.broker_orders import BrokerExecution, OrderReport
from openbell_server.domain.identifiers import action_of
from openbell_server.domain.order_aggregate import Order, apply_report
from openbell_server.domain.orders import OrderSide


@dataclass(frozen=True, slots=True)
class TrackOrders:
    """Applies what brokers report; the same report twice changes nothing."""

    store: ExecutionStore
    hints: Hints

    async def __call__(self, account: BrokerAccount, reports: Sequence[OrderReport]) -> list[OrderReport]:
        """Apply reports about one account; those that count fills we have not been told of come back."""
        incomplete = []
        async with self.store.account_transaction(account) as transaction:
            actions = {report: action_of(report.client_order_id) for report in reports}
            intents = await transaction.intents_of([a for a in actions.values() if a is not None])
            for report, action_id in actions.items():
                # An order that is not ours is not lost: it stays in the broker's books, where it came from.
                if action_id is not None and action_id in intents:
                    history = await transaction.of_intents([intents[action_id]])
                    order = await _apply(transaction, history, report)
                    if report.filled_quantity > order.filled_quantity:
                        incomplete.append(report)
        self.hints.events_were_written([account.account_id])
        return incomplete


async def _apply(transaction: AccountTransaction, history: list[TrackedAction], report: OrderReport) -> Order:
    first = history[0]
    unseen_ids = await transaction.add_executions(first.intent_id, report.executions)
    unseen = [fill for fill in report.executions if fill.execution_id in unseen_ids]
    order = apply_report(first.order, report, unseen)
    if unseen:
        await transaction.add_to_position(first.terms.symbol, _position_change(first.terms.order_side, unseen))
    if order != first.order:
        await transaction.save_order(first.intent_id, order)
    for action in history:
        settled = after_report(action.action_type, action.state, order, report)
        if settled is not None:
            await transaction.save_action(action, *settled)
            log_action(transaction, action, *settled)
    if order != first.order:
        log_order(transaction, first, order)
    return order


def _position_change(side: OrderSide, fills: Sequence[BrokerExecution]) -> Decimal:
    filled = sum((fill.quantity for fill in fills), Decimal(0))
    return filled if side is OrderSide.BUY else -filled
