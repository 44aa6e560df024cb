"""The outbox worker: tells others, through JetStream, what the queues say, and finishes deletions of users."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable

import structlog
from nats.aio.msg import Msg

from openbell_server.adapters.jetstream import subjects
from openbell_server.adapters.jetstream.connection import JetStreamConnection
from openbell_server.adapters.postgres.connection import OUTDATED, UNAVAILABLE, Pool, open_pool
from openbell_server.adapters.postgres.outbox import PostgresOutboxStore, PostgresUserOutboxStore
from openbell_server.adapters.postgres.schema import require_schema
from openbell_server.adapters.postgres.user_deletions import PostgresUserDeletionStore
from openbell_server.application.delete_user import FinishDeletions
from openbell_server.application.ports.identity_provider import IdentityProvider
from openbell_server.application.relay_outbox import RelayOutbox, Row, UserNotices, WorkNotices
from openbell_server.processes.callers import identity_provider
from openbell_server.processes.lifecycle import boot_time, notify_ready
from openbell_server.settings import Settings

# A wake-up that got lost costs at most this much.
POLL_SECONDS = 0.5
USERS_POLL_SECONDS = 1.0


async def serve(settings: Settings, stopping: asyncio.Event) -> None:
    """Relay rows until stopping is set."""
    awake = asyncio.Event()

    async def wake(_: Msg) -> None:
        awake.set()

    queue = JetStreamConnection(settings.nats_url)
    queue.on(subjects.OUTBOX_WAKE, wake)
    async with (
        await open_pool(settings.require("database_url"), connections_max=4) as pool,
        identity_provider(settings) as provider,
    ):
        await require_schema(pool)
        relay = RelayOutbox(PostgresOutboxStore(pool), WorkNotices(queue), _jitter, boot_time)
        connecting = asyncio.ensure_future(queue.run())
        # Apart from the intents: what waits for an identity provider must hold up nobody's order.
        serving_users = asyncio.ensure_future(_serve_users(pool, queue, settings.identity_provider, provider))
        notify_ready()
        try:
            while not stopping.is_set():
                awake.clear()
                if not await _try(lambda: _round(relay)):
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(awake.wait(), POLL_SECONDS)
        finally:
            connecting.cancel()
            serving_users.cancel()
            await asyncio.gather(connecting, serving_users, return_exceptions=True)


async def _serve_users(
    pool: Pool, queue: JetStreamConnection, provider_name: str, provider: IdentityProvider | None
) -> None:
    """Finish deletions and tell of them, until cancelled; whatever is cut off is taken up again."""
    relay = RelayOutbox(PostgresUserOutboxStore(pool), UserNotices(queue), _jitter, boot_time)
    finish = FinishDeletions(PostgresUserDeletionStore(pool), provider_name, provider) if provider else None

    async def finished() -> bool:
        return finish is not None and await finish() > 0

    while True:
        more = [await _try(finished), await _try(lambda: _round(relay))]
        if not any(more):
            await asyncio.sleep(USERS_POLL_SECONDS)


def _jitter() -> float:
    return random.uniform(0.8, 1.2)  # noqa: S311 - only spreads the tries


async def _try(work: Callable[[], Awaitable[bool]]) -> bool:
    """One round of something; whether there may be more to do at once."""
    log = structlog.get_logger()
    try:
        return await work()
    except OUTDATED:
        # The queue is not there before the database is migrated.
        return False
    except UNAVAILABLE as error:
        log.warning("relay_round_failed", error=repr(error))
    except Exception:
        log.exception("relay_round_failed")
    return False


async def _round(relay: RelayOutbox[Row]) -> bool:
    batch = await relay()
    if batch.claimed:
        structlog.get_logger().info(
            "relayed", claimed=batch.claimed, completed=batch.completed, released=batch.released
        )
    return batch.completed > 0
