"""What an executor does beside sending: cancel for halts and desk commands, keep prices, balances and books fresh."""

import asyncio
from dataclasses import dataclass

import structlog

from openbell_server.adapters.calendars.table import load_calendars
from openbell_server.adapters.jetstream.connection import JetStreamConnection
from openbell_server.adapters.postgres.access.organizations import PostgresOrganizationStore
from openbell_server.adapters.postgres.connection import UNAVAILABLE, DatabaseClock, Pool, Role
from openbell_server.adapters.postgres.controls.calendars import PostgresSessionChanges
from openbell_server.adapters.postgres.controls.halts import PostgresHaltStore
from openbell_server.adapters.postgres.controls.heartbeats import ExecutorHeartbeatStore
from openbell_server.adapters.postgres.controls.markets import PostgresMarketStore
from openbell_server.adapters.postgres.controls.resting_orders import PostgresRestingStore
from openbell_server.adapters.postgres.controls.rule_books import ExecutorRuleBookStore, RuleBooks
from openbell_server.adapters.postgres.desk.desk_work import PostgresDeskWorkStore
from openbell_server.adapters.postgres.intents.accept_with_counts import ExecutorCountedAcceptStore
from openbell_server.adapters.postgres.intents.intents import PostgresIntentStore
from openbell_server.adapters.postgres.money.books import ExecutorBookStore
from openbell_server.adapters.postgres.money.losses import PostgresLossStore
from openbell_server.adapters.postgres.money.marks import ExecutorMarks
from openbell_server.application.controls.cancel_by_control import CancelByControl
from openbell_server.application.controls.cancel_resting_orders import CancelRestingOrders
from openbell_server.application.controls.check_command import CheckCommand
from openbell_server.application.controls.enact_halts import EnactHalts
from openbell_server.application.controls.expire_heartbeats import ExpireHeartbeats
from openbell_server.application.desk.place_closing_order import PlaceClosingOrder
from openbell_server.application.desk.work_desk_commands import WorkDeskCommands
from openbell_server.application.execution.account_dispatcher import AccountDispatcher
from openbell_server.application.execution.refresh_markets import QUOTE_SECONDS, RefreshMarkets
from openbell_server.application.execution.slot_leases import SlotLeases
from openbell_server.application.money.measure_losses import LOSS_SECONDS, MeasureLosses
from openbell_server.application.money.refresh_balances import SWEEP_SECONDS as BALANCE_SECONDS
from openbell_server.application.money.refresh_balances import RefreshBalances
from openbell_server.application.money.save_books import BOOKS_SECONDS, SaveBooks
from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.brokers.registry import BROKERS, spelled_at


@dataclass(frozen=True, slots=True)
class OrderSweeps:
    """The sweeps that submit commands of their own."""

    heartbeats: ExpireHeartbeats
    halts: EnactHalts
    desk: WorkDeskCommands
    resting: CancelRestingOrders


def order_sweeps(pool: Pool, role_pool: Pool, hints: JetStreamConnection, dispatcher: AccountDispatcher) -> OrderSweeps:
    def compare(account: BrokerAccount) -> None:
        dispatcher.brokers[account.broker].compare_soon(account)

    def failed(account: BrokerAccount, error: Exception) -> None:
        known = isinstance(error, UNAVAILABLE)
        log = structlog.get_logger()
        log.warning(
            "desk_command_failed",
            account_id=str(account.account_id),
            error=repr(error),
            exc_info=None if known else error,
        )

    accounts, ids, intents = PostgresOrganizationStore(pool), DatabaseClock(pool), PostgresIntentStore(pool)
    cancel = CancelByControl(intents, ids, hints, dispatcher.notify)
    halts = EnactHalts(
        PostgresHaltStore(pool, executor_pool=role_pool), accounts, cancel, hints, dispatcher.notify, compare
    )
    calendars = load_calendars()
    check = CheckCommand(
        ExecutorRuleBookStore(pool, RuleBooks(spelled_at)),
        intents,
        PostgresMarketStore(pool, role=Role.EXECUTION),
        ExecutorCountedAcceptStore(pool),
        calendars,
    )
    desk = PostgresDeskWorkStore(pool, executor_pool=role_pool)
    place = PlaceClosingOrder(desk, accounts, check, ids, BROKERS, hints, dispatcher.notify)
    resting = PostgresRestingStore(pool, executor_pool=role_pool)
    return OrderSweeps(
        ExpireHeartbeats(ExecutorHeartbeatStore(pool, executor_pool=role_pool), hints),
        halts,
        WorkDeskCommands(desk, accounts, cancel, place, failed),
        CancelRestingOrders(resting, accounts, cancel, calendars, PostgresSessionChanges(pool)),
    )


def loss_measurement(pool: Pool, role_pool: Pool, hints: JetStreamConnection) -> MeasureLosses:
    return MeasureLosses(
        PostgresLossStore(pool, executor_pool=role_pool),
        PostgresOrganizationStore(pool),
        ExecutorRuleBookStore(pool, RuleBooks(spelled_at)),
        ExecutorBookStore(pool, executor_pool=role_pool),
        ExecutorMarks(pool),
        PostgresMarketStore(pool, role=Role.EXECUTION),
        hints,
    )


async def refresh_markets(markets: RefreshMarkets) -> None:
    """Refresh prices and instruments until cancelled."""
    await _sweep_for_ever(markets, QUOTE_SECONDS, "markets_not_kept", "broker_tells_no_prices")


async def refresh_balances(balances: RefreshBalances) -> None:
    """Read balances until cancelled."""
    await _sweep_for_ever(balances, BALANCE_SECONDS, "balances_not_kept", "broker_tells_no_balances")


async def _sweep_for_ever(
    refresh: RefreshMarkets | RefreshBalances, pause_seconds: float, sweep_failed: str, call_failed: str
) -> None:
    """Log a failed call when it first occurs."""
    log, reported = structlog.get_logger(), set[tuple[str, str]]()
    while True:
        try:
            await refresh.sweep()
        except UNAVAILABLE as error:
            log.warning(sweep_failed, error=repr(error))
        except Exception:
            log.exception(sweep_failed)
        for broker, why in refresh.failures.keys() - reported:
            log.warning(call_failed, broker=broker, why=why, times=refresh.failures[broker, why])
        reported = {*refresh.failures}
        refresh.failures.clear()
        await asyncio.sleep(pause_seconds)


async def measure_losses(losses: MeasureLosses, slots: SlotLeases) -> None:
    """Measure the losses of the executor's accounts until cancelled; log a failure when it first occurs."""
    log, reported = structlog.get_logger(), set[tuple[str, str]]()
    while True:
        try:
            await losses.sweep(slots.held())
        except UNAVAILABLE as error:
            log.warning("losses_not_measured", error=repr(error))
        except Exception:
            log.exception("losses_not_measured")
        for account_id, error_text in losses.failures.keys() - reported:
            log.warning("loss_not_measured", account_id=account_id, error=error_text)
        reported = {*losses.failures}
        losses.failures.clear()
        await asyncio.sleep(LOSS_SECONDS)


async def save_books(store: ExecutorBookStore, slots: SlotLeases) -> None:
    """Save the books of the executor's accounts until cancelled."""
    save, log = SaveBooks(store, store), structlog.get_logger()
    while True:
        is_more = False
        try:
            is_more = await save(slots.held())
        except UNAVAILABLE as error:
            log.warning("books_not_saved", error=repr(error))
        except Exception:
            log.exception("books_not_saved")
        await asyncio.sleep(0.0 if is_more else BOOKS_SECONDS)
