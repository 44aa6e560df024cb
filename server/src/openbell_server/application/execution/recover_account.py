"""After a database restore, import the orders that the database lost from the broker, before anything is sent."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from openbell_server.application.execution.import_external_orders import import_orders
from openbell_server.application.execution.ports import ExecutionStore
from openbell_server.application.execution.track_orders import TrackOrders
from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.application.ports.broker import BrokerCapabilities, BrokerSession
from openbell_server.domain.identifiers import action_of
from openbell_server.domain.orders.broker_reports import OrderReport

LIST_SECONDS: Final = 30.0
REPORTS_AT_ONCE_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class RecoverAccount:
    store: ExecutionStore
    track: TrackOrders

    async def __call__(self, account: BrokerAccount, session: BrokerSession, capabilities: BrokerCapabilities) -> bool:
        """List every order since before the backup; returns whether the account's hold ended."""
        async with self.store.account_transaction(account) as transaction:
            hold, now = transaction.hold, transaction.now
        if hold is None:
            return True
        if hold.began_at is None or hold.look_back_to is None:
            return False
        # Before that, an order sent just before the restore may not be listed yet.
        if now < hold.began_at + timedelta(seconds=capabilities.settle_seconds):
            return False
        async with asyncio.timeout(LIST_SECONDS):
            reports = await session.orders_since(account.account_id, hold.look_back_to)
        unmatched: list[OrderReport] = []
        for first in range(0, len(reports), REPORTS_AT_ONCE_MAX):
            await self.track(account, reports[first : first + REPORTS_AT_ONCE_MAX], unmatched)
        ids = [action_of(report.client_order_id) for report in reports if report.client_order_id is not None]
        ours = [action_id for action_id in ids if action_id is not None]
        async with self.store.account_transaction(account) as transaction:
            if transaction.hold != hold:
                return False
            known = await transaction.intents_of(ours)
            await transaction.add_forgotten_orders([action_id for action_id in ours if action_id not in known])
            # No command may ever refer to them, but their fills must count.
            named = [report for report in unmatched if report.client_order_id is not None]
            await import_orders(transaction, named)
            await transaction.end_hold(hold)
        return True
