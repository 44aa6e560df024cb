"""Who is let in, and what a broker tells when it is asked."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from conformance.scenarios import (
    demands_keys,
    has_client_ids,
    lets_keys_expire,
    replaces,
    scenario,
    signs_in,
)
from conformance.stage import Stage
from openbell_exchange.money import fee
from openbell_server.adapters.postgres.controls.market_updates import PostgresMarketKeeping
from openbell_server.adapters.postgres.controls.markets import PostgresMarketStore
from openbell_server.application.execution.refresh_markets import RefreshMarkets
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.credentials import Secrets, SignedIn, SignInRefused
from openbell_server.domain.identifiers import AccountId, Symbol
from openbell_server.domain.orders.broker_guarantees import LookUp
from openbell_server.domain.orders.broker_reports import Accepted, ReportStatus
from openbell_server.domain.orders.order_terms import EXACT, OrderType, TimeInForce
from support.brokers.paper_broker import named, new_order
from support.builders.tenant import new_id

LONG_AGO = datetime.fromtimestamp(0, UTC)
# More than a page of any broker.
LISTED = 520
_COPY = """
insert into orders (
    number, account_id, profile, client_order_id, symbol, order_side, order_type, quantity, limit_price, stop_price,
    time_in_force, accepted_at, due_at, status, triggered, filled_quantity
)
select (select max(number) from orders) + place, account_id, profile, client_order_id || 'x' || place, symbol,
    order_side, order_type, quantity, limit_price, stop_price, time_in_force,
    accepted_at - place / 3 * interval '1 millisecond', due_at, status, triggered, filled_quantity
from orders, generate_series(1, $2::integer) as place where account_id = $1
"""
_TELL = """
insert into updates (number, order_number, status, filled_quantity, happened_at)
select (select max(number) from updates) + row_number() over (order by number), number, status, 0, accepted_at
from orders where account_id = $1 and number not in (select order_number from updates)
"""


async def _with(stage: Stage, **changed: str) -> SignedIn | SignInRefused:
    """What the broker says to the account's secrets with some of them changed."""
    secrets = stage.loopback.secrets(stage.account_id)
    assert secrets is not None
    session = await stage.definition.open_session(stage.loopback.addresses)
    try:
        return await session.sign_in(stage.account_id, Environment.PAPER, Secrets({**secrets, **changed}))
    finally:
        await session.close()


@scenario(signs_in)
async def a_wrong_secret_is_rejected_with_the_code_of_the_broker(stage: Stage) -> None:
    assert stage.definition.credentials is not None
    hidden = [each.name for each in stage.definition.credentials.fields if each.secret]
    refused = await _with(stage, **dict.fromkeys(hidden, "wrong"))
    assert isinstance(refused, SignInRefused), refused
    assert refused.broker_code
    assert not refused.expired


@scenario(lets_keys_expire)
async def an_expired_key_is_distinguished_from_a_wrong_one(stage: Stage) -> None:
    refused = await _with(stage, key_id="EXPIRED")
    assert isinstance(refused, SignInRefused), refused
    assert refused.expired


@scenario(signs_in)
async def a_key_identifies_its_account(stage: Stage) -> None:
    other = AccountId(new_id())
    secrets = stage.loopback.secrets(other)
    assert secrets is not None
    own, others = await _with(stage), await _with(stage, **secrets)
    assert isinstance(own, SignedIn), own
    assert isinstance(others, SignedIn), others
    assert own.external_account_id
    assert own.external_account_id != others.external_account_id


@scenario(demands_keys)
async def nothing_is_sent_for_a_signed_out_account(stage: Stage) -> None:
    await stage.session.sign_out(stage.account_id)
    outcome = await stage.session.submit(
        new_order(OrderType.MARKET, account_id=stage.account_id, symbol=stage.symbol, quantity=Decimal(1))
    )
    assert not isinstance(outcome, Accepted), outcome
    assert await stage.engine_orders() == []
    assert stage.writes == []


@scenario(has_client_ids)
async def an_order_that_does_not_exist_is_not_found(stage: Stage) -> None:
    assert await stage.session.find(stage.account_id, named(new_id().hex)) is None


@scenario()
async def an_ended_order_is_found_if_the_broker_declares_it(stage: Stage) -> None:
    await stage.price("50.00")
    intent = await stage.order()
    await stage.until_standing(intent, "FILLED")
    report = await stage.session.find(stage.account_id, await stage.name_of(intent))
    if stage.able.look_up is LookUp.OPEN_ORDERS:
        assert report is None
    else:
        assert report is not None
        assert (report.status, report.filled_quantity) == (ReportStatus.FILLED, Decimal(10))


@scenario(replaces)
async def a_look_up_shows_the_current_terms(stage: Stage) -> None:
    await stage.price("50.00")
    intent = await stage.order(limit="40.00")
    await stage.until_standing(intent, "WORKING")
    await stage.replace(intent, "12", "41.00")
    await stage.until_action("ACKED")
    report = await stage.session.find(stage.account_id, await stage.name_of(intent))
    assert report is not None
    assert report.terms is not None
    assert (report.terms.quantity, report.terms.limit_price) == (Decimal(12), Decimal(41))


@scenario()
async def a_list_is_complete_over_all_its_pages(stage: Stage) -> None:
    other_organization = AccountId(new_id())
    async with stage.beside(other_organization) as session:
        order = new_order(
            OrderType.LIMIT,
            account_id=other_organization,
            symbol=stage.symbol,
            quantity=Decimal(1),
            limit_price=Decimal(1),
            time_in_force=TimeInForce.GOOD_TILL_CANCEL,
        )
        assert isinstance(await session.submit(order), Accepted)
        async with stage.ledger.acquire() as connection, connection.transaction():
            await connection.execute("lock table orders, updates in share row exclusive mode")
            await connection.execute(_COPY, other_organization, LISTED)
            await connection.execute(_TELL, other_organization)
        listed = await session.orders_since(other_organization, LONG_AGO)
    assert len({report.broker_order_id for report in listed}) == len(listed) == LISTED + 1


@scenario()
async def a_list_begins_at_the_requested_time(stage: Stage) -> None:
    await stage.price("50.00")
    for _ in range(3):
        await stage.until_standing(await stage.order("1"), "FILLED")
    listed = await stage.session.orders_since(stage.account_id, LONG_AGO)
    assert len(listed) == 3
    times = sorted(report.description.accepted_at for report in listed if report.description is not None)
    later = await stage.session.orders_since(stage.account_id, times[1])
    assert len(later) == 2
    assert await stage.session.orders_since(stage.account_id, times[2] + timedelta(hours=1)) == []


@scenario()
async def positions_of_the_broker_equal_the_traded_quantities(stage: Stage) -> None:
    await stage.price("50.00", "4")
    intent = await stage.order(limit="50.00")
    await stage.until_standing(intent, "WORKING", filled="4")
    held = {each.symbol: each.quantity for each in await stage.session.positions(stage.account_id)}
    rows = await stage.rows("select symbol, quantity from positions where account_id = $1")
    assert held == {row["symbol"]: row["quantity"] for row in rows} == {stage.symbol: Decimal(4)}


@scenario()
async def cash_after_a_fill_is_lower_by_its_value_and_fee(stage: Stage) -> None:
    await stage.price("50.00", "4")
    before = await stage.session.balances(stage.account_id)
    intent = await stage.order(limit="50.00")
    await stage.until_standing(intent, "WORKING", filled="4")
    after = await stage.session.balances(stage.account_id)
    # What the market takes for four shares.
    cost = EXACT.add(Decimal(200), fee(Decimal(4), Decimal(50)))
    assert before.cash is not None
    assert after.cash == EXACT.subtract(before.cash, cost)
    assert after.currency == before.currency == "USD"
    assert before.as_of < after.as_of <= datetime.now(UTC)
    # The shares are worth what was paid for them, without the fee.
    assert after.equity is None or after.equity == EXACT.add(after.cash, Decimal(200))
    assert after.buying_power is None or after.buying_power <= after.cash


@scenario()
async def a_traded_symbol_has_a_quote_and_an_instrument(stage: Stage) -> None:
    await stage.price("50.00")
    asked = [stage.symbol]
    (quote,) = await stage.session.quotes(stage.account_id, asked)
    assert quote.symbol == stage.symbol
    told = [price for price in (quote.bid, quote.ask, quote.last) if price is not None]
    assert told
    assert all(price > 0 for price in told)
    (instrument,) = await stage.session.instruments(stage.account_id, asked)
    assert (instrument.symbol, instrument.tradable) == (stage.symbol, True)
    known = await stage.session.instruments(stage.account_id, [*asked, Symbol("NOSUCH.Z")])
    assert {each.symbol for each in known} <= {stage.symbol, Symbol("NOSUCH.Z")}


@scenario()
async def requested_prices_and_instruments_are_stored(stage: Stage) -> None:
    await stage.price("50.00")
    pool, account = stage.harness.pool, stage.harness.tenant.account
    assert await PostgresMarketStore(pool).find_price(account, stage.symbol) is None
    follow, sessions = stage.executor.follow, {stage.definition.name: stage.session}
    keep = RefreshMarkets(PostgresMarketKeeping(pool), sessions, follow.sessions, follow.slots, follow.clock)
    await keep.sweep()
    assert not keep.failures
    price = await PostgresMarketStore(pool).find_price(account, stage.symbol)
    assert price is not None
    assert (price.source, price.price > 0) == ("quote", True)
    instrument = await PostgresMarketStore(pool).find_instrument(account, stage.symbol)
    assert instrument is not None
    assert instrument.tradable


@scenario()
async def positions_equal_those_of_the_broker_and_need_no_adjustment(stage: Stage) -> None:
    await stage.price("50.00", "4")
    await stage.until_standing(await stage.order(limit="50.00"), "WORKING", filled="4")
    await stage.restart()

    async def is_told() -> bool:
        (row,) = await stage.rows("select positions_as_of from account_counters where account_id = $1")
        return row["positions_as_of"] is not None

    await stage.until(is_told)
    (held,) = await stage.rows("select quantity from positions where account_id = $1")
    assert held["quantity"] == 4
    assert await stage.rows("select * from position_changes where account_id = $1 and cause <> 'EXECUTION'") == []
