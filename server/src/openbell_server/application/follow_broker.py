"""Follow one broker: compare open orders with it at every connect, then apply its reports as they come."""

import asyncio
import contextlib
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from openbell_server.application.execute_action import CALL_SECONDS
from openbell_server.application.hold_slots import HoldSlots
from openbell_server.application.ports.broker import BrokerDefinition, BrokerSession
from openbell_server.application.ports.execution import BrokerAccount, ExecutionStore
from openbell_server.application.track_orders import TrackOrders
from openbell_server.domain.broker_orders import OrderReport
from openbell_server.domain.identifiers import AccountId, client_order_id

LOOK_UPS_AT_ONCE_MAX: Final = 8
REPORTS_AT_ONCE_MAX: Final = 256
REPORTS_WAITING_MAX: Final = 10_000
QUIET_SECONDS: Final = 0.25
ASK_SECONDS: Final = 1.0

Item = tuple[AccountId, OrderReport] | None
Answer = TypeVar("Answer")


@dataclass(slots=True)
class FollowBroker:
    """One broker's feed. No door opens in a slot whose orders were not compared with the broker since we took it."""

    definition: BrokerDefinition
    session: BrokerSession
    store: ExecutionStore
    track: TrackOrders
    slots: HoldSlots
    failures: list[Exception] = field(default_factory=list)
    _compared: set[int] = field(default_factory=set)
    _connects: int = 0
    # Orders the broker did not know, or told us less of than it counts: asked for again.
    _to_ask: dict[str, BrokerAccount] = field(default_factory=dict)

    def take_failures(self) -> list[Exception]:
        """What went wrong since this was last asked; the process logs it."""
        failures, self.failures = self.failures, []
        return failures

    def ready(self, slot: int) -> bool:
        """Whether commands for accounts of this slot may be sent now."""
        return slot in self._compared and slot in self.slots.held() and self.session.is_connected

    async def run(self) -> None:
        """Read the feed until cancelled; a full queue makes the broker wait, not us grow."""
        queue: asyncio.Queue[Item] = asyncio.Queue(REPORTS_WAITING_MAX)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._apply(queue))
            async for item in self.session.reports():
                if item is None:
                    self._connects += 1
                    self._compared.clear()
                await queue.put(item)

    async def _apply(self, queue: asyncio.Queue[Item]) -> None:
        asked_at = float("-inf")
        while True:
            items = await _next_items(queue)
            held = self.slots.held()
            self._compared &= held
            by_account: dict[AccountId, list[OrderReport]] = {}
            for account_id, report in (item for item in items if item is not None):
                by_account.setdefault(account_id, []).append(report)
            await _at_once([self._apply_account(account, reports) for account, reports in by_account.items()])
            now = asyncio.get_running_loop().time()
            if self.session.is_connected and now - asked_at >= ASK_SECONDS:
                asked_at = now
                await self._ask_again(held)
            if self.session.is_connected and held - self._compared:
                await self._compare(held - self._compared)

    async def _apply_account(self, account_id: AccountId, reports: Sequence[OrderReport]) -> None:
        try:
            account = await self.store.find_account_across_organizations(account_id)
            if account is None:
                return
            if account.slot not in self.slots.held():
                # What is not applied must be asked for, should the slot still be ours.
                self._compared.discard(account.slot)
                return
            for report in await self.track(account, reports):
                self._to_ask[report.client_order_id] = account
        except Exception as error:  # noqa: BLE001 - one account's trouble is not its neighbours'
            self.failures.append(error)
            self._compared.clear()

    async def _compare(self, slots: frozenset[int]) -> None:
        """Ask for every order the broker may have: what happened while nobody listened is learned here."""
        connects = self._connects
        orders = await self.store.open_orders_across_organizations(self.definition.name, slots)
        answered = await _at_once([self._ask(account, client_order_id(action_id)) for account, action_id in orders])
        failed = {account.slot for (account, _), answer in zip(orders, answered, strict=True) if not answer}
        # A feed that was cut meanwhile may have told what we did not ask for.
        if connects == self._connects:
            self._compared |= slots - failed

    async def _ask_again(self, held: frozenset[int]) -> None:
        """Ask for what was missing, as long as the order is open here and its slot is ours."""
        if self._to_ask:
            orders = await self.store.open_orders_across_organizations(self.definition.name, held)
            still_open = {client_order_id(action_id) for _, action_id in orders}
            self._to_ask = {name: account for name, account in self._to_ask.items() if name in still_open}
            await _at_once([self._ask(account, order_id) for order_id, account in self._to_ask.items()])

    async def _ask(self, account: BrokerAccount, order_id: str) -> bool:
        """Look an order up and apply it; whether the broker answered. What it could not tell now is asked again."""
        self._to_ask[order_id] = account
        try:
            async with asyncio.timeout(CALL_SECONDS):
                report = await self.session.find(account.account_id, order_id)
            if report is not None and not await self.track(account, [report]):
                self._to_ask.pop(order_id, None)
        except Exception as error:  # noqa: BLE001 - one order's trouble is not its neighbours'
            self.failures.append(error)
            return False
        return True


async def _next_items(queue: asyncio.Queue[Item]) -> list[Item]:
    """What has come; nothing after a moment of quiet, so that newly taken slots are compared in time."""
    items: list[Item] = []
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(QUIET_SECONDS):
            items.append(await queue.get())
    while not queue.empty() and len(items) < REPORTS_AT_ONCE_MAX:
        items.append(queue.get_nowait())
    return items


async def _at_once(calls: Sequence[Coroutine[None, None, Answer]]) -> list[Answer]:
    places = asyncio.Semaphore(LOOK_UPS_AT_ONCE_MAX)

    async def one(call: Coroutine[None, None, Answer]) -> Answer:
        async with places:
            return await call

    return await asyncio.gather(*(one(call) for call in calls))
