"""Orders that reach the paper broker at the same time: one transaction, and what each would get alone."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from random import Random
from uuid import uuid4

import asyncpg
import pytest

from openbell_exchange.decisions import DUPLICATE_ID
from openbell_server.brokers.paper.accounts import account, set_cash
from openbell_server.brokers.paper.profiles import PAPER, PAPER_B, PAPER_W, Profile
from support.brokers.paper_venue import SYMBOLS, any_order, code, command, market_buy, opened


async def test_orders_that_wait_at_the_same_time_are_one_transaction_numbered_as_they_came(ledger_url: str) -> None:
    accounts = [uuid4() for _ in range(3)]
    async with opened(ledger_url) as venue:
        results = await venue.together([(command(accounts[n % 3]), market_buy()) for n in range(40)])
        assert results == [f"P{number}" for number in range(1, 41)]
        assert await venue.transactions() == 1
        lines = [line for _, line in await venue.ledger.updates_after(0)]
        assert [line.number for line in lines] == list(range(1, 81))
        told = [line.report.broker_order_id for line in lines if line.report]
        assert told == [each for each in results for _ in range(2)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shorting", [True, False])
async def test_an_order_gets_in_company_what_it_would_get_alone(ledger_url: str, seed: int, shorting: bool) -> None:
    random = Random(seed)
    orders = [any_order(random) for _ in range(60)]
    alone, in_company = uuid4(), uuid4()
    async with opened(ledger_url, shorting=shorting) as venue:
        for each in (alone, in_company):
            await set_cash(venue.ledger, each, Decimal(15_000), venue.market.quote)
        first = await venue.one_at_a_time([(command(alone), order) for order in orders])
        second = await venue.together([(command(in_company), order) for order in orders])
        assert [code(each) for each in first] == [code(each) for each in second]
        assert len({code(each) for each in first}) > 1
        assert await venue.transactions() == len(orders) + 1
        read = [await account(venue.ledger, each, venue.market.quote) for each in (alone, in_company)]
        assert read[0] == read[1]


@pytest.mark.parametrize(
    ("profile", "codes"),
    [
        (PAPER, ["accepted", DUPLICATE_ID]),
        # The first is filled, so that its id is free again.
        (PAPER_W, ["accepted", "accepted"]),
        (PAPER_B, ["accepted", "accepted"]),
    ],
)
async def test_an_id_that_comes_twice_at_the_same_time_is_used_as_its_profile_says(
    ledger_url: str, profile: Profile, codes: list[str]
) -> None:
    account_id = uuid4()
    async with opened(ledger_url) as venue:
        both = [(command(account_id, profile, "same"), market_buy()) for _ in range(2)]
        assert [code(each) for each in await venue.together(both)] == codes
        # Of an order that works the id is used for as long.
        many = [(command(account_id, profile, "works"), market_buy(quantity=11)) for _ in range(2)]
        working = [code(each) for each in await venue.together(many)]
        assert working == (["accepted", DUPLICATE_ID] if profile is not PAPER_B else ["accepted"] * 2)


async def test_an_id_whose_first_order_was_refused_is_free_for_the_second(ledger_url: str) -> None:
    account_id = uuid4()
    async with opened(ledger_url) as venue:
        late = replace(market_buy(), valid_until=datetime(2020, 1, 1, tzinfo=UTC))
        both = [(command(account_id, PAPER, "same"), order) for order in (late, market_buy())]
        assert [code(each) for each in await venue.together(both)] == ["expired", "accepted"]


async def test_an_order_that_cannot_be_written_fails_alone(ledger_url: str) -> None:
    account_id = uuid4()
    async with opened(ledger_url) as venue:
        connection = await asyncpg.connect(ledger_url)
        await connection.execute("alter table orders add check (symbol <> 'MSFT')")
        await connection.close()
        orders = [market_buy(SYMBOLS[n == 3]) for n in range(8)]
        results = await venue.together([(command(account_id), order) for order in orders])
        assert [isinstance(each, str) for each in results] == [n != 3 for n in range(8)]
        assert isinstance(results[3], asyncpg.CheckViolationError)
        assert [each for each in results if isinstance(each, str)] == [f"P{n}" for n in range(1, 8)]
        # And those that come after them are again one transaction.
        before = await venue.transactions()
        await venue.together([(command(account_id), market_buy()) for _ in range(5)])
        assert await venue.transactions() == before + 1


async def test_orders_whose_commit_is_in_doubt_all_fail_and_the_next_are_taken(ledger_url: str) -> None:
    account_id = uuid4()
    async with opened(ledger_url) as venue:
        await venue.together([(command(account_id), market_buy())])
        connection = await asyncpg.connect(ledger_url)
        await connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        await connection.close()
        await asyncio.sleep(0)
        lost = await venue.together([(command(account_id), market_buy()) for _ in range(3)])
        assert {isinstance(each, Exception) for each in lost} in ({True}, {False})
        assert [code(each) for each in await venue.together([(command(account_id), market_buy())])] == ["accepted"]
