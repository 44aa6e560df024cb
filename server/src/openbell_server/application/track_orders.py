"""Broker reports → executions, positions, orders, settled actions and events, in one transaction per account."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final
from uuid import UUID

from openbell_server.application.account_log import log_action, log_order
from openbell_server.application.crash_points import crash_point
from openbell_server.application.ports.execution import (
    AccountTransaction,
    BrokerAccount,
    ExecutionStore,
    TrackedAction,
)
from openbell_server.application.ports.hints import Hints
from openbell_server.domain.action_lifecycle import PAST_DOOR, ActionState
from openbell_server.domain.action_outcomes import after_report
from openbell_server.domain.broker_orders import BrokerExecution, OrderReport
from openbell_server.domain.identifiers import IntentId, action_of
from openbell_server.domain.order_aggregate import apply_report
from openbell_server.domain.orders import OrderSide, exact_total

FORGOTTEN_ATTEMPT: Final = UUID(int=0)


@dataclass(frozen=True, slots=True)
class TrackOrders:
    """Applies what brokers report; the same report twice changes nothing."""

    store: ExecutionStore
    hints: Hints

    async def __call__(self, account: BrokerAccount, reports: Sequence[OrderReport]) -> list[OrderReport]:
        """Apply reports about one account; those that count fills we have not been told of come back."""
        incomplete = []
        async with self.store.account_transaction(account) as transaction:
            actions = [action_of(report.client_order_id) for report in reports]
            intents = await transaction.intents_of([action_id for action_id in actions if action_id is not None])
            histories: dict[IntentId, list[TrackedAction]] = {}
            for report, action_id in zip(reports, actions, strict=True):
                # An order that is not ours is not lost: it stays in the broker's books, where it came from.
                if action_id is None or action_id not in intents:
                    continue
                intent_id = intents[action_id]
                history = histories.get(intent_id) or await transaction.of_intents([intent_id])
                histories[intent_id] = history = await _apply(transaction, history, report)
                if report.filled_quantity > history[0].order.filled_quantity:
                    incomplete.append(report)
            crash_point("executor.inside_report")
        crash_point("executor.after_report")
        self.hints.events_were_written([account.account_id])
        return incomplete


async def _apply(
    transaction: AccountTransaction, history: list[TrackedAction], report: OrderReport
) -> list[TrackedAction]:
    """Write what one report says; the actions of the intent as they stand after it."""
    first = history[0]
    if first.state is ActionState.QUEUED:
        # The broker has what we never sent by our record: a restored or promoted database forgot the door.
        await transaction.open_doors([first.action_id], FORGOTTEN_ATTEMPT)
        history = [replace(first, state=ActionState.DISPATCHING), *history[1:]]
    unseen_ids = await transaction.add_executions(first.intent_id, report.executions)
    unseen = list({fill.execution_id: fill for fill in report.executions if fill.execution_id in unseen_ids}.values())
    # One command of an intent is in flight at a time.
    in_flight = next((a.replacement for a in history if a.replacement and a.state in PAST_DOOR), None)
    order = apply_report(first.order, report, unseen, in_flight)
    if unseen:
        await transaction.add_to_position(first.terms.symbol, _position_change(first.terms.order_side, unseen))
    if order != first.order:
        await transaction.save_order(first.intent_id, order)
    following = []
    for action in history:
        settled = after_report(action.action_type, action.state, order, report, action.replacement)
        if settled is not None:
            await transaction.save_action(action, *settled)
            log_action(transaction, action, *settled)
        following.append(replace(action, order=order, state=settled[0] if settled else action.state))
    if order != first.order:
        log_order(transaction, first, order)
    return following


def _position_change(side: OrderSide, fills: Sequence[BrokerExecution]) -> Decimal:
    filled = exact_total(fill.quantity for fill in fills)
    return filled if side is OrderSide.BUY else -filled
