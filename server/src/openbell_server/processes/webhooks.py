"""Delivers events to webhooks: woken by notifications, with a sweep for lost ones."""

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import structlog

from openbell_server.adapters.jetstream.event_wakes import EventWakes
from openbell_server.adapters.postgres.connection import UNAVAILABLE, Pool, Role, open_pool, open_role_pool
from openbell_server.adapters.postgres.events.delivery_queue import PostgresDeliveryQueueStore
from openbell_server.adapters.postgres.events.events import PostgresEventStore
from openbell_server.adapters.webhooks.posting import WebhookPoster
from openbell_server.application.webhooks.deliver_webhooks import DeliverWebhooks, SignAndPost
from openbell_server.domain.identifiers import AccountId
from openbell_server.processes.lifecycle import boot_time
from openbell_server.processes.operations_port import Operations
from openbell_server.settings import Settings
from openbell_server.telemetry.instruments import Values

# Longest delay after a lost notification.
SWEEP_SECONDS: Final = 0.5
# Pause between claims, because notifications come in bursts and a claim reads all delivery queues.
PAUSE_SECONDS: Final = 0.05
ADD_LANES_SECONDS: Final = 1.0
DRAIN_SECONDS: Final = 5.0
CONNECTIONS_MAX: Final = 6
# For the statements that find queues with events.
RELAY_CONNECTIONS_MAX: Final = 2
OUTCOMES: Final = ("delivered", "failed", "parked", "gone")
_LANES: Final = {
    "openbell_webhook_lanes_behind": ("Accounts whose newest events a webhook has not yet, but for parked ones.", ()),
    "openbell_webhook_lanes_parked": ("Accounts of whose events nothing is sent to a webhook until it is resumed.", ()),
}


async def deliver_webhooks(
    settings: Settings, wakes: EventWakes, operations: Operations, stopping: asyncio.Event
) -> None:
    """Deliver until stopping is set; returns at once without a key to sign with."""
    key = settings.webhook_key.get_secret_value()
    if not key:
        return
    woken = _Woken()
    wakes.listen(woken.on_event)
    poster = WebhookPoster(private_targets=settings.webhook_private_targets)
    url = settings.require("database_url")
    async with (
        await open_pool(url, connections_max=CONNECTIONS_MAX) as pool,
        await open_role_pool(url, Role.RELAY, RELAY_CONNECTIONS_MAX, {}) as relay_pool,
    ):
        store = PostgresDeliveryQueueStore(pool, relay_pool=relay_pool)
        deliver = DeliverWebhooks(
            store,
            PostgresEventStore(pool),
            SignAndPost(poster, key.encode(), time.time),
            lambda: random.uniform(0.8, 1.2),  # noqa: S311 - only spreads the retries
            boot_time,
            settings.webhook_park_hours * 3600,
            _log_error,
            woken.event.set,
        )
        watch_webhooks(operations, pool, deliver)
        adding = asyncio.ensure_future(_add_lanes(store))
        try:
            while not stopping.is_set():
                is_swept = not woken.event.is_set()
                woken.event.clear()
                if is_swept:
                    woken.has_queues = await _try(store.has_queues_across_organizations)
                if not (woken.has_queues and await _try(deliver)):
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(woken.event.wait(), SWEEP_SECONDS)
                await asyncio.sleep(PAUSE_SECONDS)
        finally:
            adding.cancel()
            await asyncio.gather(adding, return_exceptions=True)
            await deliver.drain(DRAIN_SECONDS)
            await poster.close()


@dataclass(slots=True)
class _Woken:
    """Set when an account has news. Without any delivery queue, events wake nobody: the sweep finds the first queue."""

    event: asyncio.Event = field(default_factory=asyncio.Event)
    has_queues: bool = False

    def on_event(self, _: AccountId) -> None:
        if self.has_queues:
            self.event.set()


def watch_webhooks(operations: Operations, pool: Pool, deliver: DeliverWebhooks) -> None:
    """Metrics of this process's deliveries and of all delivery queues."""

    async def lanes() -> Mapping[str, Values]:
        counts = await PostgresDeliveryQueueStore(pool).counts_across_organizations()
        return {name: {(): count} for name, count in zip(_LANES, counts, strict=True)}

    operations.instruments.read(
        "counter",
        "openbell_webhook_deliveries_total",
        "Deliveries that this process tried: delivered, failed, of these the last before a lane was parked, and gone.",
        ("outcome",),
        lambda: {(outcome,): deliver.outcomes[outcome] for outcome in OUTCOMES},
    )
    operations.from_store(lanes, _LANES)


async def _add_lanes(store: PostgresDeliveryQueueStore) -> None:
    """Run until cancelled."""

    async def added() -> bool:
        return await store.add_queues_across_organizations() > 0

    while True:
        if not await _try(added):
            await asyncio.sleep(ADD_LANES_SECONDS)


async def _try(work: Callable[[], Awaitable[bool]]) -> bool:
    try:
        return await work()
    except Exception as error:  # noqa: BLE001 - logged and retried
        _log_error(error)
    return False


def _log_error(error: Exception) -> None:
    log = structlog.get_logger()
    if isinstance(error, UNAVAILABLE):
        log.warning("webhook_round_failed", error=repr(error))
    else:
        log.error("webhook_round_failed", exc_info=error)
