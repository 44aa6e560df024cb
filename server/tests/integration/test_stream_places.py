"""The open streams of an organization are counted over all processes."""

import asyncio
import contextlib
from uuid import uuid4

import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.events.stream_counts import PostgresStreamCounts
from openbell_server.application.events import stream_places
from openbell_server.application.events.stream_places import STALE_SECONDS, StreamPlaces
from openbell_server.domain.access.caps import caps_with
from openbell_server.domain.errors import CapReached
from openbell_server.domain.identifiers import OrganizationId
from support.brokers.paper_broker import until
from support.builders.tenant import a_tenant


def a_process(pool: Pool, streams: int = 4) -> StreamPlaces:
    return StreamPlaces(PostgresStreamCounts(pool, uuid4()), caps_with({"streams": streams})["streams"])


async def an_organization(pool: Pool) -> OrganizationId:
    return (await a_tenant(pool)).principal.organization_id


async def is_free(process: StreamPlaces, organization: OrganizationId) -> bool:
    try:
        async with process.place(organization):
            return True
    except CapReached:
        return False


async def test_processes_together_open_as_many_streams_as_the_cap_and_no_more(pool: Pool) -> None:
    organization, other = await an_organization(pool), await an_organization(pool)
    processes = [a_process(pool) for _ in range(3)]
    async with contextlib.AsyncExitStack() as held:
        opening = [held.enter_async_context(process.place(organization)) for process in processes * 5]
        refusals = [str(each) for each in await asyncio.gather(*opening, return_exceptions=True) if each is not None]
        assert len(refusals) == 15 - 4
        assert all("which is 4" in refusal and "OPENBELL_CAP_STREAMS" in refusal for refusal in refusals), refusals
        assert await is_free(processes[0], other)
    for process in processes:
        await process.close()


async def test_a_closed_stream_gives_its_place_to_another_process(pool: Pool) -> None:
    organization = await an_organization(pool)
    one, another = a_process(pool, 1), a_process(pool, 1)
    async with one.place(organization):
        assert not await is_free(one, organization)
        assert not await is_free(another, organization)
    await until(lambda: is_free(another, organization))
    for process in (one, another):
        await process.close()


async def test_a_process_that_stops_gives_its_places_back_at_once(pool: Pool) -> None:
    organization = await an_organization(pool)
    one, another = a_process(pool, 1), a_process(pool, 1)
    async with one.place(organization):
        pass
    await one.close()
    assert await is_free(another, organization)
    await another.close()


async def test_the_streams_of_a_killed_process_are_not_counted_for_ever(pool: Pool) -> None:
    organization = await an_organization(pool)
    killed, another = PostgresStreamCounts(pool, uuid4()), a_process(pool)
    assert await killed.raise_count(organization, 4, 4, 1)
    assert not await is_free(another, organization)
    await pool.execute("update stream_counts set renewed_at = renewed_at - make_interval(secs => $1)", STALE_SECONDS)
    await until(lambda: is_free(another, organization))
    rows = await pool.fetch("select process_id from stream_counts where organization_id = $1", organization)
    assert killed.process_id not in [row["process_id"] for row in rows]
    await another.close()


async def test_a_write_that_arrives_late_hides_no_stream(pool: Pool) -> None:
    organization = await an_organization(pool)
    one, another = PostgresStreamCounts(pool, uuid4()), PostgresStreamCounts(pool, uuid4())
    assert await one.raise_count(organization, 4, 4, 2)
    await one.renew_across_organizations({organization: 3}, 1)
    assert not await another.raise_count(organization, 1, 4, 1)
    # Its own earlier stream is granted: the later number includes it.
    assert await one.raise_count(organization, 3, 4, 1)
    await one.renew_across_organizations({organization: 3}, 3)
    assert await another.raise_count(organization, 1, 4, 2)


async def test_an_organization_that_does_not_exist_has_nothing_to_count_and_hinders_no_other(pool: Pool) -> None:
    organization, nobody = await an_organization(pool), OrganizationId(uuid4())
    counts = PostgresStreamCounts(pool, uuid4())
    assert await counts.raise_count(nobody, 1, 4, 1)
    assert await counts.renew_across_organizations({nobody: 1, organization: 2}, 2)
    assert await pool.fetchval("select streams from stream_counts where organization_id = $1", organization) == 2


async def test_streams_that_stay_open_are_counted_again_and_again(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_places, "RENEW_SECONDS", 0.05)
    organization = await an_organization(pool)
    one, another = a_process(pool, 1), a_process(pool, 1)
    async with one.place(organization):
        # As if it had been suspended: its row is gone, and comes back.
        await pool.execute("delete from stream_counts")

        async def is_counted() -> bool:
            return bool(await pool.fetchval("select streams from stream_counts where streams = 1"))

        await until(is_counted)
        assert not await is_free(another, organization)
    for process in (one, another):
        await process.close()
