"""Runs the relay: publishes outbox rows, delivers webhooks, prunes old rows and finishes deletions of users."""

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final
from uuid import UUID

import structlog
from nats.aio.msg import Msg

from openbell_server.adapters.jetstream import subjects
from openbell_server.adapters.jetstream.connection import JetStreamConnection
from openbell_server.adapters.jetstream.event_wakes import EventWakes
from openbell_server.adapters.jetstream.publishing import (
    JetStreamPublisher,
    Messages,
    NoPublisher,
    account_messages,
    user_messages,
    work_messages,
)
from openbell_server.adapters.postgres.access.credentials import PostgresCredentialStore
from openbell_server.adapters.postgres.access.orphaned_secrets import destroy_orphaned_across_organizations
from openbell_server.adapters.postgres.access.user_deletions import PostgresUserDeletionStore
from openbell_server.adapters.postgres.connection import (
    OUTDATED,
    RELAY_POOL_SETTINGS,
    UNAVAILABLE,
    DatabaseClock,
    Pool,
    Role,
    open_pool,
    open_role_pool,
)
from openbell_server.adapters.postgres.events.delivery_queue import PostgresDeliveryQueueStore
from openbell_server.adapters.postgres.events.event_pruning import PruneEvents
from openbell_server.adapters.postgres.events.outbox import PostgresOutboxStore
from openbell_server.adapters.postgres.schema import require_schema
from openbell_server.application.access.delete_user import FinishDeletions
from openbell_server.application.access.warn_before_expiry import WarnOfExpiry
from openbell_server.application.events.relay_outbox import RelayOutbox
from openbell_server.domain.events.outbox import ClaimedRow, Queue
from openbell_server.processes.authentication import identity_provider
from openbell_server.processes.execution_metrics import watch_queues
from openbell_server.processes.lifecycle import boot_time
from openbell_server.processes.metrics import ObserveRound, watch_pruning, watch_rounds
from openbell_server.processes.operations_port import Operations
from openbell_server.processes.webhooks import deliver_webhooks
from openbell_server.settings import Settings

# Longest delay after a lost notification.
POLL_SECONDS: Final = 1.0
# The api has notified the executor, which also looks for waiting work itself: a message is the last resort.
HEAD_START_SECONDS: Final = {Queue.INTENTS: 3.0}
# Pause between batches of a queue: every notification wakes all queues, and most are for accounts.
PAUSE_SECONDS: Final = {Queue.INTENTS: 0.0, Queue.ACCOUNTS: 0.02, Queue.USERS: 0.2}
# Concurrent batches of a queue after a full one.
ROUNDS_MAX: Final = 2
# One connection per batch, and one to prune.
LANES: Final = len(Queue) * ROUNDS_MAX + 1
# A relay that is paused inside a transaction must not lock rows for longer.
IDLE_SECONDS: Final = 1
DELETIONS_POLL_SECONDS: Final = 1.0
PRUNE_POLL_SECONDS: Final = 60.0
# Retention of events counts in days; the pause leaves the database to others between accounts.
PRUNE_EVENTS_POLL_SECONDS: Final = 600.0
PRUNE_EVENTS_PAUSE_SECONDS: Final = 0.05
STREAMS: Final[dict[Queue, tuple[str, Messages]]] = {
    Queue.ACCOUNTS: (subjects.ACCOUNT_STREAM, account_messages),
    Queue.INTENTS: (subjects.WORK_STREAM, work_messages),
    Queue.USERS: (subjects.USER_STREAM, user_messages),
}
# Credentials expire on a day, so half a minute is precise enough.
EXPIRY_POLL_SECONDS: Final = 30.0


async def serve(
    settings: Settings, stopping: asyncio.Event, operations: Operations, connection: JetStreamConnection
) -> None:
    awake = {queue: asyncio.Event() for queue in Queue}

    async def wake(_: Msg) -> None:
        for event in awake.values():
            event.set()

    connection.on(subjects.OUTBOX_WAKE, wake)
    wakes = EventWakes(connection)
    url = settings.require("database_url")
    async with contextlib.AsyncExitStack() as opened:
        pool = await opened.enter_async_context(await open_pool(url, connections_max=6, idle_seconds=IDLE_SECONDS))
        # Before a role is taken: an empty database has none.
        await require_schema(pool)
        lanes = await opened.enter_async_context(await open_role_pool(url, Role.RELAY, LANES, RELAY_POOL_SETTINGS))
        provider = await opened.enter_async_context(identity_provider(settings))
        operations.watch_database(pool)
        operations.watch_nats(connection, needed=True)
        watch_queues(operations, pool)
        observe = watch_rounds(operations)
        stores = {
            queue: PostgresOutboxStore(lanes, queue, settings.outbox_attempts_max, HEAD_START_SECONDS.get(queue, 0.0))
            for queue in Queue
        }
        aside = [
            asyncio.ensure_future(_prune(stores, settings.outbox_keep_hours * 3600, PostgresDeliveryQueueStore(pool))),
            asyncio.ensure_future(
                _prune_events(PruneEvents(pool, settings.event_retention_days * 86_400), watch_pruning(operations))
            ),
            asyncio.ensure_future(_warn_of_expiry(pool, connection)),
        ]
        if provider:
            finish = FinishDeletions(PostgresUserDeletionStore(pool), settings.identity_provider, provider)
            aside.append(asyncio.ensure_future(_finish_deletions(finish)))
        deliveries = asyncio.ensure_future(deliver_webhooks(settings, wakes, operations, stopping))
        connection.start()
        operations.part_started()
        try:
            # Concurrently, so that one that is blocked does not block another.
            await asyncio.gather(
                *(
                    _relay(queue, _relay_of(pool, connection, store), observe, awake[queue], stopping)
                    for queue, store in stores.items()
                ),
                deliveries,
            )
        finally:
            for task in aside:
                task.cancel()
            await asyncio.gather(*aside, return_exceptions=True)


def _relay_of(pool: Pool, connection: JetStreamConnection, store: PostgresOutboxStore) -> RelayOutbox:
    async def destroy_secrets(rows: Sequence[ClaimedRow]) -> None:
        try:
            await destroy_orphaned_across_organizations(pool, sorted({UUID(row.in_order_of) for row in rows}))
        except Exception as error:
            structlog.get_logger().warning("secrets_not_destroyed", error=repr(error))
            raise

    finish = destroy_secrets if store.queue is Queue.ACCOUNTS else None
    publisher = JetStreamPublisher(connection, *STREAMS[store.queue]) if connection.is_configured else NoPublisher()
    return RelayOutbox(store, publisher, _jitter, boot_time, finish)


async def _relay(
    queue: Queue, relay: RelayOutbox, observe: ObserveRound, awake: asyncio.Event, stopping: asyncio.Event
) -> None:
    """Relay the batches of one queue: one at a time, or ROUNDS_MAX while it is full."""
    is_more = False
    while not stopping.is_set():
        awake.clear()
        is_more = await _try(partial(_round, queue, relay, observe, ROUNDS_MAX if is_more else 1))
        if not is_more:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(awake.wait(), POLL_SECONDS)
        await asyncio.sleep(PAUSE_SECONDS[queue])


async def _finish_deletions(finish: FinishDeletions) -> None:
    """Run until cancelled; an interrupted deletion is resumed."""

    async def finished() -> bool:
        return await finish() > 0

    while True:
        if not await _try(finished):
            await asyncio.sleep(DELETIONS_POLL_SECONDS)


async def _prune(
    stores: Mapping[Queue, PostgresOutboxStore], keep_seconds: float, webhooks: PostgresDeliveryQueueStore
) -> None:
    """Remove completed rows and attempts that are old enough, a limited number at a time, until cancelled."""

    async def prune(name: str, remove: Callable[[], Awaitable[int]]) -> bool:
        removed = await remove()
        if removed:
            structlog.get_logger().info("outbox_pruned", queue=name, rows=removed)
        return removed > 0

    removes: dict[str, Callable[[], Awaitable[int]]] = {
        queue: partial(store.prune_across_organizations, keep_seconds) for queue, store in stores.items()
    }
    removes["webhook_attempts"] = webhooks.prune_across_organizations
    while True:
        if not any([await _try(partial(prune, *each)) for each in removes.items()]):
            await asyncio.sleep(PRUNE_POLL_SECONDS)


async def _prune_events(prune: PruneEvents, observe: Callable[[int], None]) -> None:
    """Remove events past their retention, a limited number of one account at a time, until cancelled."""

    async def pruned() -> bool:
        removed = await prune.across_organizations()
        if removed:
            observe(removed)
            structlog.get_logger().info("events_pruned", rows=removed)
        return removed is not None

    while True:
        is_more = await _try(pruned)
        await asyncio.sleep(PRUNE_EVENTS_PAUSE_SECONDS if is_more else PRUNE_EVENTS_POLL_SECONDS)


async def _warn_of_expiry(pool: Pool, queue: JetStreamConnection) -> None:
    warn = WarnOfExpiry(PostgresCredentialStore(pool, DatabaseClock(pool)), queue)
    while True:
        if not await _try(warn):
            await asyncio.sleep(EXPIRY_POLL_SECONDS)


def _jitter() -> float:
    return random.uniform(0.8, 1.2)  # noqa: S311 - only spreads the retries


async def _try(work: Callable[[], Awaitable[bool]]) -> bool:
    """Run one batch; returns whether there may be more to do at once."""
    log = structlog.get_logger()
    try:
        return await work()
    except OUTDATED:
        # prune_events comes with revision 0002; until then the relay prunes nothing.
        return False
    except UNAVAILABLE as error:
        log.warning("relay_round_failed", error=repr(error))
    except Exception:
        log.exception("relay_round_failed")
    return False


async def _round(queue: Queue, relay: RelayOutbox, observe: ObserveRound, rounds: int) -> bool:
    begun = time.perf_counter()
    batch = await relay.together(rounds)
    observe(queue, batch, time.perf_counter() - begun)
    log = structlog.get_logger()
    if batch.claimed:
        log.info("relayed", queue=queue, claimed=batch.claimed, completed=batch.completed, released=batch.released)
    for outbox_id in batch.failed:
        log.error("outbox_row_failed", queue=queue, outbox_id=outbox_id)
    return batch.is_more
