"""Lanes of webhooks, as whoever delivers works them: claimed, held on to, and given back, fenced by claim tokens."""

from dataclasses import dataclass
from typing import Final

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Pool, Role, transaction
from openbell_server.application.deliver_webhooks import LEASE_SECONDS, ClaimedLane, Destination
from openbell_server.domain.account_events import EventKind

# In anybody's hands at once, and of these such as failed: enough to see whether a target is back.
WEBHOOK_LANES_MAX: Final = 8
WEBHOOK_FAILING_MAX: Final = 2
ORGANIZATION_LANES_MAX: Final = 16
ORGANIZATION_FAILING_MAX: Final = 4
ADD_LANES_MAX: Final = 1000
_queries = named_queries.load("webhook_lanes")


@dataclass(frozen=True, slots=True)
class PostgresLaneStore:
    """Implements LaneStore."""

    pool: Pool

    async def add_lanes_across_organizations(self) -> int:
        """Begin lanes for accounts created after their webhooks; how many."""
        async with transaction(self.pool, Role.RELAY) as connection:
            rows = _queries.add_lanes_across_organizations(connection, row_limit=ADD_LANES_MAX)
            return len([row async for row in rows])

    async def claim_across_organizations(self, limit: int, failing_limit: int) -> list[ClaimedLane]:
        """Take lanes that are behind and due; of each organization and each webhook only so many."""
        async with transaction(self.pool, Role.RELAY) as connection:
            rows = _queries.claim_across_organizations(
                connection,
                row_limit=limit,
                failing_limit=failing_limit,
                webhook_lanes_max=WEBHOOK_LANES_MAX,
                webhook_failing_max=WEBHOOK_FAILING_MAX,
                organization_lanes_max=ORGANIZATION_LANES_MAX,
                organization_failing_max=ORGANIZATION_FAILING_MAX,
                lease_seconds=LEASE_SECONDS,
            )
            return [ClaimedLane(**row) async for row in rows]

    async def save(
        self, lane: ClaimedLane, position: int, previous: int | None, status: int | None
    ) -> Destination | None:
        """Keep how far it came, and hold it on; None where nothing may be sent there any more."""
        async with transaction(self.pool, Role.TENANT, lane.organization_id) as connection:
            row = await _queries.save_lane(
                connection,
                **_key(lane),
                lane_position=position,
                sent_seq=previous,
                answered=status,
                lease_seconds=LEASE_SECONDS,
            )
        if row is None:
            return None
        newest = row["secret_version"]
        versions = (newest, newest - 1) if row["signs_by_both"] else (newest,)
        return Destination(row["url"], frozenset(map(EventKind, row["kinds"])), versions)

    async def release(self, lane: ClaimedLane) -> None:
        """Give it back, due at once."""
        async with transaction(self.pool, Role.TENANT, lane.organization_id) as connection:
            await _queries.release_lane(connection, **_key(lane))

    async def fail(
        self, lane: ClaimedLane, status: int | None, error: str, wait_seconds: float, park_seconds: float
    ) -> bool:
        """Give it back for a later try; whether it failed for so long that it is parked."""
        async with transaction(self.pool, Role.TENANT, lane.organization_id) as connection:
            parked = await _queries.fail_lane(
                connection,
                **_key(lane),
                last_status=status,
                last_error=error,
                pause_seconds=wait_seconds,
                park_seconds=park_seconds,
            )
        return bool(parked)

    async def end(self, lane: ClaimedLane, url: str) -> None:
        """Give it back: at this address nobody wants anything any more."""
        async with transaction(self.pool, Role.TENANT, lane.organization_id) as connection:
            await _queries.end_webhook(connection, **_key(lane), lane_url=url)

    async def counts_across_organizations(self) -> tuple[int, int]:
        """How many lanes are behind, and how many are parked."""
        async with transaction(self.pool, Role.RELAY) as connection:
            row = await _queries.count_lanes_across_organizations(connection)
            return row["behind"], row["parked"]


def _key(lane: ClaimedLane) -> dict[str, object]:
    return {
        "organization_id": lane.organization_id,
        "webhook_id": lane.webhook_id,
        "account_id": lane.account_id,
        "lane_token": lane.claim_token,
    }
