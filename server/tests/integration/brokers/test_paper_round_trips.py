"""The paper broker keeps in memory what its submits wrote, and reads the ledger where anything else was written."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from random import Random
from uuid import UUID, uuid4

import asyncpg
import pytest

from openbell_exchange.decisions import DUPLICATE_ID
from openbell_exchange.faults import CommandKind
from openbell_exchange.matching import Quote
from openbell_server.brokers.paper.accounts import read_standings, set_cash
from openbell_server.brokers.paper.ledger import Ledger, OrderKey
from openbell_server.brokers.paper.profiles import PAPER, PAPER_W, Profile
from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.orders.order_terms import OrderSide, OrderSpec, OrderType, TimeInForce
from support.brokers.paper_broker import soon
from support.brokers.paper_venue import SYMBOLS, Venue, any_order, code, command, market_buy, opened


async def submit(venue: Venue, account_id: UUID, *, client_order_id: str | None = None, quantity: int = 1) -> str:
    order = market_buy(quantity=quantity)
    [result] = await venue.together([(command(account_id, client_order_id=client_order_id), order)])
    return code(result)


async def statements(venue: Venue, account_id: UUID) -> int:
    """How many statements the writer needs for one submit."""
    sent: list[str] = []
    async with venue.ledger.writing_submits() as connection:
        pass

    def listen(query: asyncpg.connection.LoggedQuery) -> None:
        sent.append(query.query)

    connection.add_query_logger(listen)
    try:
        assert await submit(venue, account_id) == "accepted"
    finally:
        connection.remove_query_logger(listen)
    return len(sent)


async def test_a_submit_of_an_account_that_is_in_memory_is_one_statement_with_its_commit(ledger_url: str) -> None:
    account_id = uuid4()
    async with opened(ledger_url) as venue:
        # The first statements of a connection also read types.
        assert await submit(venue, uuid4()) == "accepted"
        assert await statements(venue, account_id) == 2
        assert await statements(venue, account_id) == 1
        assert await venue.transactions() == 3


async def test_the_feed_gets_from_memory_exactly_what_a_ledger_that_is_opened_again_reads(ledger_url: str) -> None:
    random = Random(5)
    account_id = uuid4()
    numbers = [Decimal("1E+1"), Decimal("0.10"), Decimal(2000), Decimal("12.3456789")]
    specs = [
        OrderSpec(order_type=OrderType.MARKET, quantity=each, time_in_force=TimeInForce.IMMEDIATE_OR_CANCEL)
        for each in numbers
    ]
    orders = [any_order(random) for _ in range(40)]
    orders += [replace(market_buy(Symbol("FREE")), spec=spec) for spec in specs]
    async with opened(ledger_url) as venue:
        submits = [(command(account_id, random.choice([PAPER, PAPER_W])), order) for order in orders]
        await venue.together(submits[:20])
        await venue.one_at_a_time(submits[20:])
        kept = venue.ledger._recent.after(0)
        assert kept is not None
        assert [line.number for _, line in kept] == list(range(1, len(kept) + 1))
        assert await venue.ledger.updates_after(7) == kept[7:]
    ledger = await Ledger.open(ledger_url)
    try:
        assert await ledger.updates_after(0) == kept
    finally:
        await ledger.close()


async def test_updates_that_are_no_longer_in_memory_are_read(ledger_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openbell_server.brokers.paper.ledger._RECENT_MAX", 3)
    async with opened(ledger_url) as venue:
        for _ in range(4):
            await submit(venue, uuid4())
        for after in range(10):
            lines = await venue.ledger.updates_after(after)
            assert [line.number for _, line in lines] == list(range(after + 1, 9))


async def test_the_feed_gets_every_update_in_order_whatever_wrote_it(ledger_url: str) -> None:
    account_id = uuid4()
    spec = OrderSpec(
        order_type=OrderType.LIMIT, quantity=Decimal(5), limit_price=Decimal(1), time_in_force=TimeInForce.DAY
    )
    resting = replace(market_buy(), spec=spec)
    async with opened(ledger_url) as venue:
        seen: list[int | None] = []
        for name in "abc":
            await venue.together([(command(account_id, client_order_id=name), resting)])
            seen += [line.number for _, line in await venue.ledger.updates_after(len(seen))]
            cancel = replace(command(account_id, client_order_id=name), kind=CommandKind.CANCEL)
            await venue.venue.cancel(cancel, OrderKey(client_order_id=name), soon())
            seen += [line.number for _, line in await venue.ledger.updates_after(len(seen))]
        assert seen == list(range(1, 7))


async def test_an_account_in_memory_is_after_each_submit_exactly_what_the_ledger_has(ledger_url: str) -> None:
    random = Random(6)
    account_id = uuid4()
    codes: list[str] = []
    async with opened(ledger_url) as venue:
        await set_cash(venue.ledger, account_id, Decimal(15_000), venue.market.quote)
        for n in range(80):
            if n % 10 == 9:
                await venue.market.set_price(
                    random.choice(SYMBOLS), Quote(Decimal(random.randint(95, 105)), Decimal(10))
                )
            codes += [code(result) for result in await venue.together([(command(account_id), any_order(random))])]
            async with venue.ledger.writing_submits() as connection:
                kept = await venue.venue._standings.of(connection, {account_id})
                assert kept == await read_standings(connection, [account_id], venue.market.quote)
    assert len(set(codes)) > 1


async def test_a_withdrawal_counts_for_an_account_that_is_in_memory(ledger_url: str) -> None:
    account_id = uuid4()
    async with opened(ledger_url) as venue:
        assert await submit(venue, account_id) == "accepted"
        await set_cash(venue.ledger, account_id, Decimal(50), venue.market.quote)
        assert await submit(venue, account_id) == "insufficient_buying_power"


async def test_prices_that_move_without_a_write_count_for_an_account_that_is_in_memory(
    ledger_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    account_id = uuid4()
    async with opened(ledger_url) as venue:
        await set_cash(venue.ledger, account_id, Decimal(320), venue.market.quote)
        sell = replace(market_buy(), side=OrderSide.SELL_SHORT)
        assert [code(each) for each in await venue.together([(command(account_id), sell)])] == ["accepted"]
        # 320 and the proceeds, less twice 140 for the short: 139.9 are left, with the former price 219.9.
        monkeypatch.setattr(venue.market, "quote", lambda symbol: Quote(Decimal(140 if symbol == SYMBOLS[0] else 100)))
        venue.venue._standings._quote_of = venue.market.quote
        one, two = market_buy(SYMBOLS[1]), market_buy(SYMBOLS[1], 2)
        assert [code(each) for each in await venue.together([(command(account_id), two)])] == [
            "insufficient_buying_power"
        ]
        assert [code(each) for each in await venue.together([(command(account_id), one)])] == ["accepted"]


@pytest.mark.parametrize("profile", [PAPER, PAPER_W])
async def test_an_id_that_is_used_is_a_duplicate_and_nothing_else_of_its_set_changes(
    ledger_url: str, profile: Profile
) -> None:
    account_id = uuid4()
    async with opened(ledger_url) as venue:
        resting = market_buy(quantity=11)
        first = [(command(account_id, profile, "same"), resting), (command(account_id, profile), resting)]
        assert [code(each) for each in await venue.together(first)] == ["accepted"] * 2
        # The account cannot afford the order with the used id either, but the first order exists.
        unaffordable = market_buy(quantity=10**12)
        late = replace(market_buy(), valid_until=datetime(2020, 1, 1, tzinfo=UTC))
        second = [
            (command(account_id, profile), market_buy()),
            (command(account_id, profile, "same"), unaffordable),
            (command(account_id, profile, "same"), late),
            (command(account_id, profile), unaffordable),
            (command(account_id, profile), market_buy()),
        ]
        codes = [code(each) for each in await venue.together(second)]
        assert codes == ["accepted", DUPLICATE_ID, "expired", "insufficient_buying_power", "accepted"]
        assert await venue.transactions() == 2
        summary = await venue.ledger.summary()
        assert (summary.requests, summary.orders, summary.refused, summary.repeated_submits) == (7, 4, 3, 1)
