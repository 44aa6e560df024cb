"""Enact halts on accounts: record them, cancel working orders, and compare the account with its broker."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from openbell_server.application.access.ports.account_records import AccountStore
from openbell_server.application.controls.cancel_by_control import CancelByControl, ControlCancel
from openbell_server.application.controls.ports.halts import HaltedOrder, HaltStore
from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.application.ports.hints import Hints
from openbell_server.domain.controls.findings import Comparison, Finding, Verdict
from openbell_server.domain.controls.rules import SwitchState
from openbell_server.domain.identifiers import AccountId

# The principal id of these cancels.
PRINCIPAL_ID: Final = "halt"
# Batches of orders that one sweep cancels per account; the next sweep finds the rest.
ROUNDS_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class EnactHalts:
    """A switch stops new sends by itself; this cancels what was sent before."""

    store: HaltStore
    accounts: AccountStore
    cancel: CancelByControl
    hints: Hints
    # `then` runs when an account has work, `compare` when it must be compared with its broker soon.
    then: Callable[[AccountId], None]
    compare: Callable[[BrokerAccount], None]

    async def sweep(self, slots: frozenset[int]) -> None:
        """Process accounts of these slots; concurrent sweeps record and cancel nothing twice."""
        for account, switch in await self.store.to_lift_across_organizations(slots):
            if await self.store.lift(account, switch):
                self._notify(account)
        for account, switch in await self.store.to_record_across_organizations(slots):
            if await self.store.record(account, switch):
                self._notify(account)
                self.compare(account)
        for account in await self.store.to_cancel_across_organizations(slots):
            await self._cancel_orders(account)
        for account in await self.store.to_compare_across_organizations(slots):
            if not await self.store.note_comparison(account):
                self.compare(account)

    def _notify(self, account: BrokerAccount) -> None:
        self.hints.events_were_written([account.account_id])
        self.then(account.account_id)

    async def _cancel_orders(self, where: BrokerAccount) -> None:
        for _ in range(ROUNDS_MAX):
            account = await self.accounts.find_account(where.organization_id, where.account_id)
            orders = await self.store.orders_to_cancel(where) if account is not None else []
            if account is None or not orders or not await self.cancel(account, [_cancel(order) for order in orders]):
                break


def _cancel(order: HaltedOrder) -> ControlCancel:
    switch = order.switch
    finding = Finding(
        code=switch.state,
        scope=switch.scope,
        verdict=Verdict.EXCEEDED,
        comparison=Comparison.EQUALS,
        limit=SwitchState.ACTIVE,
        observed=switch.state,
        control_version=switch.version,
    )
    return ControlCancel(
        principal_id=PRINCIPAL_ID,
        intent_id=order.intent_id,
        symbol=order.symbol,
        seen_at=order.seen_at,
        finding=finding,
        cause=f"{switch.scope} {switch.subject} {switch.version} {order.intent_id} {order.cancels}",
    )
