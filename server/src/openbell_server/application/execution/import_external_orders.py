"""Record external orders and their fills; halt an account whose broker has more of our orders than we sent."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from decimal import Decimal

from openbell_server.application.events.account_log import log_external_order
from openbell_server.application.ports.account_transaction import AccountTransaction
from openbell_server.domain.orders.broker_reports import OrderReport
from openbell_server.domain.orders.external_orders import (
    ORDERS_EXCEED_DOORS,
    ExternalOrder,
    ExternalStatus,
    merge_report,
    position_change,
    summarize,
    value_of_change,
)
from openbell_server.domain.orders.positions import PositionCause


async def import_orders(transaction: AccountTransaction, reports: Sequence[OrderReport]) -> int:
    """Record external orders; returns how many were new or changed."""
    known = await transaction.external_orders_among([report.broker_order_id for report in reports])
    news = 0
    for report in reports:
        if report.description is None:
            continue
        before = known.get(report.broker_order_id)
        after = merge_report(before, report, report.description)
        if after != before:
            known[report.broker_order_id] = after
            await _keep(transaction, before, after, report)
            news += 1
    return news


async def release_orders(transaction: AccountTransaction, client_order_ids: Collection[str]) -> None:
    """Mark external orders as adopted by an intent, which counts their fills from now on."""
    for order in await transaction.external_orders_named(client_order_ids):
        if order.status is not ExternalStatus.ADOPTED:
            adopted = replace(order, status=ExternalStatus.ADOPTED, filled_quantity=Decimal(0), filled_value=Decimal(0))
            await _keep(transaction, order, adopted)


async def stop_account(transaction: AccountTransaction, excesses: Collection[str]) -> str | None:
    """Halt all commands but cancels; returns the reason if the account was not halted before."""
    why = summarize(excesses)
    return why if await transaction.halt(ORDERS_EXCEED_DOORS, why) else None


async def _keep(
    transaction: AccountTransaction,
    before: ExternalOrder | None,
    after: ExternalOrder,
    report: OrderReport | None = None,
) -> None:
    await transaction.save_external_order(after)
    change = position_change(before, after)
    if change:
        value = value_of_change(before, after, report)
        await transaction.add_to_position(after.symbol, change, PositionCause.EXTERNAL_ORDER, value=value)
    log_external_order(transaction, after)
