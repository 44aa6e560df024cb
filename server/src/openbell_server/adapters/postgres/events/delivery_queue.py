"""Claims, saves and releases the delivery queues of webhooks; a claim token fences off an earlier holder."""

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import PostgresStore, Role
from openbell_server.application.webhooks.deliver_webhooks import LEASE_SECONDS, ClaimedQueue, Destination, Tried
from openbell_server.domain.events.account_events import EventKind

# Queues claimed at once, and queues whose last try failed: enough to notice that a target works again.
WEBHOOK_QUEUES_MAX: Final = 8
WEBHOOK_FAILING_MAX: Final = 2
ORGANIZATION_QUEUES_MAX: Final = 16
ORGANIZATION_FAILING_MAX: Final = 4
ADD_QUEUES_MAX: Final = 1000
KEEP_ATTEMPTS_SECONDS: Final = 3 * 86_400.0
PRUNE_ATTEMPTS_MAX: Final = 500
_queries = named_queries.load("delivery_queue")


@dataclass(frozen=True, slots=True)
class PostgresDeliveryQueueStore(PostgresStore):
    """Implements DeliveryQueueStore."""

    role: ClassVar[Role] = Role.DELIVERY

    async def add_queues_across_organizations(self) -> int:
        add_lanes = _queries.add_lanes_across_organizations
        return len(await self._rows_across(Role.RELAY, add_lanes, row_limit=ADD_QUEUES_MAX))

    async def has_queues_across_organizations(self) -> bool:
        return bool(await self._one_across(Role.RELAY, _queries.has_lanes_across_organizations))

    async def claim_across_organizations(self, limit: int, failing_limit: int) -> list[ClaimedQueue]:
        rows = await self._rows_across(
            Role.RELAY,
            _queries.claim_across_organizations,
            row_limit=limit,
            failing_limit=failing_limit,
            webhook_lanes_max=WEBHOOK_QUEUES_MAX,
            webhook_failing_max=WEBHOOK_FAILING_MAX,
            organization_lanes_max=ORGANIZATION_QUEUES_MAX,
            organization_failing_max=ORGANIZATION_FAILING_MAX,
            lease_seconds=LEASE_SECONDS,
        )
        return [ClaimedQueue(**row) for row in rows]

    async def save(
        self, queue: ClaimedQueue, position: int, previous: int | None, tried: Tried | None
    ) -> Destination | None:
        row = await self._one(
            _queries.save_lane,
            **_key(queue),
            lane_position=position,
            sent_seq=previous,
            answered=tried and tried.status,
            message_id=tried and tried.message_id,
            duration_millis=tried and tried.duration_millis,
            lease_seconds=LEASE_SECONDS,
        )
        if row is None:
            return None
        newest = row["secret_version"]
        versions = (newest, newest - 1) if row["signs_by_both"] else (newest,)
        return Destination(row["url"], frozenset(map(EventKind, row["kinds"])), versions)

    async def release(self, queue: ClaimedQueue) -> None:
        await self._one(_queries.release_lane, **_key(queue))

    async def fail(
        self, queue: ClaimedQueue, number: int, tried: Tried, wait_seconds: float, park_seconds: float
    ) -> bool:
        parked = await self._one(
            _queries.fail_lane,
            **_key(queue),
            **_result(number, tried),
            last_error=tried.message,
            pause_seconds=wait_seconds,
            park_seconds=park_seconds,
        )
        return bool(parked)

    async def end(self, queue: ClaimedQueue, number: int, tried: Tried, url: str) -> None:
        await self._one(_queries.end_webhook, **_key(queue), **_result(number, tried), lane_url=url)

    async def prune_across_organizations(self) -> int:
        """Remove attempts that are old enough, a limited number of each webhook; returns how many."""
        prune, limits = _queries.prune_attempts_across_organizations, {"row_limit": PRUNE_ATTEMPTS_MAX}
        return len(await self._rows_across(Role.RELAY, prune, keep_seconds=KEEP_ATTEMPTS_SECONDS, **limits))

    async def counts_across_organizations(self) -> tuple[int, int]:
        row = await self._one_across(Role.HEALTH, _queries.count_lanes_across_organizations)
        return row["behind"], row["parked"]


def _key(queue: ClaimedQueue) -> dict[str, Any]:
    return {
        "organization_id": queue.organization_id,
        "webhook_id": queue.webhook_id,
        "account_id": queue.account_id,
        "lane_token": queue.claim_token,
    }


def _result(number: int, tried: Tried) -> dict[str, Any]:
    return {
        "sent_seq": number,
        "message_id": tried.message_id,
        "duration_millis": tried.duration_millis,
        "last_status": tried.status,
        "trouble": tried.trouble,
    }
