"""Executors keep fresh what rules judge by, for as long as somebody asks about it."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from builders import a_market_create, a_report, a_tenant, an_account, an_execution
from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.market_keeping import PostgresMarketKeeping
from openbell_server.adapters.postgres.markets import PostgresMarketStore
from openbell_server.application.keep_markets import (
    INSTRUMENT_SECONDS,
    INSTRUMENTS_AT_ONCE_MAX,
    SYMBOLS_AT_ONCE_MAX,
    KeepMarkets,
)
from openbell_server.application.track_orders import TrackOrders
from openbell_server.domain.broker_orders import ReportStatus
from openbell_server.domain.control_facts import ReferencePrice
from openbell_server.domain.identifiers import AccountId, Symbol, client_order_id
from openbell_server.domain.instruments import Instrument, Quote
from scripted_broker import Desk
from tenancy import Owner

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

    desk: Desk
    keep: KeepMarkets
    sign_ins: NobodyPends
    clock: Hands

    async def want(self, *symbols: str) -> None:
        for symbol in symbols:
            await PostgresMarketStore(self.desk.pool).find_price(self.desk.tenant.account, Symbol(symbol))

    async def price(self) -> ReferencePrice | None:
        return await PostgresMarketStore(self.desk.pool).find_price(self.desk.tenant.account, AAPL)

    async def instrument(self) -> Instrument | None:
        return await PostgresMarketStore(self.desk.pool).find_instrument(self.desk.tenant.account, AAPL)

    def asked(self, what: str) -> list[tuple[Symbol, ...]]:
        asked = [tuple(sorted(symbols)) for kind, symbols in self.desk.broker.markets_asked if kind == what]
        self.desk.broker.markets_asked.clear()
        return asked


@pytest.fixture
async def keeping(pool: Pool) -> Keeping:
    desk = Desk(pool, await a_tenant(pool))
    sign_ins, clock = NobodyPends(), Hands()
    keep = KeepMarkets(PostgresMarketKeeping(pool), {"paper": desk.broker}, sign_ins, await desk.all_slots(), clock)
    return Keeping(desk, keep, sign_ins, clock)


def quoted(bid: str | None, ask: str | None, last: str | None = None, symbol: str = "AAPL") -> Quote:
    prices = [None if price is None else Decimal(price) for price in (bid, ask, last)]
    return Quote(symbol=Symbol(symbol), as_of=datetime.now(UTC), bid=prices[0], ask=prices[1], last=prices[2])


async def set_rule(pool: Pool, desk: Desk, code: str = "PRICE_COLLAR") -> None:
    await pool.execute(
        "insert into control_rules (organization_id, scope, subject, code, terms, created_at, updated_at,"
        " principal_type, principal_id) values ($1, 'organization', '', $2, '{}', now(), now(), 'USER', 'u')",
        desk.account.organization_id,
        code,
    )


async def test_a_price_that_somebody_asked_for_is_halfway_between_bid_and_ask(keeping: Keeping) -> None:
    keeping.desk.broker.prices["AAPL"] = quoted("1.01", "1.02", "5")
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
    keeping.desk.broker.prices["AAPL"] = quoted("1", None)
    await keeping.keep.sweep()
    assert await keeping.price() is None
    keeping.desk.broker.prices["AAPL"] = quoted("1", None, "3")
    await keeping.keep.sweep()
    price = await keeping.price()
    assert price is not None
    assert price.price == 3


async def test_an_instrument_is_asked_for_once_an_hour_and_its_price_each_time(keeping: Keeping) -> None:
    await keeping.want("AAPL")
    keeping.desk.broker.prices["AAPL"] = quoted("1", "1")
    await keeping.keep.sweep()
    assert keeping.asked("instruments") == [("AAPL",)]
    assert await keeping.instrument() is not None
    keeping.clock.now += INSTRUMENT_SECONDS - 1
    await keeping.keep.sweep()
    assert keeping.desk.broker.markets_asked == [("quotes", ("AAPL",))]
    keeping.clock.now += 1
    await keeping.keep.sweep()
    assert keeping.asked("instruments") == [("AAPL",)]


async def test_a_symbol_that_the_broker_does_not_know_is_noted_and_not_quoted(keeping: Keeping) -> None:
    await keeping.want("AAPL", "NOSUCH")
    keeping.desk.broker.prices["AAPL"] = quoted("1", "1")
    await keeping.keep.sweep()
    assert keeping.asked("quotes") == [("AAPL",)]
    row = await keeping.desk.pool.fetchrow("select asset_class, as_of from instruments where symbol = 'NOSUCH'")
    assert row is not None
    assert row["asset_class"] is None
    markets = PostgresMarketStore(keeping.desk.pool)
    assert await markets.find_instrument(keeping.desk.tenant.account, Symbol("NOSUCH")) is None


async def test_questions_are_asked_in_bounded_parts(keeping: Keeping) -> None:
    names = [f"S{number}" for number in range(SYMBOLS_AT_ONCE_MAX + 1)]
    await keeping.want(*names)
    keeping.desk.broker.prices |= {name: quoted("1", "1", symbol=name) for name in names}
    await keeping.keep.sweep()
    assert sorted(len(part) for part in keeping.asked("quotes")) == [1, SYMBOLS_AT_ONCE_MAX]
    await keeping.keep.sweep()
    assert [len(part) for part in keeping.asked("instruments")] == [INSTRUMENTS_AT_ONCE_MAX]


async def test_trouble_is_told_once_for_however_many_symbols_and_stops_no_other_account(keeping: Keeping) -> None:
    await keeping.want("AAPL", "MSFT")
    keeping.desk.broker.prices |= {
        "AAPL": ConnectionResetError("reset by peer"),
        "MSFT": quoted("2", "2", symbol="MSFT"),
    }
    other = await a_tenant(keeping.desk.pool)
    await PostgresMarketStore(keeping.desk.pool).find_price(other.account, Symbol("MSFT"))
    await keeping.keep.sweep()
    assert keeping.keep.failures == {("paper", "ConnectionResetError"): 1}
    assert await PostgresMarketStore(keeping.desk.pool).find_price(other.account, Symbol("MSFT")) is not None


async def test_one_account_asks_for_all_of_its_organization_and_one_that_is_not_signed_in_does_not(
    keeping: Keeping,
) -> None:
    await keeping.want("AAPL")
    keeping.desk.broker.prices["AAPL"] = quoted("1", "1")
    keeping.sign_ins.pending.add(keeping.desk.account.account_id)
    await keeping.keep.sweep()
    assert keeping.asked("quotes") == []
    second = await an_account(keeping.desk.pool, keeping.desk.account.organization_id)
    await PostgresMarketStore(keeping.desk.pool).find_price(second, AAPL)
    await keeping.keep.sweep()
    assert keeping.asked("quotes") == [("AAPL",)]
    keeping.sign_ins.pending.clear()
    await keeping.keep.sweep()
    assert keeping.asked("quotes") == [("AAPL",)]


async def test_what_nobody_asked_about_for_long_is_left_alone(keeping: Keeping) -> None:
    await keeping.want("AAPL")
    await keeping.desk.pool.execute("update wanted_symbols set wanted_at = now() - interval '11 minutes'")
    await keeping.keep.sweep()
    assert keeping.desk.broker.markets_asked == []


@pytest.mark.parametrize("code", ["PRICE_COLLAR", "QTY_MAX"])
async def test_what_is_ordered_or_held_where_a_rule_judges_by_prices_is_kept_unasked(
    keeping: Keeping, code: str
) -> None:
    desk = keeping.desk
    await desk.accept(a_market_create(symbol="ORDERED"))
    await desk.pool.execute(
        "insert into positions select organization_id, account_id, s, q, now()"
        " from accounts, (values ('HELD', 1), ('SOLD', 0)) t (s, q)"
    )
    await keeping.keep.sweep()
    assert desk.broker.markets_asked == []
    await set_rule(desk.pool, desk, code)
    await keeping.keep.sweep()
    assert keeping.asked("instruments") == ([("HELD", "ORDERED")] if code == "PRICE_COLLAR" else [])


async def test_a_fill_is_a_price_where_somebody_wants_one(keeping: Keeping) -> None:
    desk = keeping.desk
    track = TrackOrders(desk.track.store, desk.hints, priced=keeping.keep.priced)

    async def fill(number: int, price: int) -> None:
        await desk.accept(a_market_create())
        (door,) = await desk.work()
        executed = an_execution(number, 10, price)
        order_id = client_order_id(door.action.action_id)
        await track(desk.account, [a_report(ReportStatus.FILLED, [executed], client_order_id=order_id)])

    await fill(1, 7)
    assert await keeping.price() is None
    await keeping.keep.sweep()
    await fill(2, 8)
    price = await keeping.price()
    assert price is not None
    assert (price.price, price.source) == (Decimal(8), "fill")


async def test_a_newer_quote_outlives_a_fill_that_is_told_late(keeping: Keeping) -> None:
    await keeping.want("AAPL")
    keeping.desk.broker.prices["AAPL"] = quoted("1", "1")
    await keeping.keep.sweep()
    account = keeping.desk.account
    async with keeping.desk.track.store.account_transaction(account) as transaction:
        await transaction.keep_fill_price(AAPL, Decimal(9), datetime.now(UTC) - timedelta(minutes=1))
    price = await keeping.price()
    assert price is not None
    assert price.source == "quote"


async def test_nothing_is_kept_on_a_schema_that_has_no_rules(keeping: Keeping, owner: Owner) -> None:
    await owner.execute("drop table wanted_symbols")
    await keeping.keep.sweep()
    assert keeping.desk.broker.markets_asked == []
