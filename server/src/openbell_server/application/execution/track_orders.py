"""Apply broker reports to executions, positions, orders, actions and events, in one transaction per account."""

from collections.abc import Container, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final
from uuid import UUID

from openbell_server.application.crash_points import crash_point
from openbell_server.application.events.account_log import log_action, log_order, log_trade
from openbell_server.application.execution.import_external_orders import stop_account
from openbell_server.application.execution.ports import ExecutionStore
from openbell_server.application.ports.account_transaction import AccountTransaction, BrokerAccount, TrackedAction
from openbell_server.application.ports.hints import Hints
from openbell_server.domain.identifiers import AccountId, IntentId, OrganizationId, Symbol, action_of
from openbell_server.domain.orders.action_lifecycle import ActionState
from openbell_server.domain.orders.action_outcomes import with_doubt
from openbell_server.domain.orders.broker_reports import ExecutionChange, OrderReport
from openbell_server.domain.orders.broker_trades import Trade, recorded, recorded_and_changed, tallies
from openbell_server.domain.orders.intent_reports import after_report_of_intent
from openbell_server.domain.orders.order_aggregate import FillsTotalled, Order
from openbell_server.domain.orders.order_reports import counted_anew, counted_with, reported_executions, unseen_changes
from openbell_server.domain.orders.order_terms import EXACT, OrderSide
from openbell_server.domain.orders.positions import PositionCause

FORGOTTEN_ATTEMPT: Final = UUID(int=0)


@dataclass(frozen=True, slots=True)
class TrackOrders:
    """Applies reports; a repeated report changes nothing."""

    store: ExecutionStore
    hints: Hints
    # Accounts that were halted, and why; the process logs and clears them.
    halts: list[tuple[AccountId, str]] = field(default_factory=list)
    # Symbols whose price a rule needs: there a fill is stored as a price.
    priced: Container[tuple[OrganizationId, str, Symbol]] = frozenset()
    # Accounts with a reported fill or a reconciliation since their balances were read.
    moved: MutableMapping[AccountId, BrokerAccount] = field(default_factory=dict)

    async def __call__(
        self, account: BrokerAccount, reports: Sequence[OrderReport], unmatched: list[OrderReport] | None = None
    ) -> list[OrderReport]:
        """Apply reports about one account; returns those that count fills without executions.

        Reports about orders that are not on record are added to unmatched.
        """
        incomplete, why = [], None
        async with self.store.account_transaction(account) as transaction:
            intents = await intents_of_reports(transaction, reports)
            histories: dict[IntentId, list[TrackedAction]] = {}
            for report, intent_id in zip(reports, intents, strict=True):
                if intent_id is None:
                    if unmatched is not None:
                        unmatched.append(report)
                    continue
                history = histories.get(intent_id) or await transaction.of_intents([intent_id])
                if history[0].state is ActionState.QUEUED and transaction.hold is None:
                    # No restore explains a lost door here: another sender uses our ids.
                    excess = (
                        f"order {report.broker_order_id} belongs to action {history[0].action_id}, which was never sent"
                    )
                    why = await stop_account(transaction, [excess]) or why
                histories[intent_id] = history = await apply_report(transaction, history, report)
                await self._price(transaction, account, history[0].terms.symbol, report)
                if report.filled_quantity > history[0].order.filled_quantity:
                    incomplete.append(report)
            crash_point("executor.inside_report")
        crash_point("executor.after_report")
        if why is not None:
            self.halts.append((account.account_id, why))
        self.hints.events_were_written([account.account_id])
        return incomplete

    async def _price(
        self, transaction: AccountTransaction, account: BrokerAccount, symbol: Symbol, report: OrderReport
    ) -> None:
        if report.executions and (account.organization_id, account.broker, symbol) in self.priced:
            newest = max(report.executions, key=lambda fill: fill.executed_at)
            if newest.price > 0:
                await transaction.keep_fill_price(symbol, newest.price, newest.executed_at)


async def intents_of_reports(transaction: AccountTransaction, reports: Sequence[OrderReport]) -> list[IntentId | None]:
    """The intent of each report, by our id where the broker has it, otherwise by the broker's id."""
    actions = [None if report.client_order_id is None else action_of(report.client_order_id) for report in reports]
    ours = await transaction.intents_of([action_id for action_id in actions if action_id is not None])
    nameless = [report.broker_order_id for report in reports if report.client_order_id is None]
    named = await transaction.intents_of_broker_orders(nameless) if nameless else {}
    return [
        ours.get(action_id) if action_id is not None else named.get(report.broker_order_id)
        for report, action_id in zip(reports, actions, strict=True)
    ]


async def apply_report(
    transaction: AccountTransaction, history: list[TrackedAction], report: OrderReport
) -> list[TrackedAction]:
    """Record one report; returns the intent's actions after it."""
    first = history[0]
    if first.state is ActionState.QUEUED:
        # The broker has an order that our record never sent: a restored or promoted database lost the door.
        await transaction.open_doors([first.action_id], FORGOTTEN_ATTEMPT)
        history = [replace(first, state=ActionState.DISPATCHING), *history[1:]]
    counted, news, trades = await _count(transaction, first, report)
    reported = after_report_of_intent(first.order, history, report, counted, news)
    order = reported.order
    await _book(transaction, first, order, trades)
    following = []
    for action, settlement in zip(history, reported.settlements, strict=True):
        state = action.state
        if settlement is not None and settlement.state is not None:
            state = settlement.state
            await transaction.save_action(action, state, settlement.reason)
            log_action(transaction, action, state, settlement.reason)
        following.append(action if state is action.state else replace(action, state=state))
    # A cancel may have been sent before the order was reported.
    order = with_doubt(order, [(action.action_type, action.state) for action in following])
    if order != first.order:
        await transaction.save_order(first, order)
    if order != first.order or reported.notices:
        log_order(transaction, first, order, notices=reported.notices)
    return [action if action.order is order else replace(action, order=order) for action in following]


async def _book(transaction: AccountTransaction, action: TrackedAction, order: Order, trades: Sequence[Trade]) -> None:
    """Change the position by the order's new or changed executions, and log each trade."""
    change = EXACT.subtract(order.filled_quantity, action.order.filled_quantity)
    if not change and not trades:
        return
    signed = 1 if action.terms.order_side is OrderSide.BUY else -1
    position = await transaction.add_to_position(
        action.terms.symbol, EXACT.multiply(signed, change), PositionCause.EXECUTION, action.intent_id
    )
    for trade, tally in zip(trades, tallies(action.order, order, trades, signed, position), strict=True):
        log_trade(transaction, action, order, trade, tally)


async def _count(
    transaction: AccountTransaction, action: TrackedAction, report: OrderReport
) -> tuple[FillsTotalled, list[ExecutionChange], list[Trade]]:
    """The total of all executions, each counted once; the changes that are new; and the trades to log."""
    reported = reported_executions(action.order, report, transaction.now)
    unseen_ids = await transaction.add_executions(action.intent_id, reported)
    unseen = {fill.execution_id: fill for fill in reported if fill.execution_id in unseen_ids}
    if not report.changes and not action.order.executions_changed:
        return counted_with(action.order, unseen.values()), [], recorded(unseen.values())
    executions, known = await transaction.executions_of(action.intent_id)
    news = unseen_changes(known, report.changes)
    if news:
        await transaction.add_execution_changes(action.intent_id, news)
    return counted_anew(executions, [*known, *news]), news, recorded_and_changed(unseen, executions, known, news)
