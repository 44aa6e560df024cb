"""The outbox worker: tells executors, through JetStream, that an account has work."""

import asyncio
import contextlib
import random

import structlog
from nats.aio.msg import Msg

from openbell_server.adapters.jetstream import subjects
from openbell_server.adapters.jetstream.connection import JetStreamConnection
from openbell_server.adapters.postgres.connection import UNAVAILABLE, open_pool
from openbell_server.adapters.postgres.outbox import PostgresOutboxStore
from openbell_server.adapters.postgres.schema import require_schema
from openbell_server.application.relay_outbox import RelayOutbox
from openbell_server.processes.lifecycle import boot_time, notify_ready
from openbell_server.settings import Settings

# A wake-up that got lost costs at most this much.
POLL_SECONDS = 0.5


async def serve(settings: Settings, stopping: asyncio.Event) -> None:
    """Relay rows until stopping is set."""
    awake = asyncio.Event()

    async def wake(_: Msg) -> None:
        awake.set()

    queue = JetStreamConnection(settings.nats_url)
    queue.on(subjects.OUTBOX_WAKE, wake)
    async with await open_pool(settings.require("database_url"), connections_max=2) as pool:
        await require_schema(pool)
        relay = RelayOutbox(PostgresOutboxStore(pool), queue, _jitter, boot_time)
        connecting = asyncio.ensure_future(queue.run())
        notify_ready()
        try:
            while not stopping.is_set():
                awake.clear()
                if not await _round(relay):
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(awake.wait(), POLL_SECONDS)
        finally:
            connecting.cancel()
            await asyncio.gather(connecting, return_exceptions=True)


def _jitter() -> float:
    return random.uniform(0.8, 1.2)  # noqa: S311 - only spreads the tries


async def _round(relay: RelayOutbox) -> bool:
    """One round; whether there may be more to do at once."""
    log = structlog.get_logger()
    try:
        batch = await relay()
    except UNAVAILABLE as error:
        log.warning("relay_round_failed", error=repr(error))
        return False
    except Exception:
        log.exception("relay_round_failed")
        return False
    if batch.claimed:
        log.info("relayed", claimed=batch.claimed, completed=batch.completed, released=batch.released)
    return batch.completed > 0
