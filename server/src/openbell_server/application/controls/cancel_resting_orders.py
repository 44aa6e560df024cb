"""Cancel orders that rest longer than their symbol's time control allows, or whose trading window closed."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from openbell_server.application.access.ports.account_records import AccountStore
from openbell_server.application.controls.cancel_by_control import CancelByControl, ControlCancel
from openbell_server.application.controls.ports.calendars import SessionChangeStore
from openbell_server.application.controls.ports.symbol_controls import RestingOrder, RestingStore, WorkingOrder
from openbell_server.domain.access.accounts import TradingAccount
from openbell_server.domain.controls.findings import Finding
from openbell_server.domain.controls.kinds.completed import completed
from openbell_server.domain.controls.kinds.times import rules_of_symbol, why_closed
from openbell_server.domain.controls.symbol_controls import resting_finding
from openbell_server.domain.markets.calendars import MarketCalendars, SessionChange

# The principal ids of these cancels.
RESTED: Final = "max_resting_millis"
CLOSED: Final = "on_close"
# A cancel that did not end the order is repeated after this time, which doubles with each repeat.
AGAIN_AFTER: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class CancelRestingOrders:
    store: RestingStore
    accounts: AccountStore
    cancel: CancelByControl
    calendars: MarketCalendars
    changes: SessionChangeStore

    async def sweep(self, slots: frozenset[int]) -> None:
        """Cancel such orders of accounts in these slots; concurrent sweeps do not cancel an order twice."""
        for organization_id, account_id in await self.store.accounts_resting_across_organizations(slots):
            orders = await self.store.resting_too_long(organization_id, account_id)
            account = await self.accounts.find_account(organization_id, account_id) if orders else None
            if account is not None:
                await self.cancel(account, [_rested(order) for order in orders])
        closing = await self.store.accounts_closing_across_organizations(slots)
        changes = await self.changes.session_changes() if closing else ()
        for organization_id, account_id in closing:
            working = await self.store.orders_to_close(organization_id, account_id)
            account = await self.accounts.find_account(organization_id, account_id) if working else None
            if account is not None:
                cancels = [self._closed(account, order, changes) for order in working]
                await self.cancel(account, [cancel for cancel in cancels if cancel is not None])

    def _closed(
        self, account: TradingAccount, order: WorkingOrder, changes: tuple[SessionChange, ...]
    ) -> ControlCancel | None:
        if order.cancelled_at is not None and order.seen_at < order.cancelled_at + AGAIN_AFTER * 2 ** min(
            order.cancels - 1, _DOUBLINGS_MAX
        ):
            return None
        rules = rules_of_symbol(account.id, account.timezone, order.symbol, order.control)
        rules = [completed(rule, account.timezone, changes) for rule in rules]
        finding = why_closed(rules, self.calendars, order.seen_at)
        return None if finding is None else _cancel(order, CLOSED, finding)


# Limits the time between two cancels to less than a day.
_DOUBLINGS_MAX: Final = 10


def _rested(order: RestingOrder) -> ControlCancel:
    finding = resting_finding(order.max_resting_millis, order.rested_millis, order.control_version)
    return _cancel(order, RESTED, finding)


def _cancel(order: RestingOrder | WorkingOrder, principal_id: str, finding: Finding) -> ControlCancel:
    return ControlCancel(
        principal_id=principal_id,
        intent_id=order.intent_id,
        symbol=order.symbol,
        seen_at=order.seen_at,
        cause=f"{order.intent_id} {order.cancels}",
        finding=finding,
    )
