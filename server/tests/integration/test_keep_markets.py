"""Executors keep fresh what rules judge by, for as long as somebody asks about it."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.controls.market_updates import PostgresMarketKeeping
from openbell_server.adapters.postgres.controls.markets import PostgresMarketStore
from openbell_server.application.execution.refresh_markets import (
    INSTRUMENT_SECONDS,
    INSTRUMENTS_AT_ONCE_MAX,
    SYMBOLS_AT_ONCE_MAX,
    RefreshMarkets,
)
from openbell_server.application.execution.track_orders import TrackOrders
from openbell_server.domain.controls.facts import ReferencePrice
from openbell_server.domain.identifiers import AccountId, Symbol, client_order_id
from openbell_server.domain.markets.instruments import Instrument, Quote
from openbell_server.domain.orders.broker_reports import ReportStatus
from support.brokers.scripted_broker import Harness
from support.builders.tenant import a_market_create, a_report, a_tenant, an_account, an_execution

AAPL = Symbol("AAPL")


@dataclass(slots=True)
class NobodyPends:
    """Who is signed in."""

    pending: set[AccountId] = field(default_factory=set)
    changes: int = 0

    async def begin(self, broker: str, slots: object) -> None:
        del broker, slots

    def is_pending(self, account_id: AccountId) -> bool:
        return account_id in self.pending


@dataclass(slots=True)
class Hands:
    """A clock that only a test moves."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass(slots=True)
class Keeping:
    """An executor of all slots, and a process that judges."""

    harness: Harness
    keep: RefreshMarkets
    sign_ins: NobodyPends
    clock: Hands

    async def want(self, *symbols: str) -> None:
        for symbol in symbols:
            await PostgresMarketStore(self.harness.pool).find_price(self.harness.tenant.account, Symbol(symbol))

    async def price(self) -> ReferencePrice | None:
        return await PostgresMarketStore(self.harness.pool).find_price(self.harness.tenant.account, AAPL)

    async def instrument(self) -> Instrument | None:
        return await PostgresMarketStore(self.harness.pool).find_instrument(self.harness.tenant.account, AAPL)

    def asked(self, what: str) -> list[tuple[Symbol, ...]]:
        asked = [tuple(sorted(symbols)) for kind, symbols in self.harness.broker.markets_asked if kind == what]
        self.harness.broker.markets_asked.clear()
        return asked


@pytest.fixture
async def keeping(pool: Pool) -> Keeping:
    harness = Harness(pool, await a_tenant(pool))
    sign_ins, clock = NobodyPends(), Hands()
    keep = RefreshMarkets(
        PostgresMarketKeeping(pool), {"paper": harness.broker}, sign_ins, await harness.all_slots(), clock
    )
    return Keeping(harness, keep, sign_ins, clock)


def quoted(bid: str | None, ask: str | None, last: str | None = None, symbol: str = "AAPL") -> Quote:
    prices = [None if price is None else Decimal(price) for price in (bid, ask, last)]
    return Quote(symbol=Symbol(symbol), as_of=datetime.now(UTC), bid=prices[0], ask=prices[1], last=prices[2])


async def set_rule(pool: Pool, harness: Harness, code: str = "PRICE_COLLAR") -> None:
    await pool.execute(
        "insert into control_rules (organization_id, scope, subject, code, terms, created_at, updated_at,"
        " principal_type, principal_id) values ($1, 'ORGANIZATION', '', $2, '{}', now(), now(), 'USER', 'u')",
        harness.account.organization_id,
        code,
    )


async def test_a_price_that_somebody_asked_for_is_halfway_between_bid_and_ask(keeping: Keeping) -> None:
    keeping.harness.broker.prices["AAPL"] = quoted("1.01", "1.02", "5")
    await keeping.keep.sweep()
    assert keeping.asked("quotes") == []
    assert await keeping.price() is None
    await keeping.keep.sweep()
    price = await keeping.price()
    assert price is not None
    assert (price.price, price.bid, price.ask) == (Decimal("1.015"), Decimal("1.01"), Decimal("1.02"))
    assert price.source == "quote"


async def test_a_price_without_both_sides_is_what_was_last_paid(keeping: Keeping) -> None:
    await keeping.want("AAPL")
    keeping.harness.broker.prices["AAPL"] = quoted("1", None)
    await keeping.keep.sweep()
    assert await keeping.price() is None
    keeping.harness.broker.prices["AAPL"] = quoted("1", None, "3")
    await keeping.keep.sweep()
    price = await keeping.price()
    assert price is not None
    assert price.price == 3


async def test_an_instrument_is_asked_for_once_an_hour_and_its_price_each_time(keeping: Keeping) -> None:
    await keeping.want("AAPL")
    keeping.harness.broker.prices["AAPL"] = quoted("1", "1")
    await keeping.keep.sweep()
    assert keeping.asked("instruments") == [("AAPL",)]
    assert await keeping.instrument() is not None
    keeping.clock.now += INSTRUMENT_SECONDS - 1
    await keeping.keep.sweep()
    assert keeping.harness.broker.markets_asked == [("quotes", ("AAPL",))]
    keeping.clock.now += 1
    await keeping.keep.sweep()
    assert keeping.asked("instruments") == [("AAPL",)]


async def test_a_symbol_that_the_broker_does_not_know_is_noted_and_not_quoted(keeping: Keeping) -> None:
    await keeping.want("AAPL", "NOSUCH")
    keeping.harness.broker.prices["AAPL"] = quoted("1", "1")
    await keeping.keep.sweep()
    assert keeping.asked("quotes") == [("AAPL",)]
    row = await keeping.harness.pool.fetchrow("select asset_class, as_of from instruments where symbol = 'NOSUCH'")
    assert row is not None
    assert row["asset_class"] is None
    markets = PostgresMarketStore(keeping.harness.pool)
    assert await markets.find_instrument(keeping.harness.tenant.account, Symbol("NOSUCH")) is None


async def test_questions_are_asked_in_bounded_parts(keeping: Keeping) -> None:
    names = [f"S{number}" for number in range(SYMBOLS_AT_ONCE_MAX + 1)]
    await keeping.want(*names)
    keeping.harness.broker.prices |= {name: quoted("1", "1", symbol=name) for name in names}
    await keeping.keep.sweep()
    assert sorted(len(part) for part in keeping.asked("quotes")) == [1, SYMBOLS_AT_ONCE_MAX]
    await keeping.keep.sweep()
    assert [len(part) for part in keeping.asked("instruments")] == [INSTRUMENTS_AT_ONCE_MAX]


async def test_trouble_is_told_once_for_however_many_symbols_and_stops_no_other_account(keeping: Keeping) -> None:
    await keeping.want("AAPL", "MSFT")
    keeping.harness.broker.prices |= {
        "AAPL": ConnectionResetError("reset by peer"),
        "MSFT": quoted("2", "2", symbol="MSFT"),
    }
    other = await a_tenant(keeping.harness.pool)
    await PostgresMarketStore(keeping.harness.pool).find_price(other.account, Symbol("MSFT"))
    await keeping.keep.sweep()
    assert keeping.keep.failures == {("paper", "ConnectionResetError"): 1}
    assert await PostgresMarketStore(keeping.harness.pool).find_price(other.account, Symbol("MSFT")) is not None


async def test_one_account_asks_for_all_of_its_organization_and_one_that_is_not_signed_in_does_not(
    keeping: Keeping,
) -> None:
    await keeping.want("AAPL")
    keeping.harness.broker.prices["AAPL"] = quoted("1", "1")
    keeping.sign_ins.pending.add(keeping.harness.account.account_id)
    await keeping.keep.sweep()
    assert keeping.asked("quotes") == []
    second = await an_account(keeping.harness.pool, keeping.harness.account.organization_id)
    await PostgresMarketStore(keeping.harness.pool).find_price(second, AAPL)
    await keeping.keep.sweep()
    assert keeping.asked("quotes") == [("AAPL",)]
    keeping.sign_ins.pending.clear()
    await keeping.keep.sweep()
    assert keeping.asked("quotes") == [("AAPL",)]


async def test_what_nobody_asked_about_for_long_is_left_alone(keeping: Keeping) -> None:
    await keeping.want("AAPL")
    await keeping.harness.pool.execute("update wanted_symbols set wanted_at = now() - interval '11 minutes'")
    await keeping.keep.sweep()
    assert keeping.harness.broker.markets_asked == []


@pytest.mark.parametrize("code", ["PRICE_COLLAR", "QTY_MAX"])
async def test_what_is_ordered_or_held_where_a_rule_judges_by_prices_is_kept_unasked(
    keeping: Keeping, code: str
) -> None:
    harness = keeping.harness
    await harness.accept(a_market_create(symbol="ORDERED"))
    await harness.pool.execute(
        "insert into positions select organization_id, account_id, s, q, now()"
        " from accounts, (values ('HELD', 1), ('SOLD', 0)) t (s, q)"
    )
    await keeping.keep.sweep()
    assert harness.broker.markets_asked == []
    await set_rule(harness.pool, harness, code)
    await keeping.keep.sweep()
    assert keeping.asked("instruments") == ([("HELD", "ORDERED")] if code == "PRICE_COLLAR" else [])


async def test_a_fill_is_a_price_where_somebody_wants_one(keeping: Keeping) -> None:
    harness = keeping.harness
    track = TrackOrders(harness.track.store, harness.hints, priced=keeping.keep.priced)

    async def fill(number: int, price: int) -> None:
        await harness.accept(a_market_create())
        (door,) = await harness.work()
        executed = an_execution(number, 10, price)
        order_id = client_order_id(door.action.action_id)
        await track(harness.account, [a_report(ReportStatus.FILLED, [executed], client_order_id=order_id)])

    await fill(1, 7)
    assert await keeping.price() is None
    await keeping.keep.sweep()
    await fill(2, 8)
    price = await keeping.price()
    assert price is not None
    assert (price.price, price.source) == (Decimal(8), "fill")


async def test_a_newer_quote_outlives_a_fill_that_is_told_late(keeping: Keeping) -> None:
    await keeping.want("AAPL")
    keeping.harness.broker.prices["AAPL"] = quoted("1", "1")
    await keeping.keep.sweep()
    account = keeping.harness.account
    async with keeping.harness.track.store.account_transaction(account) as transaction:
        await transaction.keep_fill_price(AAPL, Decimal(9), datetime.now(UTC) - timedelta(minutes=1))
    price = await keeping.price()
    assert price is not None
    assert price.source == "quote"
