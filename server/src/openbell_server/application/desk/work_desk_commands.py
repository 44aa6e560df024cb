"""Work off desk commands: cancel their orders until each has ended, then close positions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from openbell_server.application.access.ports.account_records import AccountStore
from openbell_server.application.controls.cancel_by_control import CancelByControl, ControlCancel
from openbell_server.application.desk.place_closing_order import PlaceClosingOrder
from openbell_server.application.desk.ports import Closing, DeskWorkStore, OrderToCancel
from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.domain.orders.desk_commands import End, Wait, next_step

# Batches of orders that one sweep cancels per account; the next sweep finds the rest.
ROUNDS_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class WorkDeskCommands:
    store: DeskWorkStore
    accounts: AccountStore
    cancel: CancelByControl
    place: PlaceClosingOrder
    # Reports an error that concerns one account, so that the others go on.
    failed: Callable[[BrokerAccount, Exception], None]

    async def sweep(self, slots: frozenset[int]) -> None:
        """Process accounts of these slots; concurrent sweeps cancel and place nothing twice."""
        for account in await self.store.accounts_with_desk_commands_across_organizations(slots):
            try:
                await self._work(account)
            except Exception as error:  # noqa: BLE001 - it is reported, and the next sweep tries again
                self.failed(account, error)

    async def _work(self, where: BrokerAccount) -> None:
        for _ in range(ROUNDS_MAX):
            account = await self.accounts.find_account(where.organization_id, where.account_id)
            orders = await self.store.orders_to_cancel(where) if account is not None else []
            if account is None or not orders or not await self.cancel(account, [_cancel(order) for order in orders]):
                break
        await self.store.end_cancels(where)
        for closing in await self.store.closings(where):
            await self._close(where, closing)

    async def _close(self, where: BrokerAccount, closing: Closing) -> None:
        step = next_step(closing.facts)
        if not isinstance(step, End | Wait):
            step = await self.place(where, closing)
        if isinstance(step, End):
            await self.store.end(where, closing.id, step)
        elif step.reason != closing.facts.waits_for:
            await self.store.wait(where, closing.id, step.reason)


def _cancel(order: OrderToCancel) -> ControlCancel:
    return ControlCancel(
        principal_id=f"desk_command:{order.desk_command_id}",
        intent_id=order.intent_id,
        symbol=order.symbol,
        seen_at=order.seen_at,
        cause=f"{order.intent_id} {order.cancels}",
    )
