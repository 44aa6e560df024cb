"""What an executor keeps fresh beside the orders: prices, balances, books and losses."""

import asyncio

import structlog

from openbell_server.adapters.postgres.connection import UNAVAILABLE
from openbell_server.adapters.postgres.money.books import PostgresBookStore
from openbell_server.application.execution.refresh_markets import QUOTE_SECONDS, RefreshMarkets
from openbell_server.application.execution.slot_leases import SlotLeases
from openbell_server.application.money.measure_losses import LOSS_SECONDS, MeasureLosses
from openbell_server.application.money.refresh_balances import SWEEP_SECONDS as BALANCE_SECONDS
from openbell_server.application.money.refresh_balances import RefreshBalances
from openbell_server.application.money.save_books import BOOKS_SECONDS, SaveBooks


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


async def save_books(store: PostgresBookStore, slots: SlotLeases) -> None:
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
