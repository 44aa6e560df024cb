"""Stores how many streams of each organization are open in each process."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

import asyncpg
import structlog

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import UNAVAILABLE, PostgresStore, Role, describe_error, transaction
from openbell_server.application.events.stream_places import STALE_SECONDS
from openbell_server.domain.identifiers import OrganizationId

_queries = named_queries.load("stream_counts")


@dataclass(frozen=True, slots=True)
class PostgresStreamCounts(PostgresStore):
    """Implements StreamCountStore."""

    process_id: UUID

    async def raise_count(self, organization_id: OrganizationId, streams: int, streams_max: int, write_no: int) -> bool:
        try:
            async with transaction(self.pool, Role.KEYS, organization_id) as connection:
                await _queries.lock_stream_counts(connection, whose=organization_id)
                written = await _queries.raise_count(
                    connection,
                    organization_id=organization_id,
                    process_id=self.process_id,
                    streams=streams,
                    streams_max=streams_max,
                    write_no=write_no,
                    stale_seconds=STALE_SECONDS,
                )
        except asyncpg.ForeignKeyViolationError:
            # A service account named an organization that does not exist: it has no account to follow either.
            return True
        return written is not None

    async def renew_across_organizations(self, streams: Mapping[OrganizationId, int], write_no: int) -> bool:
        try:
            await self._one_across(
                Role.KEYS,
                _queries.renew_counts_across_organizations,
                process_id=self.process_id,
                organization_ids=list(streams),
                open_streams=list(streams.values()),
                write_no=write_no,
            )
        except UNAVAILABLE as error:
            structlog.get_logger().warning("open_streams_not_counted", error=describe_error(error))
            return False
        return True
