"""Follow one broker: compare open orders with it at every connect, then apply its reports as they come."""

import asyncio
import contextlib
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Final

from openbell_server.application.execute_action import CALL_SECONDS
from openbell_server.application.hold_slots import HoldSlots
from openbell_server.application.ports.broker import BrokerDefinition, BrokerSession
from openbell_server.application.ports.execution import BrokerAccount, ExecutionStore
from openbell_server.application.track_orders import TrackOrders
from openbell_server.domain.broker_orders import OrderReport
from openbell_server.domain.identifiers import AccountId, ActionId, client_order_id

LOOK_UPS_AT_ONCE_MAX: Final = 8
REPORTS_AT_ONCE_MAX: Final = 256
REPORTS_WAITING_MAX: Final = 10_000
QUIET_SECONDS: Final = 0.25


@dataclass(slots=True)
class FollowBroker:
    """One broker's feed. No door opens in a slot whose orders were not compared with the broker since we took it."""

    definition: BrokerDefinition
    session: BrokerSession
    store: ExecutionStore
    track: TrackOrders
    slots: HoldSlots
    _compared: set[int] = field(default_factory=set)

    def ready(self, slot: int) -> bool:
        """Whether commands for accounts of this slot may be sent now."""
        return slot in self._compared and slot in self.slots.held() and self.session.is_connected

    async def run(self) -> None:
        """Read the feed until cancelled; a full queue makes the broker wait, not us grow."""
        queue: asyncio.Queue[tuple[AccountId, OrderReport] | None] = asyncio.Queue(REPORTS_WAITING_MAX)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._apply(queue))
            async for item in self.session.reports():
                await queue.put(item)

    async def _apply(self, queue: asyncio.Queue[tuple[AccountId, OrderReport] | None]) -> None:
        while True:
            items = await _next_items(queue)
            held = self.slots.held()
            # What was compared before a gap in the feed, or before the slot was another's, counts no more.
            self._compared &= held if None not in items else set()
            by_account: dict[AccountId, list[OrderReport]] = {}
            for item in items:
                if item is not None:
                    by_account.setdefault(item[0], []).append(item[1])
            await _at_once([self._apply_account(account, reports) for account, reports in by_account.items()])
            if self.session.is_connected and held - self._compared:
                await self._compare(held - self._compared)

    async def _apply_account(self, account_id: AccountId, reports: Sequence[OrderReport]) -> None:
        account = await self.store.find_account_across_organizations(account_id)
        if account is not None and account.slot in self.slots.held():
            for report in await self.track(account, reports):
                await self._catch_up(account, report.client_order_id)

    async def _compare(self, slots: frozenset[int]) -> None:
        """Ask for every order the broker may have: what happened while nobody listened is learned here."""
        orders = await self.store.open_orders_across_organizations(self.definition.name, slots)
        await _at_once([self._compare_order(account, action_id) for account, action_id in orders])
        self._compared |= slots

    async def _compare_order(self, account: BrokerAccount, action_id: ActionId) -> None:
        await self._catch_up(account, client_order_id(action_id))

    async def _catch_up(self, account: BrokerAccount, order_id: str) -> None:
        async with asyncio.timeout(CALL_SECONDS):
            report = await self.session.find(account.account_id, order_id)
        if report is not None:
            await self.track(account, [report])


async def _next_items(
    queue: asyncio.Queue[tuple[AccountId, OrderReport] | None],
) -> list[tuple[AccountId, OrderReport] | None]:
    """What has come; nothing after a moment of quiet, so that newly taken slots are compared in time."""
    items: list[tuple[AccountId, OrderReport] | None] = []
    with contextlib.suppress(TimeoutError):
        items.append(await asyncio.wait_for(queue.get(), QUIET_SECONDS))
    while not queue.empty() and len(items) < REPORTS_AT_ONCE_MAX:
        items.append(queue.get_nowait())
    return items


async def _at_once(calls: Sequence[Coroutine[None, None, None]]) -> None:
    places = asyncio.Semaphore(LOOK_UPS_AT_ONCE_MAX)

    async def one(call: Coroutine[None, None, None]) -> None:
        async with places:
            await call

    await asyncio.gather(*(one(call) for call in calls))
