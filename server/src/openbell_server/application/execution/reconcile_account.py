"""Reconcile an account with its broker: apply missed reports, import external orders, halt on unexplained orders."""

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from openbell_server.application.execution.adopt_broker_positions import TakePositions
from openbell_server.application.execution.execute_action import CALL_SECONDS
from openbell_server.application.execution.import_external_orders import import_orders, stop_account
from openbell_server.application.execution.ports import ExecutionStore
from openbell_server.application.execution.track_orders import TrackOrders, intents_of_reports
from openbell_server.application.ports.account_transaction import (
    AccountTransaction,
    BrokerAccount,
    LastReconciliation,
    TrackedAction,
)
from openbell_server.application.ports.broker import BrokerCapabilities, BrokerSession
from openbell_server.domain.identifiers import AccountId, ActionId, IntentId
from openbell_server.domain.markets.instruments import BrokerPosition
from openbell_server.domain.orders.action_lifecycle import PAST_DOOR, SETTLED, ActionState
from openbell_server.domain.orders.broker_guarantees import LookUp
from openbell_server.domain.orders.broker_reports import OrderName, OrderReport
from openbell_server.domain.orders.external_orders import excess, own_action
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_aggregate import Standing
from openbell_server.domain.orders.order_reports import changes_nothing

LIST_SECONDS: Final = 30.0
# The broker's clock may differ from ours, and its list may lag.
OVERLAP: Final = timedelta(minutes=5)
# Accounts whose last list is kept.
LISTS_KEPT_MAX: Final = 10_000
# How long after an order's end its fills may still be reported.
LATE: Final = timedelta(days=1)
REPORTS_AT_ONCE_MAX: Final = 200
LOOK_UPS_AT_ONCE_MAX: Final = 8


@dataclass(frozen=True, slots=True)
class ReconciliationResult:
    # Whether the broker reported every order that it must know.
    is_complete: bool
    # Reports to process again: they count fills without executions, or an order that matches no intent yet.
    left: tuple[OrderReport, ...]
    # Whether the account has open orders at the broker.
    is_open: bool
    # Whether the broker's positions differ from ours, which a second reconciliation must confirm.
    differs: bool = False


@dataclass(frozen=True, slots=True)
class _Start:
    began_at: datetime
    last: LastReconciliation
    since: datetime
    open_orders: list[TrackedAction]
    names: list[OrderName]


@dataclass(frozen=True, slots=True)
class ReconcileAccount:
    """Can be repeated: a reconciliation that failed half-way is simply run again."""

    store: ExecutionStore
    track: TrackOrders
    # Passes, new or changed external orders, and failed reads of positions.
    counts: Counter[str] = field(default_factory=Counter)
    _take_positions: TakePositions = field(default_factory=TakePositions)
    # Of each account's last list: reports of ended orders that changed nothing. The same report in the next list needs
    # no look at the database; a deep reconciliation compares all again.
    _unchanged: dict[AccountId, frozenset[OrderReport]] = field(default_factory=dict)
    _look_ups: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(LOOK_UPS_AT_ONCE_MAX))

    async def __call__(
        self,
        account: BrokerAccount,
        session: BrokerSession,
        capabilities: BrokerCapabilities,
        reported: Sequence[OrderReport] = (),
        *,
        deep: bool = False,
        is_last: bool = False,
    ) -> ReconciliationResult:
        """An exception means that the broker did not answer; then nothing is concluded.

        A deep reconciliation looks back as far as fills of ended orders may be late. After the last one, an account
        without open orders is not reconciled again until an event touches it.
        """
        start = await self._start(account, deep=deep)
        # Before the orders, so that the list covers every fill that these positions include.
        held = await self._positions(account, session, start)
        listed = await self._list(account, session, start.since)
        names = _not_listed([*start.names, *(_name(report) for report in reported)], listed)
        found = await self._find(account, session, capabilities, names)
        missing = [name for name, report in found if report is None]
        if missing and capabilities.look_up is LookUp.OPEN_ORDERS:
            # These orders ended or were lost; only a list from before the oldest of them shows which.
            doors = [a.send_started_at for a in start.open_orders if a.order_name in missing and a.send_started_at]
            if doors:
                listed = await self._list(account, session, min(doors) - OVERLAP)
                missing = _not_listed(missing, listed)
        reports = [*listed, *(report for _, report in found if report is not None)]
        known = frozenset() if deep else self._unchanged.get(account.account_id, frozenset())
        unmatched: list[OrderReport] = []
        left: list[OrderReport] = []
        unchanged = {report for report in listed if report in known}
        unseen = [report for report in reports if report not in unchanged]
        for first in range(0, len(unseen), REPORTS_AT_ONCE_MAX):
            news, ended = await self._news(account, unseen[first : first + REPORTS_AT_ONCE_MAX])
            unchanged |= ended
            if news:
                left += await self.track(account, news, unmatched)
        self._keep(account.account_id, unchanged)
        in_doubt = {action.order_name for action in start.open_orders if action.state in PAST_DOOR}
        is_complete = not [name for name in missing if name not in in_doubt and name in start.names]
        left_alone = is_last and not left and not start.names
        if left or not is_complete:
            held = None
        undecided, differs = await self._judge(
            account, capabilities, start, listed, unmatched, held, known, left_alone=left_alone
        )
        left += undecided
        if held is not None:
            self.track.moved[account.account_id] = account
        self.counts["passes"] += 1
        return ReconciliationResult(is_complete and not left, tuple(left), is_open=bool(start.names), differs=differs)

    async def _start(self, account: BrokerAccount, *, deep: bool) -> _Start:
        async with self.store.account_transaction(account) as transaction:
            now, last = transaction.now, await transaction.last_reconciliation()
            open_orders = await transaction.open_orders()
            external = await transaction.open_external_orders()
        up_to = last.reconciled_at or now
        names = [action.order_name for action in open_orders]
        # Our orders are named by our ids, external ones by the ids they have.
        names += [
            OrderName(client_order_id=order.client_order_id or "", broker_order_ids=(order.broker_order_id,))
            for order in external
        ]
        return _Start(now, last, up_to - (LATE if deep else OVERLAP), open_orders, names)

    async def _positions(
        self, account: BrokerAccount, session: BrokerSession, start: _Start
    ) -> list[BrokerPosition] | None:
        """None if the broker does not answer."""
        try:
            async with self._look_ups, asyncio.timeout(CALL_SECONDS):
                return await session.positions(account.account_id)
        except Exception:  # noqa: BLE001 - orders are reconciled without positions
            self.counts["positions_untold"] += 1
            return None

    async def _list(self, account: BrokerAccount, session: BrokerSession, since: datetime) -> list[OrderReport]:
        async with self._look_ups, asyncio.timeout(LIST_SECONDS):
            return await session.orders_since(account.account_id, since)

    async def _find(
        self,
        account: BrokerAccount,
        session: BrokerSession,
        capabilities: BrokerCapabilities,
        names: Sequence[OrderName],
    ) -> list[tuple[OrderName, OrderReport | None]]:
        """Look orders up by name; an order without a name that the broker knows is left out."""

        async def one(name: OrderName) -> tuple[OrderName, OrderReport | None]:
            async with self._look_ups, asyncio.timeout(CALL_SECONDS):
                return name, await session.find(account.account_id, name)

        by_broker_id = capabilities.look_up is LookUp.BROKER_ID
        known = [name for name in names if (name.broker_order_ids if by_broker_id else name.client_order_id)]
        return await asyncio.gather(*(one(name) for name in known))

    def _keep(self, account_id: AccountId, unchanged: set[OrderReport]) -> None:
        self._unchanged.pop(account_id, None)
        if unchanged:
            while len(self._unchanged) >= LISTS_KEPT_MAX:
                del self._unchanged[next(iter(self._unchanged))]
            self._unchanged[account_id] = frozenset(unchanged)

    async def _news(
        self, account: BrokerAccount, reports: Sequence[OrderReport]
    ) -> tuple[list[OrderReport], set[OrderReport]]:
        """The reports that change our record, and those of ended orders that do not; most of a list does not."""
        async with self.store.account_transaction(account) as transaction:
            intents = await intents_of_reports(transaction, reports)
            histories: dict[IntentId, list[TrackedAction]] = {}
            for action in await transaction.of_intents([*{i for i in intents if i is not None}]):
                histories.setdefault(action.intent_id, []).append(action)
        news, ended = [], set()
        for report, intent_id in zip(reports, intents, strict=True):
            history = histories.get(intent_id, []) if intent_id is not None else []
            is_settled = all(action.state in SETTLED for action in history)
            if not (history and is_settled and changes_nothing(history[0].order, report)):
                news.append(report)
            elif history[0].order.standing is Standing.CLOSED:
                ended.add(report)
        return news, ended

    async def _judge(
        self,
        account: BrokerAccount,
        capabilities: BrokerCapabilities,
        start: _Start,
        listed: Sequence[OrderReport],
        unmatched: Sequence[OrderReport],
        held: Sequence[BrokerPosition] | None,
        known: Collection[OrderReport],
        *,
        left_alone: bool,
    ) -> tuple[list[OrderReport], bool]:
        """Decide about orders that match no record, and save how far the account was reconciled.

        Returns the reports that stay undecided, and whether positions differ.
        """
        differs = False
        async with self.store.account_transaction(account) as transaction:
            # After a restore the account must be recovered first.
            if transaction.hold is not None:
                return [*unmatched], differs
            kept = await transaction.external_orders_among([report.broker_order_id for report in unmatched])
            unsent = await transaction.skipped_among(_own([report for report in listed if report not in known]))
            unrecorded = _own([report for report in unmatched if report.broker_order_id not in kept])
            unrecorded -= await transaction.forgotten_among(unrecorded)
            excesses = excess([*listed, *unmatched], unsent, unrecorded, start.last.resumed_at)
            why = await stop_account(transaction, excesses) if excesses else None
            left = [report for report in unmatched if report.description is None]
            described = [report for report in unmatched if report.description is not None]
            waiting = await _candidates(transaction, capabilities, described, set(kept))
            left += waiting
            news = await import_orders(transaction, [report for report in described if report not in waiting])
            self.counts["external_orders"] += news
            taken = [r.description.accepted_at for r in left if r.description is not None]
            event_no = start.last.event_no if left_alone and not left else None
            await transaction.save_reconciliation(min([start.began_at, *taken]), event_no)
            if held is not None and not left:
                lag = timedelta(seconds=capabilities.settle_seconds)
                adjusted, differs = await self._take_positions(
                    transaction, account.account_id, held, start.began_at, lag
                )
                news += adjusted
        if why is not None:
            self.track.halts.append((account.account_id, why))
        if why is not None or news:
            self.track.hints.events_were_written([account.account_id])
        return left, differs


async def _candidates(
    transaction: AccountTransaction,
    capabilities: BrokerCapabilities,
    strangers: Sequence[OrderReport],
    kept: set[str],
) -> list[OrderReport]:
    """At a broker without our ids, orders that may be ours; they stay undecided and are stored as candidates."""
    if capabilities.look_up is not LookUp.BROKER_ID:
        return []
    creates = [action for action in await transaction.in_doubt() if action.action_type is ActionType.CREATE]
    candidates: dict[ActionId, list[str]] = {
        action.action_id: [] for action in creates if action.state is ActionState.UNKNOWN
    }
    young = transaction.now - timedelta(seconds=capabilities.settle_seconds)
    waiting = []
    for report in strangers:
        description = report.description
        if description is None or report.client_order_id is not None or report.broker_order_id in kept:
            continue
        rivals = [action for action in creates if _may_be(action, report)]
        for action in rivals:
            if action.action_id in candidates:
                candidates[action.action_id].append(report.broker_order_id)
        if rivals or description.accepted_at > young:
            waiting.append(report)
    for action_id, found in candidates.items():
        await transaction.set_candidates(action_id, found)
    return waiting


def _may_be(action: TrackedAction, report: OrderReport) -> bool:
    """Whether a reported order could be the order of this action."""
    theirs, ours = report.description, action.terms
    assert theirs is not None
    alike = (theirs.symbol, theirs.order_side, theirs.order_type) == (ours.symbol, ours.order_side, ours.order_type)
    return alike and (report.terms is None or report.terms.quantity == action.order.quantity)


def _own(reports: Sequence[OrderReport]) -> set[ActionId]:
    """The actions whose ids the reports carry."""
    return {action_id for report in reports if (action_id := own_action(report.client_order_id)) is not None}


def _name(report: OrderReport) -> OrderName:
    return OrderName(client_order_id=report.client_order_id or "", broker_order_ids=(report.broker_order_id,))


def _not_listed(names: Sequence[OrderName], listed: Sequence[OrderReport]) -> list[OrderName]:
    """The names that are not in the list, each once."""
    known = {report.client_order_id for report in listed} | {report.broker_order_id for report in listed}
    wanted: dict[str, OrderName] = {}
    for name in names:
        if name.client_order_id not in known and known.isdisjoint(name.broker_order_ids):
            wanted.setdefault(name.client_order_id or name.broker_order_ids[0], name)
    return [*wanted.values()]
