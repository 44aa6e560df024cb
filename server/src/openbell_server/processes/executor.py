"""Runs the executor: sends queued actions to their broker and follows their orders."""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from uuid import UUID, uuid4

import structlog
from nats.aio.msg import Msg

from openbell_server.adapters.calendars.table import load_calendars
from openbell_server.adapters.jetstream import subjects
from openbell_server.adapters.jetstream.connection import JetStreamConnection
from openbell_server.adapters.jetstream.consumer import ReceiveWork, consume_work
from openbell_server.adapters.postgres.access.vault_objects import PostgresVaultObjects
from openbell_server.adapters.postgres.connection import (
    BLOCKED,
    UNAVAILABLE,
    DatabaseClock,
    Pool,
    Role,
    open_pool,
    open_role_pool,
)
from openbell_server.adapters.postgres.controls.market_updates import PostgresMarketKeeping
from openbell_server.adapters.postgres.controls.rule_books import RuleBooks
from openbell_server.adapters.postgres.execution.execution import PostgresExecutionStore
from openbell_server.adapters.postgres.execution.sign_ins import PostgresSessionStore
from openbell_server.adapters.postgres.execution.slot_leases import PostgresLeaseStore
from openbell_server.adapters.postgres.execution.sweeps import PostgresSweepStore
from openbell_server.adapters.postgres.execution.ticks import PostgresTickStore, open_tick_pool
from openbell_server.adapters.postgres.money.books import ExecutorBookStore
from openbell_server.adapters.postgres.recovery import PostgresRecoveryStore
from openbell_server.adapters.postgres.schema import require_schema
from openbell_server.application.execution.account_dispatcher import SWEEP_SECONDS, AccountDispatcher, Bulkhead
from openbell_server.application.execution.broker_budget import BrokerBudget
from openbell_server.application.execution.follow_broker import FollowBroker
from openbell_server.application.execution.refresh_markets import RefreshMarkets
from openbell_server.application.execution.slot_leases import RENEW_SECONDS, SlotLeases, run_id
from openbell_server.application.execution.sweeps import Sweep, SweepStore
from openbell_server.application.execution.wiring import ExecutorDependencies, ExecutorParts, build_executor
from openbell_server.application.money.refresh_balances import RefreshBalances
from openbell_server.application.ports.broker import QueryFailed
from openbell_server.brokers.registry import BROKERS, spelled_at
from openbell_server.domain.identifiers import AccountId
from openbell_server.processes.brokers.addresses import broker_addresses
from openbell_server.processes.calendar_expiry import watch_calendars
from openbell_server.processes.execution_metrics import (
    watch_budgets,
    watch_execution,
    watch_reconciliation,
    watch_ticks,
)
from openbell_server.processes.executor_upkeep import (
    OrderSweeps,
    loss_measurement,
    measure_losses,
    order_sweeps,
    refresh_balances,
    refresh_markets,
    save_books,
)
from openbell_server.processes.lifecycle import boot_time
from openbell_server.processes.measured_session import BrokerMetrics
from openbell_server.processes.operations_port import Operations
from openbell_server.processes.vault import opener
from openbell_server.settings import Settings

FOLLOW_RETRY_SECONDS = 0.5
UNUSED_BROKER_SECONDS = 1.0
# Feed reports expire, so an unchanged one is repeated at this interval.
REPORT_SECONDS = 5.0
# Limit for silent accounts in one report: while a broker is down, every account's feed may be silent.
SILENT_REPORTED_MAX = 1_000
# Connections for statements of the executor's role that find work.
ROLE_PLACES = 2


async def serve(
    settings: Settings, stopping: asyncio.Event, operations: Operations, hints: JetStreamConnection
) -> None:
    """Execute until stopping is set, then finish the actions that passed their door."""
    url = settings.require("database_url")
    async with contextlib.AsyncExitStack() as pools:
        pool = await pools.enter_async_context(await open_pool(url, connections_max=8))
        # Before a role is taken: an empty database has none.
        await require_schema(pool)
        tick_pool = await pools.enter_async_context(await open_tick_pool(url))
        role_pool = await pools.enter_async_context(await open_role_pool(url, Role.EXECUTOR, ROLE_PLACES, {}))
        operations.watch_database(pool)
        operations.watch_nats(hints, needed=False)
        watch_calendars(operations, load_calendars())
        executor_id = run_id(settings.executor_name, uuid4()) if settings.executor_name else uuid4()
        slots = SlotLeases(PostgresLeaseStore(pool, executor_pool=role_pool), executor_id, boot_time)
        session_store = PostgresSessionStore(pool, DatabaseClock(pool), executor_pool=role_pool)
        store = PostgresExecutionStore(
            pool, executor_pool=role_pool, books=RuleBooks(spelled_at), calendars=load_calendars()
        )
        parts = build_executor(
            ExecutorDependencies(
                store=store,
                tick_store=PostgresTickStore(tick_pool),
                session_store=session_store,
                sealed=PostgresVaultObjects(pool),
                opener=opener(settings),
                slots=slots,
                hints=hints,
                definitions=BROKERS,
                bulkheads=await _bulkheads(settings, operations),
                monotonic=boot_time,
                new_id=uuid4,
                unavailable=UNAVAILABLE,
                blocked=BLOCKED,
            )
        )
        watch_execution(operations, pool, slots, parts.execute)
        watch_ticks(operations, parts.ticks)
        watch_reconciliation(operations, pool, parts.brokers)
        _listen(hints, parts)
        hints.start()
        background = _start_background(pool, role_pool, hints, slots, store, session_store, parts)
        operations.part_started()
        try:
            sweeps = PostgresSweepStore(pool, executor_pool=role_pool)
            await _sweep_until(stopping, parts, sweeps, order_sweeps(pool, role_pool, hints, parts.dispatcher))
            await parts.dispatcher.drain()
        finally:
            await parts.sign_ins.close()
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            with contextlib.suppress(*UNAVAILABLE):
                await slots.release()
            for session in parts.sessions.values():
                await session.close()


def _start_background(
    pool: Pool,
    role_pool: Pool,
    hints: JetStreamConnection,
    slots: SlotLeases,
    store: PostgresExecutionStore,
    session_store: PostgresSessionStore,
    parts: ExecutorParts,
) -> list[asyncio.Future[None]]:
    markets = RefreshMarkets(
        PostgresMarketKeeping(pool), parts.sessions, parts.sign_ins, slots, boot_time, parts.priced
    )
    balances = RefreshBalances(store, parts.sessions, parts.sign_ins, slots, hints, boot_time, parts.moved)
    feeds = _Feeds(session_store, slots, parts.brokers, parts.sign_ins.signing_in)
    return [
        asyncio.ensure_future(_renew_leases(slots, PostgresRecoveryStore(pool, executor_pool=role_pool), feeds)),
        asyncio.ensure_future(consume_work(hints, _on_work(hints, parts.dispatcher))),
        asyncio.ensure_future(refresh_markets(markets)),
        asyncio.ensure_future(save_books(ExecutorBookStore(pool, executor_pool=role_pool), slots)),
        asyncio.ensure_future(refresh_balances(balances)),
        asyncio.ensure_future(measure_losses(loss_measurement(pool, role_pool, hints), slots)),
        *(asyncio.ensure_future(_follow(broker, session_store)) for broker in parts.brokers.values()),
    ]


async def _bulkheads(settings: Settings, operations: Operations) -> dict[str, Bulkhead]:
    """A measured session and a budget for every broker."""
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


def _on_work(hints: JetStreamConnection, dispatcher: AccountDispatcher) -> ReceiveWork:
    def notify(slot: int, account_id: AccountId, recorded_at: datetime | None) -> None:
        if slot in dispatcher.slots.held():
            dispatcher.notify(account_id, recorded_at)
        else:
            # Another executor holds the account's slot.
            hints.work_was_recorded(account_id)

    return notify


def _listen(hints: JetStreamConnection, parts: ExecutorParts) -> None:
    """Subscribe to notifications of work, sign-in requests and account changes; the sweep finds what a lost one
    announced.
    """
    dispatcher = parts.dispatcher

    async def on_work(message: Msg) -> None:
        dispatcher.notify(AccountId(UUID(message.subject.rsplit(".", 1)[-1])))

    async def on_sign_in_request(message: Msg) -> None:
        await refresh_account(message.subject.rsplit(".", 1)[-1])

    async def on_account_change(message: Msg) -> None:
        await refresh_account(json.loads(message.data)["account_id"])

    async def refresh_account(text: str) -> None:
        account_id = AccountId(UUID(text))
        dispatcher.forget(account_id)
        account = await dispatcher.store.find_account_across_organizations(account_id)
        if account is not None:
            parts.sign_ins.notify(account)

    hints.on(subjects.ALL_WORK_WAKES, on_work)
    hints.on(subjects.ALL_SIGN_IN_WAKES, on_sign_in_request)
    hints.on(subjects.ALL_ACCOUNT_EVENTS, on_account_change)


@dataclass(slots=True)
class _Feeds:
    """Reports the state of broker feeds to the database when it changes, and every REPORT_SECONDS."""

    store: PostgresSessionStore
    slots: SlotLeases
    brokers: Mapping[str, FollowBroker]
    signing_in: Callable[[], frozenset[AccountId]]
    _reported: dict[str, tuple[float, bool, frozenset[int], frozenset[AccountId]]] = field(default_factory=dict)
    # The silent accounts reported last; mostly none, which needs no report.
    _mute: dict[str, frozenset[AccountId]] = field(default_factory=dict)

    async def report(self) -> None:
        for name, broker in self.brokers.items():
            now, connected, compared = boot_time(), broker.session.is_connected, broker.compared
            signing_in = self.signing_in()
            if not connected and name not in self._reported:
                # A broker that was never connected needs no report: without one, others see it as disconnected.
                continue
            silent = sorted({*broker.echoes.mute, *broker.session.unheard})
            mute = frozenset(silent[:SILENT_REPORTED_MAX])
            news = mute if mute != self._mute.get(name, frozenset()) else None
            reported_at, *reported = self._reported.get(name, (float("-inf"),))
            if news is not None or reported != [connected, compared, signing_in] or now - reported_at > REPORT_SECONDS:
                await self.store.report_feed(
                    self.slots.executor_id,
                    name,
                    connected=connected,
                    compared=compared,
                    signing_in=signing_in,
                    mute=news,
                )
                self._reported[name], self._mute[name] = (now, connected, compared, signing_in), mute


async def _sweeps_due(sweeps: SweepStore, held: frozenset[int]) -> frozenset[Sweep]:
    """The sweeps that have work; all of them if the database does not answer, so that each fails alone."""
    try:
        return await sweeps.sweeps_with_work_across_organizations(held)
    except Exception as error:  # noqa: BLE001 - the sweeps report what is wrong
        structlog.get_logger().warning("sweeps_not_found", error=repr(error))
        return frozenset(Sweep)


async def _sweep_until(
    stopping: asyncio.Event,
    parts: ExecutorParts,
    sweeps: SweepStore,
    orders: OrderSweeps,
) -> None:
    log, dispatcher, sign_ins = structlog.get_logger(), parts.dispatcher, parts.sign_ins
    while not stopping.is_set():
        # Each sweep fails alone, and halts run first, so a halt takes effect even if the others are slow or fail.
        held = dispatcher.slots.held()
        due = await _sweeps_due(sweeps, held)
        runs: list[tuple[bool, Callable[[], Awaitable[None]]]] = [
            (Sweep.HEARTBEATS in due, orders.heartbeats.sweep),
            (not due.isdisjoint({Sweep.HEARTBEATS, Sweep.HALTS}), partial(orders.halts.sweep, held)),
            (Sweep.DESK in due, partial(orders.desk.sweep, held)),
            (Sweep.WORK in due, dispatcher.sweep),
            (True, partial(sign_ins.sweep, is_asked=Sweep.SIGN_INS in due)),
            (Sweep.RESTING in due, partial(orders.resting.sweep, held)),
        ]
        for sweep in (sweep for is_due, sweep in runs if is_due):
            try:
                await sweep()
            except UNAVAILABLE as error:
                log.warning("sweep_failed", error=repr(error))
            except Exception:
                log.exception("sweep_failed")
        dispatcher.failures += [failure for broker in dispatcher.brokers.values() for failure in broker.take_failures()]
        dispatcher.failures += parts.ticks.failures
        parts.ticks.failures.clear()
        while dispatcher.failures:
            _log_failure(dispatcher.failures.pop(), log)
        _log_accounts(dispatcher, log)
        while sign_ins.failures:
            account_id, why = sign_ins.failures.pop()
            log.warning("sign_in_failed", account_id=str(account_id), why=why)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), SWEEP_SECONDS)


def _log_failure(failure: BaseException, log: structlog.stdlib.BoundLogger) -> None:
    """A traceback only for what is not explained by a broker or a service that does not answer."""
    if isinstance(failure, (QueryFailed, *UNAVAILABLE)):
        log.warning("execution_failed", error=repr(failure))
    else:
        log.error("execution_failed", exc_info=failure)


def _log_accounts(dispatcher: AccountDispatcher, log: structlog.stdlib.BoundLogger) -> None:
    for name, broker in dispatcher.brokers.items():
        while broker.track.halts:
            account_id, why = broker.track.halts.pop()
            log.error("account_halted", broker=name, account_id=str(account_id), why=why)
        while broker.fallen_silent:
            log.warning("feed_is_mute", broker=name, account_id=str(broker.fallen_silent.pop()))


async def _renew_leases(slots: SlotLeases, recovery: PostgresRecoveryStore, feeds: _Feeds) -> None:
    """Renew the leases until cancelled; without the database they expire."""
    while True:
        try:
            if await recovery.notice_restore():
                structlog.get_logger().error("database_was_restored", accounts="held until compared with their broker")
            await slots.renew()
            await feeds.report()
        except UNAVAILABLE as error:
            structlog.get_logger().warning("lease_not_renewed", error=repr(error))
        except Exception:  # noqa: BLE001 - an executor that stops renewing stays alive but does no work
            structlog.get_logger().exception("lease_not_renewed")
        await asyncio.sleep(RENEW_SECONDS)


async def _follow(broker: FollowBroker, store: PostgresSessionStore) -> None:
    """Follow a broker until cancelled, as soon as it has accounts; after an error it starts again with a
    reconciliation.
    """
    name = broker.definition.name
    while not await _is_used(name, store):  # noqa: ASYNC110 - the database has no event for it
        await asyncio.sleep(UNUSED_BROKER_SECONDS)
    while True:
        try:
            await broker.run()
        except Exception:  # noqa: BLE001 - the next run starts with the broker's own list
            structlog.get_logger().exception("following_failed", broker=name)
        await asyncio.sleep(FOLLOW_RETRY_SECONDS)


async def _is_used(broker: str, store: PostgresSessionStore) -> bool:
    """Without accounts there is no connection to the broker."""
    try:
        return await store.has_accounts_across_organizations(broker)
    except UNAVAILABLE:
        return False
