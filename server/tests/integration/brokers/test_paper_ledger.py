"""The paper broker's ledger, its feed, and what both outlive."""

import asyncio
import os
import signal
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID

import asyncpg
import httpx
import pytest

from openbell_server.brokers.paper.ledger import Ledger, LedgerInUse, queries
from openbell_server.brokers.paper.session import PaperSession
from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.orders.broker_reports import Accepted, Outcome, ReportStatus, Unknown
from openbell_server.processes.lifecycle import DRAIN_SECONDS
from support.brokers.paper_broker import (
    ACCOUNT,
    ask,
    found,
    kind,
    named,
    new_order,
    next_report,
    resting,
    running,
    settings_of,
    soon,
    subprocess_of,
    summary,
    until,
)

# Orders of the day before yesterday, of twenty accounts.
_PAST = """
insert into orders (number, account_id, client_order_id, symbol, order_side, order_type, quantity, time_in_force,
    accepted_at, status, triggered, filled_quantity)
select n, lpad((n % 20)::text, 32, '0')::uuid, 'past-' || n, 'AAPL', 'BUY', 'MARKET', 1, 'DAY',
    now() - interval '2 days', 'FILLED', true, 1
from generate_series(1, 10000) n
"""
_READ = "select sum(seq_tup_read + idx_tup_fetch)::bigint from pg_stat_xact_user_tables where schemaname = 'public'"


@pytest.mark.parametrize("plan", ["force_custom_plan", "force_generic_plan"])
async def test_a_list_of_new_orders_reads_little_of_a_long_history(ledger_url: str, plan: str) -> None:
    async with running(settings_of(ledger_url)):
        pass
    connection = await asyncpg.connect(ledger_url, timeout=60, server_settings={"plan_cache_mode": plan})
    try:
        await connection.execute(_PAST, timeout=60)
        await connection.execute("analyze", timeout=60)
        now = datetime.now(UTC)
        async with connection.transaction():
            listed = queries.orders_of(
                connection,
                account_id=UUID(int=7),
                profile="paper",
                since=now - timedelta(minutes=5),
                accepted_before=now,
                after=0,
                page=500,
            )
            assert [row async for row in listed] == []
            # The planner reads the newest order for its estimate.
            assert await connection.fetchval(_READ) <= 1
    finally:
        await connection.close(timeout=60)


async def test_the_feed_tells_every_step_of_a_partial_fill_in_order(ledger_url: str) -> None:
    async with running(settings_of(ledger_url)) as session, aclosing(session.reports()) as feed:
        assert await next_report(feed) is None
        order = new_order(quantity=Decimal(1500))
        await session.submit(order)
        steps = []
        for _ in range(3):
            told = await next_report(feed)
            assert told is not None
            account_id, report = told
            assert (account_id, report.client_order_id) == (ACCOUNT, order.client_order_id)
            steps.append((report.status, report.filled_quantity, [fill.execution_id for fill in report.executions]))
        assert steps == [
            (ReportStatus.WORKING, Decimal(0), []),
            (ReportStatus.WORKING, Decimal(1000), ["P1-1"]),
            (ReportStatus.FILLED, Decimal(1500), ["P1-2"]),
        ]


async def test_the_feed_reconnects_by_itself_and_says_so(ledger_url: str) -> None:
    settings = settings_of(ledger_url)
    client = PaperSession(settings.paper_url)
    async with aclosing(client.reports()) as feed:
        for _ in range(2):
            async with running(settings) as session:
                assert await next_report(feed) is None
                order = new_order()
                await session.submit(order)
                told = await next_report(feed)
                assert told is not None
                assert told[1].client_order_id == order.client_order_id
                await next_report(feed)
    await client.close()


async def test_a_silent_feed_is_connected_anew(ledger_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openbell_server.brokers.paper.session.FEED_SILENCE_SECONDS", 0.2)
    async with running(settings_of(ledger_url)) as session, aclosing(session.reports()) as feed:
        for _ in range(3):
            assert await next_report(feed) is None


async def test_refusals_do_not_silence_the_heartbeat(ledger_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openbell_server.brokers.paper.feed.HEARTBEAT_SECONDS", 0.3)
    settings = settings_of(ledger_url)
    async with running(settings) as session:
        client = httpx.AsyncClient(base_url=settings.paper_url, trust_env=False, timeout=60)
        async with client, client.stream("GET", "/updates") as response:
            lines = response.aiter_lines()
            await anext(lines)
            heartbeat = asyncio.ensure_future(anext(lines))
            async with asyncio.timeout(60):
                while not heartbeat.done():
                    await session.cancel(ACCOUNT, named("nosuchorder"), soon())
            assert await heartbeat == "{}"


async def test_a_lost_database_connection_is_made_again(ledger_url: str) -> None:
    settings = settings_of(ledger_url)
    async with running(settings) as session:
        await session.submit(new_order())
        connection = await asyncpg.connect(ledger_url)
        await connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        await connection.close()

        async def accepts() -> bool:
            return isinstance(await session.submit(new_order()), Accepted)

        await until(accepts)
        assert (await summary(settings))["orders"] == 2


async def test_what_is_written_after_a_database_that_stood_still_is_on_record(ledger_url: str) -> None:
    ledger = await Ledger.open(ledger_url)
    try:
        async with ledger.writing() as writer:
            pid = await writer.fetchval("select pg_backend_pid()")
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(TimeoutError):
                # A transaction is begun, and nobody hears of it.
                async with asyncio.timeout(0.5), ledger.writing():
                    pass
        finally:
            os.kill(pid, signal.SIGCONT)
        async with ledger.writing() as writer:
            await writer.execute("insert into prices (symbol, price, size) values ('AAPL', 1, 1)")
        async with ledger.reading() as reader:
            assert await reader.fetchval("select count(*) from prices") == 1
    finally:
        await ledger.close()


async def test_a_second_process_cannot_write_the_same_ledger(ledger_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(settings_of(ledger_url)):
        monkeypatch.setattr("openbell_server.brokers.paper.ledger._TIMEOUT_SECONDS", 0.5)
        with pytest.raises(LedgerInUse):
            await Ledger.open(ledger_url)


async def test_updates_can_be_read_again_from_any_number(ledger_url: str) -> None:
    settings = settings_of(ledger_url)
    async with running(settings) as session:
        for _ in range(3):
            await session.submit(new_order())
        client = httpx.AsyncClient(base_url=settings.paper_url, trust_env=False, timeout=60)
        async with client, client.stream("GET", "/updates?after=2") as response:
            lines = response.aiter_lines()
            assert await anext(lines) == '{"connected":6}'
            for number in (3, 4, 5, 6):
                assert (await anext(lines)).startswith(f'{{"number":{number},')


async def test_orders_are_listed_with_their_executions(ledger_url: str) -> None:
    settings = settings_of(ledger_url)
    async with running(settings) as session:
        orders = [new_order(quantity=Decimal(2000)), resting()]
        for order in orders:
            await session.submit(order)
        page = (await ask(settings, "GET", f"/accounts/{ACCOUNT}/orders")).json()
        assert page["next"] is None
        assert [order["client_order_id"] for order in page["orders"]] == [order.client_order_id for order in orders]
        assert [len(order["executions"]) for order in page["orders"]] == [2, 0]
        rest = (await ask(settings, "GET", f"/accounts/{ACCOUNT}/orders?after=1")).json()
        assert [order["number"] for order in rest["orders"]] == [2]


async def test_an_order_is_found_and_listed_though_the_clock_was_set_back_since(ledger_url: str) -> None:
    async with running(settings_of(ledger_url)) as session:
        orders = [new_order(), new_order()]
        for order in orders:
            await session.submit(order)
        connection = await asyncpg.connect(ledger_url)
        try:
            await connection.execute("update orders set accepted_at = accepted_at + interval '1 hour' where number = 1")
        finally:
            await connection.close()
        reports = [await found(session, order) for order in orders]
        assert await session.orders_since(ACCOUNT, datetime.now(UTC) - timedelta(hours=1)) == reports


@pytest.mark.parametrize("table", ["requests", "executions", "updates", "deposits"])
async def test_the_ledger_cannot_be_rewritten(ledger_url: str, table: str) -> None:
    settings = settings_of(ledger_url)
    async with running(settings) as session:
        await session.submit(new_order())
        await ask(settings, "PUT", f"/accounts/{ACCOUNT}/cash", {"cash": "5"})
        connection = await asyncpg.connect(ledger_url)
        try:
            for statement in (f"delete from {table}", f"truncate {table} cascade"):
                with pytest.raises(asyncpg.RaiseError, match="append-only"):
                    await connection.execute(statement)
        finally:
            await connection.close()


async def test_a_killed_process_keeps_its_ledger(ledger_url: str) -> None:
    settings = settings_of(ledger_url)
    order, works = new_order(), resting()
    async with subprocess_of(settings) as process:
        session = PaperSession(settings.paper_url)
        assert kind(await session.submit(order)) is Accepted
        assert kind(await session.submit(works)) is Accepted
        await ask(settings, "PUT", "/prices/MSFT", {"price": "77.7"})
        await session.close()
        process.kill()
    async with running(settings) as session:
        assert (await found(session, order)).status is ReportStatus.FILLED
        again = await session.submit(order)
        assert again == Unknown("an order with this client_order_id exists")
        assert kind(await session.cancel(ACCOUNT, named(works.client_order_id), soon())) is Accepted
        priced = new_order(symbol=Symbol("MSFT"))
        await session.submit(priced)
        assert [fill.price for fill in (await found(session, priced)).executions] == [Decimal("77.7")]
        assert (await summary(settings))["orders"] == 3


async def test_the_process_ends_when_told_though_a_feed_and_a_hanging_command_are_open(ledger_url: str) -> None:
    settings = settings_of(ledger_url, "accept_then_hang=1")
    async with subprocess_of(settings) as process:
        session = PaperSession(settings.paper_url)
        async with aclosing(session.reports()) as feed:
            assert await next_report(feed) is None
            hanging = asyncio.ensure_future(session.submit(new_order()))
            assert await next_report(feed) is not None
            process.terminate()
            async with asyncio.timeout(DRAIN_SECONDS):
                assert kind(await hanging) is Unknown
                assert await process.wait() == 0
        await session.close()


async def test_two_hundred_orders_at_once_are_all_told_without_a_gap(ledger_url: str) -> None:
    settings = settings_of(ledger_url)
    async with running(settings) as session, aclosing(session.reports()) as feed:
        assert await next_report(feed) is None
        turns = asyncio.Semaphore(8)

        async def submit() -> Outcome:
            async with turns:
                return await session.submit(new_order())

        outcomes = await asyncio.gather(*(submit() for _ in range(200)))
        assert {kind(outcome) for outcome in outcomes} == {Accepted}
        filled = 0
        while filled < 200:
            told = await next_report(feed)
            assert told is not None
            filled += told[1].status is ReportStatus.FILLED
        connection = await asyncpg.connect(ledger_url)
        try:
            assert await connection.fetchval("select max(number) - count(*) from updates") == 0
        finally:
            await connection.close()
