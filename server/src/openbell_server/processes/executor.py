"""The executor: takes queued actions through the door to their broker and follows their orders."""

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from uuid import UUID, uuid4

import structlog
from nats.aio.msg import Msg

from openbell_server.adapters.calendars.table import load_calendars
from openbell_server.adapters.jetstream import subjects
from openbell_server.adapters.jetstream.connection import JetStreamConnection
from openbell_server.adapters.jetstream.consumer import HearWork, consume_work
from openbell_server.adapters.postgres.calendars import PostgresSessionChanges
from openbell_server.adapters.postgres.connection import UNAVAILABLE, DatabaseClock, Pool, open_pool
from openbell_server.adapters.postgres.execution import PostgresExecutionStore
from openbell_server.adapters.postgres.halts import PostgresHaltStore
from openbell_server.adapters.postgres.intents import PostgresIntentStore
from openbell_server.adapters.postgres.leases import PostgresLeaseStore
from openbell_server.adapters.postgres.market_keeping import PostgresMarketKeeping
from openbell_server.adapters.postgres.organizations import PostgresOrganizationStore
from openbell_server.adapters.postgres.recovery import PostgresRecoveryStore
from openbell_server.adapters.postgres.resting import PostgresRestingStore
from openbell_server.adapters.postgres.rule_books import RuleBooks
from openbell_server.adapters.postgres.schema import require_schema
from openbell_server.adapters.postgres.sessions import PostgresSessionStore
from openbell_server.adapters.postgres.vault_objects import PostgresVaultObjects
from openbell_server.application.broker_budget import BrokerBudget, BudgetedSession
from openbell_server.application.cancel_by_control import CancelByControl
from openbell_server.application.enact_halts import EnactHalts
from openbell_server.application.end_resting import EndResting
from openbell_server.application.execute_action import ExecuteAction
from openbell_server.application.follow_broker import FollowBroker
from openbell_server.application.hold_slots import RENEW_SECONDS, HoldSlots, run_id
from openbell_server.application.keep_markets import QUOTE_SECONDS, KeepMarkets, Place
from openbell_server.application.keep_sessions import KeepSessions
from openbell_server.application.ports.execution import BrokerAccount
from openbell_server.application.recover_account import RecoverAccount
from openbell_server.application.settle_unknown import SettleUnknown
from openbell_server.application.track_orders import TrackOrders
from openbell_server.application.work_accounts import SWEEP_SECONDS, Bulkhead, WorkAccounts
from openbell_server.brokers.registry import BROKERS, spelled_at
from openbell_server.domain.identifiers import AccountId
from openbell_server.processes.broker_addresses import broker_addresses
from openbell_server.processes.calendar_ends import watch_calendars
from openbell_server.processes.execution_metrics import watch_budgets, watch_execution, watch_reconciliation
from openbell_server.processes.lifecycle import boot_time, notify_ready
from openbell_server.processes.observed_session import BrokerMetrics
from openbell_server.processes.operations import Operations
from openbell_server.processes.vault import opener
from openbell_server.settings import Settings

FOLLOW_RETRY_SECONDS = 0.5
UNUSED_BROKER_SECONDS = 1.0
# Who counted as dead for a while is forgotten, with all that it told.
TELL_SECONDS = 5.0
# While a broker is away, the feed of each of its accounts may be.
SILENT_TOLD_MAX = 1_000


async def serve(settings: Settings, stopping: asyncio.Event, operations: Operations) -> None:
    """Execute until stopping is set, then finish what passed its door."""
    hints = JetStreamConnection(settings.nats_url)
    async with await open_pool(settings.require("database_url"), connections_max=8) as pool:
        await require_schema(pool)
        operations.watch_database(pool)
        operations.watch_nats(hints, needed=False)
        watch_calendars(operations, load_calendars())
        store = PostgresExecutionStore(pool, books=RuleBooks(spelled_at), calendars=load_calendars())
        slots = HoldSlots(PostgresLeaseStore(pool), _identity(settings), boot_time)
        priced: set[Place] = set()
        track = TrackOrders(store, hints, priced=priced)
        bulkheads = await _bulkheads(settings, operations)
        at_brokers = {name: BudgetedSession(each.session, each.budget) for name, each in bulkheads.items()}
        session_store = PostgresSessionStore(pool, DatabaseClock(pool))
        sessions = KeepSessions(
            session_store,
            PostgresVaultObjects(pool),
            opener(settings),
            at_brokers,
            slots,
            hints,
            boot_time,
            lambda account_id: desk.hear(account_id),
        )
        brokers = {
            name: FollowBroker(BROKERS[name], session, store, track, slots, sessions, boot_time)
            for name, session in at_brokers.items()
        }
        execute = ExecuteAction(store, sessions, hints, uuid4, boot_time, UNAVAILABLE)
        watch_execution(operations, pool, slots, execute)
        watch_reconciliation(operations, pool, brokers)
        settle, recover = SettleUnknown(store, track, hints, execute), RecoverAccount(store, track)
        desk = WorkAccounts(store, execute, settle, recover, brokers, slots, bulkheads)

        markets = KeepMarkets(PostgresMarketKeeping(pool), at_brokers, sessions, slots, boot_time, priced)
        _listen(hints, desk, sessions)
        background = [
            asyncio.ensure_future(hints.run()),
            asyncio.ensure_future(
                _hold(slots, PostgresRecoveryStore(pool), _Feeds(session_store, slots, brokers, sessions.signing_in))
            ),
            asyncio.ensure_future(consume_work(hints, _work_heard(hints, desk))),
            asyncio.ensure_future(_keep_markets(markets)),
            *(asyncio.ensure_future(_follow(broker, session_store)) for broker in brokers.values()),
        ]
        notify_ready()
        try:
            cancel = CancelByControl(PostgresIntentStore(pool), DatabaseClock(pool), hints, desk.hear)
            await _sweep_until(stopping, desk, sessions, _halts(pool, hints, desk, cancel), _resting(pool, cancel))
            await desk.drain()
        finally:
            await sessions.close()
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            with contextlib.suppress(*UNAVAILABLE):
                await slots.release()
            for broker in brokers.values():
                await broker.session.close()


async def _bulkheads(settings: Settings, operations: Operations) -> dict[str, Bulkhead]:
    """A session with every broker, watched, and its budget."""
    watched, addresses = BrokerMetrics(operations), broker_addresses(settings, BROKERS)
    bulkheads = {
        name: Bulkhead(
            BrokerBudget(broker.capabilities, boot_time),
            watched.watch(name, await broker.open_session(addresses[name])),
        )
        for name, broker in BROKERS.items()
    }
    watch_budgets(operations, {name: each.budget for name, each in bulkheads.items()})
    return bulkheads


def _resting(pool: Pool, cancel: CancelByControl) -> EndResting:
    stores = PostgresRestingStore(pool), PostgresOrganizationStore(pool)
    return EndResting(*stores, cancel, load_calendars(), PostgresSessionChanges(pool))


def _halts(pool: Pool, hints: JetStreamConnection, desk: WorkAccounts, cancel: CancelByControl) -> EnactHalts:
    def compare(account: BrokerAccount) -> None:
        desk.brokers[account.broker].compare_soon(account)

    return EnactHalts(PostgresHaltStore(pool), PostgresOrganizationStore(pool), cancel, hints, desk.hear, compare)


def _work_heard(hints: JetStreamConnection, desk: WorkAccounts) -> HearWork:
    def hear(slot: int, account_id: AccountId, recorded_at: datetime | None) -> None:
        if slot in desk.slots.held():
            desk.hear(account_id, recorded_at)
        else:
            # Another works the account.
            hints.work_was_recorded(account_id)

    return hear


def _listen(hints: JetStreamConnection, desk: WorkAccounts, sessions: KeepSessions) -> None:
    """Hear of work that others pass on, and of accounts and credentials that changed; what is lost, the sweep finds."""

    async def hear_work(message: Msg) -> None:
        desk.hear(AccountId(UUID(message.subject.rsplit(".", 1)[-1])))

    async def hear_question(message: Msg) -> None:
        await hear_of(message.subject.rsplit(".", 1)[-1])

    async def hear_change(message: Msg) -> None:
        await hear_of(json.loads(message.data)["account_id"])

    async def hear_of(text: str) -> None:
        account_id = AccountId(UUID(text))
        desk.forget(account_id)
        account = await desk.store.find_account_across_organizations(account_id)
        if account is not None:
            sessions.hear(account)

    hints.on(subjects.ALL_WORK_WAKES, hear_work)
    hints.on(subjects.ALL_SIGN_IN_WAKES, hear_question)
    hints.on(subjects.ALL_ACCOUNT_EVENTS, hear_change)


@dataclass(slots=True)
class _Feeds:
    """Tells how we stand with our brokers, when that changes and now and then."""

    store: PostgresSessionStore
    slots: HoldSlots
    brokers: Mapping[str, FollowBroker]
    signing_in: Callable[[], frozenset[AccountId]]
    _told: dict[str, tuple[float, bool, frozenset[int], frozenset[AccountId]]] = field(default_factory=dict)
    # What the feeds are silent about, as it was last told: mostly nothing, which needs no telling.
    _mute: dict[str, frozenset[AccountId]] = field(default_factory=dict)

    async def tell(self) -> None:
        for name, broker in self.brokers.items():
            now, connected, compared = boot_time(), broker.session.is_connected, broker.compared
            signing_in = self.signing_in()
            if not connected and name not in self._told:
                # Nobody trades there, or nobody can: either is what others see of a broker of which nothing was told.
                continue
            silent = sorted({*broker.echoes.mute, *broker.session.unheard})
            mute = frozenset(silent[:SILENT_TOLD_MAX])
            news = mute if mute != self._mute.get(name, frozenset()) else None
            told_at, *told = self._told.get(name, (float("-inf"),))
            if news is not None or told != [connected, compared, signing_in] or now - told_at > TELL_SECONDS:
                await self.store.tell_feed(
                    self.slots.executor_id,
                    name,
                    connected=connected,
                    compared=compared,
                    signing_in=signing_in,
                    mute=news,
                )
                self._told[name], self._mute[name] = (now, connected, compared, signing_in), mute


async def _sweep_until(
    stopping: asyncio.Event, desk: WorkAccounts, sessions: KeepSessions, halts: EnactHalts, resting: EndResting
) -> None:
    log = structlog.get_logger()
    while not stopping.is_set():
        # Each by itself, and halts first: whatever else is slow or fails, what is halted ends.
        held = desk.slots.held()
        for sweep in (partial(halts.sweep, held), desk.sweep, sessions.sweep, partial(resting.sweep, held)):
            try:
                await sweep()
            except UNAVAILABLE as error:
                log.warning("sweep_failed", error=repr(error))
            except Exception:
                log.exception("sweep_failed")
        desk.failures += [failure for broker in desk.brokers.values() for failure in broker.take_failures()]
        while desk.failures:
            log.error("execution_failed", exc_info=desk.failures.pop())
        _tell_of_accounts(desk, log)
        while sessions.failures:
            account_id, why = sessions.failures.pop()
            log.warning("sign_in_failed", account_id=str(account_id), why=why)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), SWEEP_SECONDS)


def _tell_of_accounts(desk: WorkAccounts, log: structlog.stdlib.BoundLogger) -> None:
    for name, broker in desk.brokers.items():
        while broker.track.halts:
            account_id, why = broker.track.halts.pop()
            log.error("account_halted", broker=name, account_id=str(account_id), why=why)
        while broker.fallen_silent:
            log.warning("feed_is_mute", broker=name, account_id=str(broker.fallen_silent.pop()))


def _identity(settings: Settings) -> UUID:
    return run_id(settings.executor_name, uuid4()) if settings.executor_name else uuid4()


async def _hold(slots: HoldSlots, recovery: PostgresRecoveryStore, feeds: _Feeds) -> None:
    """Renew for ever; while the database is away the leases run out by themselves."""
    while True:
        try:
            if await recovery.notice_restore():
                structlog.get_logger().error("database_was_restored", accounts="held until compared with their broker")
            await slots.renew()
            await feeds.tell()
        except UNAVAILABLE as error:
            structlog.get_logger().warning("lease_not_renewed", error=repr(error))
        except Exception:  # noqa: BLE001 - an executor that stops renewing lives on and works no more
            structlog.get_logger().exception("lease_not_renewed")
        await asyncio.sleep(RENEW_SECONDS)


async def _keep_markets(markets: KeepMarkets) -> None:
    """Keep prices and instruments fresh for ever, beside all else; trouble is told when it begins."""
    log, told = structlog.get_logger(), set[tuple[str, str]]()
    while True:
        try:
            await markets.sweep()
        except UNAVAILABLE as error:
            log.warning("markets_not_kept", error=repr(error))
        except Exception:
            log.exception("markets_not_kept")
        for broker, why in markets.failures.keys() - told:
            log.warning("broker_tells_no_prices", broker=broker, why=why, times=markets.failures[broker, why])
        told = {*markets.failures}
        markets.failures.clear()
        await asyncio.sleep(QUOTE_SECONDS)


async def _follow(broker: FollowBroker, store: PostgresSessionStore) -> None:
    """Follow a broker for ever, once somebody trades there; when following breaks, it begins anew with a comparison."""
    name = broker.definition.name
    while not await _is_used(name, store):  # noqa: ASYNC110 - the database has no event for it
        await asyncio.sleep(UNUSED_BROKER_SECONDS)
    while True:
        try:
            await broker.run()
        except Exception:  # noqa: BLE001 - whatever broke, the next run starts from the broker's own word
            structlog.get_logger().exception("following_failed", broker=name)
        await asyncio.sleep(FOLLOW_RETRY_SECONDS)


async def _is_used(broker: str, store: PostgresSessionStore) -> bool:
    """Whether there are accounts at a broker; one without costs no connection."""
    try:
        return await store.has_accounts_across_organizations(broker)
    except UNAVAILABLE:
        return False
