"""Delivers events to webhooks, beside the outbox: woken by hints, and by a sweep where they get lost."""

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import structlog

from openbell_server.adapters.jetstream.event_wakes import EventWakes
from openbell_server.adapters.postgres.connection import OUTDATED, UNAVAILABLE, Pool, open_pool
from openbell_server.adapters.postgres.events import PostgresEventStore
from openbell_server.adapters.postgres.webhook_lanes import PostgresLaneStore
from openbell_server.adapters.webhooks.posting import WebhookPoster
from openbell_server.application.deliver_webhooks import DeliverWebhooks, SignAndPost
from openbell_server.domain.identifiers import AccountId
from openbell_server.processes.lifecycle import boot_time
from openbell_server.processes.operations import Operations
from openbell_server.settings import Settings
from openbell_server.telemetry.instruments import Values

# A hint that got lost costs at most this much.
SWEEP_SECONDS: Final = 0.5
# Between claims: many hints come at once, and a claim looks at all lanes.
PAUSE_SECONDS: Final = 0.05
ADD_LANES_SECONDS: Final = 1.0
DRAIN_SECONDS: Final = 5.0
CONNECTIONS_MAX: Final = 6
OUTCOMES: Final = ("delivered", "failed", "parked", "gone")
_LANES: Final = {
    "openbell_webhook_lanes_behind": ("Accounts whose newest events a webhook has not yet, but for parked ones.", ()),
    "openbell_webhook_lanes_parked": ("Accounts of whose events nothing is sent to a webhook until it is resumed.", ()),
}


async def deliver_webhooks(
    settings: Settings, wakes: EventWakes, operations: Operations, stopping: asyncio.Event
) -> None:
    """Deliver until stopping is set; nothing where there is no key to sign with."""
    key = settings.webhook_key.get_secret_value()
    if not key:
        return
    awake = asyncio.Event()

    def wake(_: AccountId) -> None:
        awake.set()

    wakes.listen(wake)
    poster = WebhookPoster(private_allowed=settings.webhook_private_targets)
    async with await open_pool(settings.require("database_url"), connections_max=CONNECTIONS_MAX) as pool:
        store = PostgresLaneStore(pool)
        deliver = DeliverWebhooks(
            store,
            PostgresEventStore(pool),
            SignAndPost(poster, key.encode(), time.time),
            lambda: random.uniform(0.8, 1.2),  # noqa: S311 - only spreads the tries
            boot_time,
            settings.webhook_park_hours * 3600,
            _tell,
            awake.set,
        )
        watch_webhooks(operations, pool, deliver)
        adding = asyncio.ensure_future(_add_lanes(store))
        try:
            while not stopping.is_set():
                awake.clear()
                if not await _try(deliver):
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(awake.wait(), SWEEP_SECONDS)
                await asyncio.sleep(PAUSE_SECONDS)
        finally:
            adding.cancel()
            await asyncio.gather(adding, return_exceptions=True)
            await deliver.drain(DRAIN_SECONDS)
            await poster.close()


def watch_webhooks(operations: Operations, pool: Pool, deliver: DeliverWebhooks) -> None:
    """What became of deliveries here, and how lanes stand anywhere."""

    async def lanes() -> Mapping[str, Values]:
        counts = await PostgresLaneStore(pool).counts_across_organizations()
        return {name: {(): count} for name, count in zip(_LANES, counts, strict=True)}

    operations.instruments.read(
        "counter",
        "openbell_webhook_deliveries_total",
        "Deliveries that this process tried: delivered, failed, of these the last before a lane was parked, and gone.",
        ("outcome",),
        lambda: {(outcome,): deliver.outcomes[outcome] for outcome in OUTCOMES},
    )
    operations.from_store(lanes, _LANES)


async def _add_lanes(store: PostgresLaneStore) -> None:
    """Until cancelled."""

    async def added() -> bool:
        return await store.add_lanes_across_organizations() > 0

    while True:
        if not await _try(added):
            await asyncio.sleep(ADD_LANES_SECONDS)


async def _try(work: Callable[[], Awaitable[bool]]) -> bool:
    try:
        return await work()
    except Exception as error:  # noqa: BLE001 - told, and tried again
        _tell(error)
    return False


def _tell(error: Exception) -> None:
    log = structlog.get_logger()
    if isinstance(error, UNAVAILABLE):
        log.warning("webhook_round_failed", error=repr(error))
    elif not isinstance(error, OUTDATED):
        # What it needs is not there before the database is migrated.
        log.error("webhook_round_failed", exc_info=error)
