"""Keep orders that are not ours and count their fills; stop an account whose broker has more of ours than we sent."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from decimal import Decimal

from openbell_server.application.account_log import log_external_order
from openbell_server.application.ports.execution import AccountTransaction
from openbell_server.domain.broker_orders import OrderReport
from openbell_server.domain.external_orders import (
    ORDERS_EXCEED_DOORS,
    ExternalOrder,
    ExternalStatus,
    in_few_words,
    position_change,
    told_of,
)


async def import_orders(transaction: AccountTransaction, reports: Sequence[OrderReport]) -> int:
    """Keep orders as their broker tells and describes them; of how many that was news."""
    known = await transaction.external_orders_among([report.broker_order_id for report in reports])
    news = 0
    for report in reports:
        if report.description is None:
            continue
        before = known.get(report.broker_order_id)
        after = told_of(before, report, report.description)
        if after != before:
            known[report.broker_order_id] = after
            await _keep(transaction, before, after)
            news += 1
    return news


async def release_orders(transaction: AccountTransaction, client_order_ids: Collection[str]) -> None:
    """Let go of orders that are an intent's from now on: their fills are counted there."""
    if await transaction.last_reconciliation() is None:
        return
    for order in await transaction.external_orders_named(client_order_ids):
        if order.status is not ExternalStatus.ADOPTED:
            adopted = replace(order, status=ExternalStatus.ADOPTED, filled_quantity=Decimal(0))
            await _keep(transaction, order, adopted)


async def stop_account(transaction: AccountTransaction, excesses: Collection[str]) -> str | None:
    """Let nothing but cancels pass; why, where that is new."""
    why = in_few_words(excesses)
    # A schema of before has no place for it: whoever watches is told all the same.
    if await transaction.last_reconciliation() is None or await transaction.halt(ORDERS_EXCEED_DOORS, why):
        return why
    return None


async def _keep(transaction: AccountTransaction, before: ExternalOrder | None, after: ExternalOrder) -> None:
    await transaction.save_external_order(after)
    change = position_change(before, after)
    if change:
        await transaction.add_to_position(after.symbol, change)
    log_external_order(transaction, after)
