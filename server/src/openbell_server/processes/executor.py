"""The executor: takes queued actions through the door to their broker and follows their orders."""

import asyncio
import contextlib
from uuid import UUID, uuid4

import structlog
from nats.aio.msg import Msg

from openbell_server.adapters.jetstream import subjects
from openbell_server.adapters.jetstream.connection import JetStreamConnection
from openbell_server.adapters.jetstream.consumer import consume_work
from openbell_server.adapters.postgres.connection import UNAVAILABLE, open_pool
from openbell_server.adapters.postgres.execution import PostgresExecutionStore
from openbell_server.adapters.postgres.leases import PostgresLeaseStore
from openbell_server.adapters.postgres.recovery import PostgresRecoveryStore
from openbell_server.adapters.postgres.schema import require_schema
from openbell_server.application.execute_action import ExecuteAction
from openbell_server.application.follow_broker import FollowBroker
from openbell_server.application.hold_slots import RENEW_SECONDS, HoldSlots, run_id
from openbell_server.application.recover_account import RecoverAccount
from openbell_server.application.settle_unknown import SettleUnknown
from openbell_server.application.track_orders import TrackOrders
from openbell_server.application.work_accounts import SWEEP_SECONDS, WorkAccounts
from openbell_server.brokers.registry import BROKERS
from openbell_server.domain.identifiers import AccountId
from openbell_server.processes.lifecycle import boot_time, notify_ready
from openbell_server.settings import Settings

FOLLOW_RETRY_SECONDS = 0.5


async def serve(settings: Settings, stopping: asyncio.Event) -> None:
    """Execute until stopping is set, then finish what passed its door."""
    hints = JetStreamConnection(settings.nats_url)
    addresses = {"paper": settings.paper_url}
    async with await open_pool(settings.require("database_url"), connections_max=8) as pool:
        await require_schema(pool)
        store = PostgresExecutionStore(pool)
        slots = HoldSlots(PostgresLeaseStore(pool), _identity(settings), boot_time)
        track = TrackOrders(store, hints)
        brokers = {
            name: FollowBroker(broker, await broker.open_session(addresses[name]), store, track, slots)
            for name, broker in BROKERS.items()
        }
        execute = ExecuteAction(store, hints, uuid4, boot_time, UNAVAILABLE)
        desk = WorkAccounts(
            store, execute, SettleUnknown(store, track, hints), RecoverAccount(store, track), brokers, slots
        )

        def hear(slot: int, account_id: AccountId) -> None:
            if slot in slots.held():
                desk.hear(account_id)
            else:
                hints.work_is_elsewhere(account_id)

        async def hear_passed_on(message: Msg) -> None:
            desk.hear(AccountId(UUID(message.subject.rsplit(".", 1)[-1])))

        hints.on(subjects.ALL_WORK_WAKES, hear_passed_on)
        background = [
            asyncio.ensure_future(hints.run()),
            asyncio.ensure_future(_hold(slots, PostgresRecoveryStore(pool))),
            asyncio.ensure_future(consume_work(hints, hear)),
            *(asyncio.ensure_future(_follow(broker)) for broker in brokers.values()),
        ]
        notify_ready()
        try:
            await _sweep_until(stopping, desk)
            await desk.drain()
        finally:
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            with contextlib.suppress(*UNAVAILABLE):
                await slots.release()
            for broker in brokers.values():
                await broker.session.close()


async def _sweep_until(stopping: asyncio.Event, desk: WorkAccounts) -> None:
    log = structlog.get_logger()
    while not stopping.is_set():
        try:
            await desk.sweep()
        except UNAVAILABLE as error:
            log.warning("sweep_failed", error=repr(error))
        except Exception:
            log.exception("sweep_failed")
        desk.failures += [failure for broker in desk.brokers.values() for failure in broker.take_failures()]
        while desk.failures:
            log.error("execution_failed", exc_info=desk.failures.pop())
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), SWEEP_SECONDS)


def _identity(settings: Settings) -> UUID:
    return run_id(settings.executor_name, uuid4()) if settings.executor_name else uuid4()


async def _hold(slots: HoldSlots, recovery: PostgresRecoveryStore) -> None:
    """Renew for ever; while the database is away the leases run out by themselves."""
    while True:
        try:
            if await recovery.notice_restore():
                structlog.get_logger().error("database_was_restored", accounts="held until compared with their broker")
            await slots.renew()
        except UNAVAILABLE as error:
            structlog.get_logger().warning("lease_not_renewed", error=repr(error))
        except Exception:  # noqa: BLE001 - an executor that stops renewing lives on and works no more
            structlog.get_logger().exception("lease_not_renewed")
        await asyncio.sleep(RENEW_SECONDS)


async def _follow(broker: FollowBroker) -> None:
    """Follow a broker for ever; when following breaks, it begins anew with a comparison."""
    while True:
        try:
            await broker.run()
        except Exception:  # noqa: BLE001 - whatever broke, the next run starts from the broker's own word
            structlog.get_logger().exception("following_failed", broker=broker.definition.name)
        await asyncio.sleep(FOLLOW_RETRY_SECONDS)
