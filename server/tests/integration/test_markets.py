"""Reference prices, instruments and rates of exchange as rules find them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from openbell_server.adapters.postgres.connection import Pool, Role, transaction
from openbell_server.adapters.postgres.controls.markets import (
    INSTRUMENT_SECONDS,
    KEPT_MAX,
    PRICE_SECONDS,
    WANTED_SECONDS,
    PostgresMarketStore,
)
from openbell_server.adapters.postgres.market_rows import read_instruments, read_prices, read_rates
from openbell_server.domain.identifiers import Symbol
from support.builders.tenant import Tenant, a_tenant, an_account

AAPL = Symbol("AAPL")


class Hands:
    """A clock that only a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
async def tenant(pool: Pool) -> Tenant:
    return await a_tenant(pool)


@pytest.fixture
def markets(pool: Pool, hands: Hands) -> PostgresMarketStore:
    return PostgresMarketStore(pool, hands)


async def give(pool: Pool, tenant: Tenant, price: str, as_of: datetime | None = None) -> None:
    """Written by another process."""
    await PostgresMarketStore(pool).give_prices(
        tenant.account.organization_id, tenant.account.broker, [(AAPL, Decimal(price), as_of)]
    )


async def found(markets: PostgresMarketStore, tenant: Tenant) -> Decimal | None:
    price = await markets.find_price(tenant.account, AAPL)
    return None if price is None else price.price


async def wanted_at(pool: Pool, tenant: Tenant) -> datetime | None:
    at: datetime | None = await pool.fetchval(
        "select wanted_at from wanted_symbols where account_id = $1 and symbol = 'AAPL'", tenant.account.id
    )
    return at


async def test_a_price_is_the_newest_that_was_given(
    pool: Pool, tenant: Tenant, markets: PostgresMarketStore, hands: Hands
) -> None:
    now = datetime.now(UTC)
    assert await found(markets, tenant) is None
    await give(pool, tenant, "10", now)
    await give(pool, tenant, "9", now - timedelta(seconds=1))
    hands.now += PRICE_SECONDS
    assert await found(markets, tenant) == 10
    await give(pool, tenant, "11")
    hands.now += PRICE_SECONDS
    assert await found(markets, tenant) == 11


async def test_what_is_given_twice_at_once_is_the_newest(tenant: Tenant, markets: PostgresMarketStore) -> None:
    now, account = datetime.now(UTC), tenant.account
    old = now - timedelta(minutes=1)
    kept = await markets.give_prices(
        account.organization_id, account.broker, [(AAPL, Decimal(1), old), (AAPL, Decimal(2), now)]
    )
    assert {symbol: (price.price, price.as_of, price.source) for symbol, price in kept.items()} == {
        AAPL: (Decimal(2), now, "given")
    }
    rates: list[tuple[str, str, Decimal, datetime | None]] = [
        ("EUR", "USD", Decimal(2), now),
        ("EUR", "USD", Decimal(1), old),
    ]
    assert [
        (rate.rate, rate.as_of) for rate in (await markets.give_rates(account.organization_id, rates)).values()
    ] == [(Decimal(2), now)]


async def test_a_price_from_a_clock_that_is_ahead_keeps_no_later_one_out(
    pool: Pool, tenant: Tenant, markets: PostgresMarketStore
) -> None:
    await give(pool, tenant, "10", datetime.now(UTC) + timedelta(hours=1))
    await give(pool, tenant, "11")
    assert await found(markets, tenant) == 11


async def test_a_price_is_read_again_after_a_second_and_not_before(
    pool: Pool, tenant: Tenant, markets: PostgresMarketStore, hands: Hands
) -> None:
    await give(pool, tenant, "10")
    assert await found(markets, tenant) == 10
    await give(pool, tenant, "11")
    hands.now += PRICE_SECONDS - 0.01
    assert await found(markets, tenant) == 10
    hands.now += 0.01
    assert await found(markets, tenant) == 11


async def test_asking_about_a_symbol_notes_it_at_most_once_a_minute(
    pool: Pool, tenant: Tenant, markets: PostgresMarketStore, hands: Hands
) -> None:
    assert await wanted_at(pool, tenant) is None
    await found(markets, tenant)
    assert await wanted_at(pool, tenant) is not None
    await pool.execute("update wanted_symbols set wanted_at = wanted_at - interval '1 hour'")
    before = await wanted_at(pool, tenant)
    hands.now += WANTED_SECONDS
    await found(markets, tenant)
    assert await wanted_at(pool, tenant) == before
    hands.now += 0.01
    await markets.find_instrument(tenant.account, AAPL)
    assert await wanted_at(pool, tenant) != before


async def test_each_account_that_asks_is_noted_though_the_price_was_read_for_another(
    pool: Pool, tenant: Tenant, markets: PostgresMarketStore
) -> None:
    await found(markets, tenant)
    other = replace(tenant, account=await an_account(pool, tenant.account.organization_id))
    await found(markets, other)
    assert await wanted_at(pool, other) is not None


async def test_the_price_of_one_organization_is_no_other_ones(
    pool: Pool, tenant: Tenant, markets: PostgresMarketStore
) -> None:
    await give(pool, tenant, "10")
    assert await found(markets, tenant) == 10
    assert await found(markets, await a_tenant(pool)) is None


async def test_an_instrument_is_found_for_a_minute_and_one_that_is_missing_looked_for_every_second(
    pool: Pool, tenant: Tenant, markets: PostgresMarketStore, hands: Hands
) -> None:
    async def lot() -> Decimal | None:
        instrument = await markets.find_instrument(tenant.account, AAPL)
        return None if instrument is None else instrument.lot

    assert await lot() is None
    await pool.execute(
        "insert into instruments"
        " (organization_id, broker, symbol, asset_class, quote_currency, tradable, fractional, lot, as_of)"
        " values ($1, $2, 'AAPL', 'us_equity', 'USD', true, false, 1, now())",
        tenant.account.organization_id,
        tenant.account.broker,
    )
    hands.now += PRICE_SECONDS
    assert await lot() == 1
    await pool.execute("update instruments set lot = 100")
    hands.now = INSTRUMENT_SECONDS
    assert await lot() == 1
    hands.now += PRICE_SECONDS
    assert await lot() == 100


async def test_an_instrument_that_the_broker_does_not_know_is_missing(
    pool: Pool, tenant: Tenant, markets: PostgresMarketStore
) -> None:
    await pool.execute(
        "insert into instruments (organization_id, broker, symbol, tradable, fractional, as_of)"
        " values ($1, $2, 'AAPL', false, false, now())",
        tenant.account.organization_id,
        tenant.account.broker,
    )
    assert await markets.find_instrument(tenant.account, AAPL) is None


async def test_a_rate_of_exchange_is_of_its_two_currencies_in_their_order(
    tenant: Tenant, markets: PostgresMarketStore
) -> None:
    organization_id = tenant.account.organization_id
    await markets.give_rates(organization_id, [("EUR", "USD", Decimal("1.1"), None)])
    rate = await markets.find_rate(organization_id, "EUR", "USD")
    assert rate is not None
    assert rate.rate == Decimal("1.1")
    assert await markets.find_rate(organization_id, "USD", "EUR") is None


async def test_what_is_kept_in_a_process_is_bounded(
    tenant: Tenant, markets: PostgresMarketStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openbell_server.adapters.postgres.controls.markets.KEPT_MAX", 2)
    assert KEPT_MAX > 2
    for symbol in ("A", "B", "C"):
        await markets.find_price(tenant.account, Symbol(symbol))
    assert [symbol for _, symbol in markets._wanted] == ["B", "C"]
    assert len(markets._prices.entries) == 2


async def test_a_caller_reads_all_of_it_in_its_own_transaction(
    pool: Pool, tenant: Tenant, markets: PostgresMarketStore
) -> None:
    organization_id, broker = tenant.account.organization_id, tenant.account.broker
    await give(pool, tenant, "10")
    await markets.give_rates(organization_id, [("EUR", "USD", Decimal("1.1"), None)])
    async with transaction(pool, Role.TENANT, organization_id) as connection:
        assert (await read_prices(connection, organization_id, broker, [AAPL, Symbol("MSFT")])).keys() == {AAPL}
        assert await read_instruments(connection, organization_id, broker, [AAPL]) == {}
        pairs = [("EUR", "USD"), ("USD", "EUR")]
        assert (await read_rates(connection, organization_id, pairs)).keys() == {("EUR", "USD")}
