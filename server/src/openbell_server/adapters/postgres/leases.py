"""Slot leases: who works what, for how long, by the database's clock."""

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Pool, Role, transaction

_queries = named_queries.load("leases")


@dataclass(frozen=True, slots=True)
class PostgresLeaseStore:
    """Implements LeaseStore."""

    pool: Pool

    async def join(self, executor_id: UUID) -> None:
        """Come in the place of earlier runs of the same name: their slots can be taken at once."""
        async with transaction(self.pool, Role.EXECUTOR) as connection:
            await _queries.replace_namesakes(connection, executor_id=executor_id)
            await _queries.join_the_living(connection, executor_id=executor_id)

    async def renew(self, executor_id: UUID, seconds: float) -> tuple[set[int], int]:
        """Hold on to what is ours; which slots those are, and how many executors live: none for one replaced."""
        async with transaction(self.pool, Role.EXECUTOR) as connection:
            await _queries.forget_the_dead(connection)
            # In this order: whoever deletes our row has brought its own by the time we find that ours is gone.
            if not await _queries.be_seen(connection, executor_id=executor_id):
                if await _queries.has_living_namesake(connection, executor_id=executor_id, seconds=seconds):
                    return set(), 0
                await _queries.join_the_living(connection, executor_id=executor_id)
            held = {row["slot"] async for row in _queries.renew(connection, executor_id=executor_id, seconds=seconds)}
            return held, await _queries.count_living(connection, seconds=seconds)

    async def take(self, executor_id: UUID, seconds: float, limit: int) -> set[int]:
        """Take slots that nobody holds any more."""
        async with transaction(self.pool, Role.EXECUTOR) as connection:
            rows = _queries.take(connection, executor_id=executor_id, seconds=seconds, row_limit=limit)
            return {row["slot"] async for row in rows}

    async def release(self, executor_id: UUID, slots: Collection[int]) -> None:
        """Give slots to whoever wants them."""
        async with transaction(self.pool, Role.EXECUTOR) as connection:
            await _queries.release(connection, executor_id=executor_id, slots=sorted(slots))

    async def leave(self, executor_id: UUID) -> None:
        """Stop counting as one of the living."""
        async with transaction(self.pool, Role.EXECUTOR) as connection:
            await _queries.be_gone(connection, executor_id=executor_id)
