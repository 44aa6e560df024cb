"""Follow one broker: compare open orders with it at every connect, then apply its reports as they come."""

import asyncio
import contextlib
from collections.abc import Collection, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from openbell_server.application.execute_action import CALL_SECONDS
from openbell_server.application.hold_slots import HoldSlots
from openbell_server.application.ports.broker import BrokerDefinition, BrokerSession
from openbell_server.application.ports.execution import BrokerAccount, ExecutionStore
from openbell_server.application.track_orders import TrackOrders
from openbell_server.domain.broker_orders import OrderName, OrderReport
from openbell_server.domain.identifiers import AccountId, ActionId, client_order_id

LOOK_UPS_AT_ONCE_MAX: Final = 8
REPORTS_AT_ONCE_MAX: Final = 256
REPORTS_WAITING_MAX: Final = 10_000
QUIET_SECONDS: Final = 0.25
ASK_SECONDS: Final = 1.0
# An account that stays untold is asked for in every second, fourth, eighth round.
ASK_ROUNDS_MAX: Final = 3

Item = tuple[AccountId, OrderReport] | None
Answer = TypeVar("Answer")


class SignIns(Protocol):
    """Who is signed in at the broker."""

    async def begin(self, broker: str, slots: Collection[int]) -> None:
        """Begin to sign in the accounts of slots that were taken, or whose broker was out of reach."""

    def is_pending(self, account_id: AccountId) -> bool:
        """Whether the account must be signed in and is not yet, so that asking is no use."""

    @property
    def changes(self) -> int:
        """Another number whenever a broker may tell about an account what it did not tell before."""


@dataclass(slots=True)
class FollowBroker:
    """One broker's feed. No door opens for an account whose orders were not compared since we took it."""

    definition: BrokerDefinition
    session: BrokerSession
    store: ExecutionStore
    track: TrackOrders
    slots: HoldSlots
    sessions: SignIns
    failures: list[Exception] = field(default_factory=list)
    _compared: set[int] = field(default_factory=set)
    # Accounts of compared slots with an order that the broker has not told us about, and how often it did not.
    _behind: dict[AccountId, int] = field(default_factory=dict)
    _rounds: int = 0
    _changes: int = 0
    _connects: int = 0
    # Orders the broker did not know, or told us less of than it counts: asked for again.
    _to_ask: dict[str, BrokerAccount] = field(default_factory=dict)

    def take_failures(self) -> list[Exception]:
        """What went wrong since this was last asked; the process logs it."""
        failures, self.failures = self.failures, []
        return failures

    @property
    def compared(self) -> frozenset[int]:
        """The slots that were compared with the broker since they are ours and its feed stands."""
        return frozenset(self._compared) if self.session.is_connected else frozenset()

    def ready(self, account: BrokerAccount) -> bool:
        """Whether commands for this account may be sent now; one that the broker keeps silent about stops no other."""
        is_known = account.account_id not in self._behind and not self.sessions.is_pending(account.account_id)
        is_ours = account.slot in self._compared and account.slot in self.slots.held()
        return is_known and is_ours and self.session.is_connected

    async def run(self) -> None:
        """Read the feed until cancelled; a full queue makes the broker wait, not us grow."""
        queue: asyncio.Queue[Item] = asyncio.Queue(REPORTS_WAITING_MAX)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._apply(queue))
            tasks.create_task(self._ask_again())
            async for item in self.session.reports():
                if item is None:
                    self._connects += 1
                    self._compared.clear()
                    self._behind.clear()
                await queue.put(item)

    async def _apply(self, queue: asyncio.Queue[Item]) -> None:
        while True:
            items = await _next_items(queue)
            held = self.slots.held()
            self._compared &= held
            by_account: dict[AccountId, list[OrderReport]] = {}
            for account_id, report in (item for item in items if item is not None):
                by_account.setdefault(account_id, []).append(report)
            await _at_once([self._apply_account(account, reports) for account, reports in by_account.items()])
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
                if report.client_order_id is not None:
                    self._to_ask[report.client_order_id] = account
        except Exception as error:  # noqa: BLE001 - one account's trouble is not its neighbours'
            self.failures.append(error)
            self._compared.clear()

    async def _compare(self, slots: frozenset[int]) -> None:
        """Ask for every order the broker may have: what happened while nobody listened is learned here."""
        connects = self._connects
        await self.sessions.begin(self.definition.name, slots)
        orders = await self.store.open_orders_across_organizations(self.definition.name, slots)
        behind = await self._untold(orders)
        # A feed that was cut meanwhile may have told what we did not ask for.
        if connects == self._connects:
            self._behind |= dict.fromkeys(behind, 0)
            self._compared |= slots

    async def _untold(self, orders: Sequence[tuple[BrokerAccount, ActionId]]) -> set[AccountId]:
        """Ask for these orders; the accounts with one that the broker did not tell about."""
        untold = {account.account_id for account, _ in orders if self.sessions.is_pending(account.account_id)}
        asked = [(account, action_id) for account, action_id in orders if account.account_id not in untold]
        answered = await _at_once([self._ask(account, client_order_id(action_id)) for account, action_id in asked])
        return untold | {account.account_id for (account, _), told in zip(asked, answered, strict=True) if not told}

    async def _ask_again(self) -> None:
        """Beside the reports, for as long as they are read: ask for what was missing while its order is open here."""
        while True:
            await asyncio.sleep(ASK_SECONDS)
            if self.session.is_connected and (self._to_ask or self._behind):
                await self._catch_up()

    async def _catch_up(self) -> None:
        connects, to_ask = self._connects, [*self._to_ask]
        orders = await self.store.open_orders_across_organizations(self.definition.name, self.slots.held())
        for ended in {*to_ask} - {client_order_id(action_id) for _, action_id in orders}:
            self._to_ask.pop(ended, None)
        due = self._due()
        missing = [
            (account, action_id)
            for account, action_id in orders
            if account.account_id in due
            or (account.account_id not in self._behind and client_order_id(action_id) in self._to_ask)
        ]
        untold = await self._untold(missing)
        if connects == self._connects:
            for account_id in due - untold:
                self._behind.pop(account_id, None)
            self._behind |= {account_id: self._behind.get(account_id, 0) + 1 for account_id in due & untold}

    def _due(self) -> set[AccountId]:
        """Accounts to be asked for as a whole: ever more rarely, until something changes that may make them known."""
        self._rounds += 1
        is_new, self._changes = self.sessions.changes != self._changes, self.sessions.changes
        return {
            account_id
            for account_id, failures in self._behind.items()
            if (is_new or self._rounds % 2 ** min(failures, ASK_ROUNDS_MAX) == 0)
            and not self.sessions.is_pending(account_id)
        }

    async def _ask(self, account: BrokerAccount, order_id: str) -> bool:
        """Look an order up and apply it; whether the broker answered. What it could not tell now is asked again."""
        self._to_ask[order_id] = account
        try:
            async with asyncio.timeout(CALL_SECONDS):
                report = await self.session.find(account.account_id, OrderName(client_order_id=order_id))
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
