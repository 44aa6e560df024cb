"""After a restore: learn from an account's broker what our record forgot, before anything is sent."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from openbell_server.application.import_orders import import_orders
from openbell_server.application.ports.broker import BrokerCapabilities, BrokerSession
from openbell_server.application.ports.execution import BrokerAccount, ExecutionStore
from openbell_server.application.track_orders import TrackOrders
from openbell_server.domain.broker_orders import OrderReport
from openbell_server.domain.identifiers import action_of

LIST_SECONDS: Final = 30.0
REPORTS_AT_ONCE_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class RecoverAccount:
    """Ends the hold of one account."""

    store: ExecutionStore
    track: TrackOrders

    async def __call__(self, account: BrokerAccount, session: BrokerSession, capabilities: BrokerCapabilities) -> bool:
        """Ask for every order since before the copy was made; whether the account may trade again."""
        async with self.store.account_transaction(account) as transaction:
            hold, now = transaction.hold, transaction.now
        if hold is None:
            return True
        if hold.began_at is None or hold.look_back_to is None:
            return False
        # Before that, an order sent by an executor of the lost past may still be on its way.
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
            # Nobody may ever ask for them again, and what they filled counts all the same.
            if await transaction.last_reconciliation() is not None:
                named = [report for report in unmatched if report.client_order_id is not None]
                await import_orders(transaction, named)
            await transaction.end_hold(hold)
        return True
