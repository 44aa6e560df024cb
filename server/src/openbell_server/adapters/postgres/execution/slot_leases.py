"""Stores which executor holds which slots, and until when, by the database's clock."""

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import PostgresStore, Role, transaction

_queries = named_queries.load("slot_leases")


@dataclass(frozen=True, slots=True)
class PostgresLeaseStore(PostgresStore):
    """Implements LeaseStore."""

    async def join(self, executor_id: UUID) -> None:
        async with transaction(self.pool, Role.EXECUTOR) as connection:
            await _queries.remove_earlier_runs(connection, executor_id=executor_id)
            await _queries.add_executor(connection, executor_id=executor_id)

    async def renew(self, executor_id: UUID, seconds: float) -> tuple[set[int], int]:
        renewed = await self._one_across(
            Role.EXECUTOR, _queries.renew_registered, executor_id=executor_id, seconds=seconds
        )
        if renewed is not None:
            return set(renewed["slots"]), renewed["alive"]
        return await self._register_again(executor_id, seconds)

    async def _register_again(self, executor_id: UUID, seconds: float) -> tuple[set[int], int]:
        async with transaction(self.pool, Role.EXECUTOR) as connection:
            await _queries.remove_expired_executors(connection)
            # In this order: the run that deleted our row has added its own row in the same transaction.
            if not await _queries.refresh_executor(connection, executor_id=executor_id):
                if await _queries.has_other_run(connection, executor_id=executor_id, seconds=seconds):
                    return set(), 0
                await _queries.add_executor(connection, executor_id=executor_id)
            held = {row["slot"] async for row in _queries.renew(connection, executor_id=executor_id, seconds=seconds)}
            return held, await _queries.count_executors(connection, seconds=seconds)

    async def take(self, executor_id: UUID, seconds: float, limit: int) -> set[int]:
        rows = await self._rows_across(
            Role.EXECUTOR, _queries.take, executor_id=executor_id, seconds=seconds, row_limit=limit
        )
        return {row["slot"] for row in rows}

    async def release(self, executor_id: UUID, slots: Collection[int]) -> None:
        await self._one_across(Role.EXECUTOR, _queries.release, executor_id=executor_id, slots=sorted(slots))

    async def leave(self, executor_id: UUID) -> None:
        await self._one_across(Role.EXECUTOR, _queries.remove_executor, executor_id=executor_id)
