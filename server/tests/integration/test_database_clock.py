"""The database's clock as processes have it: read once a second for all, and never ahead."""

import asyncio

import pytest

from openbell_server.adapters.postgres import connection
from openbell_server.adapters.postgres.connection import DatabaseClock, Pool


async def test_it_never_shows_what_the_database_will_show(pool: Pool) -> None:
    clock = DatabaseClock(pool)
    for _ in range(50):
        shown = await clock.now()
        assert shown <= await pool.fetchval("select clock_timestamp()")


async def test_those_who_find_it_old_together_wait_for_one_reading(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, readings, read = DatabaseClock(pool), [], connection._queries.database_micros

    async def counted(of: Pool) -> int:
        readings.append(of)
        micros: int = await read(of)
        return micros

    monkeypatch.setattr(connection._queries, "database_micros", counted)
    await asyncio.gather(*(clock.now() for _ in range(20)))
    await clock.now()
    assert len(readings) == 1
    monkeypatch.setattr(connection, "CLOCK_REFRESH_SECONDS", -1.0)
    await clock.now()
    assert len(readings) == 2


async def test_a_reading_that_failed_is_tried_again(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = DatabaseClock(pool)
    with monkeypatch.context() as patched:

        async def lost(_: Pool) -> int:
            raise ConnectionResetError

        patched.setattr(connection._queries, "database_micros", lost)
        with pytest.raises(ConnectionResetError):
            await clock.now()
    assert await clock.now() <= await pool.fetchval("select clock_timestamp()")
