"""Sessions and prices of markets at both gates: a change applies at once, and a window is in the account's zone."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.controls.calendars import PostgresCalendarOperators
from openbell_server.adapters.postgres.controls.control_rules import PostgresRuleStore
from openbell_server.adapters.postgres.controls.markets import PostgresMarketStore
from openbell_server.adapters.postgres.controls.symbol_controls import PostgresControlStore
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.rules import Address, RuleTerms
from openbell_server.domain.controls.symbol_controls import TimeControl
from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.markets.calendars import Session, SessionChange
from support.brokers.scripted_broker import Harness
from support.rest.rest_api import RestApi, create_body, rest_api
from support.tenancy.tenant_markets import with_markets


@pytest.fixture
async def api(pool: Pool) -> AsyncIterator[RestApi]:
    async with rest_api(pool) as api:
        yield api


async def hours(pool: Pool, calendar: str, first: int, last: int) -> None:
    """Let the market be open today from so many hours from now to so many."""
    now = datetime.now(UTC)
    change = SessionChange(
        calendar=calendar,
        trade_date=now.date(),
        session=Session.REGULAR,
        opens_at=now + timedelta(hours=first),
        closes_at=now + timedelta(hours=last),
        reason="trial",
    )
    await PostgresCalendarOperators(pool, "olga").change([change])


def rules_of(answer: Any) -> list[dict[str, Any]]:
    assert answer.status_code == 422, answer.text
    return [rule for rule in answer.json()["receipt"]["rules"] if rule["verdict"] == "REFUSED"]


async def test_a_day_that_an_operator_changes_counts_at_once_at_both_gates(
    pool: Pool, harness: Harness, api: RestApi
) -> None:
    account = harness.tenant.account
    where = Address(organization_id=account.organization_id, scope=Scope.ACCOUNT, account_id=account.id)
    terms = RuleTerms(parameters={"calendar": "XPAR"})
    await hours(pool, "XPAR", -1, 1)
    await PostgresRuleStore(pool).save_rule(where, "MARKET_CLOSED", terms, None, harness.tenant.principal, None)
    assert (await api.submit(harness.tenant, create_body())).status_code == 202
    assert len(await harness.work()) == 1
    assert (await api.submit(harness.tenant, create_body())).status_code == 202
    await hours(pool, "XPAR", 1, 2)
    (rule,) = rules_of(await api.submit(harness.tenant, create_body()))
    assert (rule["code"], rule["comparison"]) == ("MARKET_CLOSED", "WITHIN")
    assert rule["inputs"]["next_open_at"] in rule["would_pass"]
    assert not any(start <= rule["observed"] < end for start, end in rule["limit"])
    assert await harness.work() == []
    assert ("CREATE", "SKIPPED", "MARKET_CLOSED") in await harness.states()


async def test_a_symbol_trades_in_what_is_in_its_window_and_in_the_session(
    pool: Pool, harness: Harness, api: RestApi
) -> None:
    account = harness.tenant.account
    store = PostgresControlStore(pool)
    start, end = ((datetime.now(UTC) + timedelta(hours=each)).time().replace(microsecond=0) for each in (6, 7))
    control = TimeControl(trading_start=start, trading_end=end, calendar="XETR")
    await hours(pool, "XETR", -1, 1)
    where = (account.organization_id, account.id, Symbol("AAPL"))
    await store.change_time(*where, lambda _: control, harness.tenant.principal)
    assert [rule["code"] for rule in rules_of(await api.submit(harness.tenant, create_body()))] == [
        "OUTSIDE_TRADING_WINDOW"
    ]
    await store.change_time(*where, lambda _: TimeControl(calendar="XETR"), harness.tenant.principal)
    assert (await api.submit(harness.tenant, create_body())).status_code == 202
    await hours(pool, "XETR", 1, 2)
    assert [rule["code"] for rule in rules_of(await api.submit(harness.tenant, create_body()))] == ["MARKET_CLOSED"]


async def test_a_window_without_a_zone_is_in_the_account_s(pool: Pool, harness: Harness, api: RestApi) -> None:
    account = harness.tenant.account
    await pool.execute("update accounts set timezone = 'Asia/Tokyo' where account_id = $1", account.id)
    there = datetime.now(UTC) + timedelta(hours=9)
    start, end = ((there + timedelta(hours=each)).time().replace(microsecond=0) for each in (-1, 1))
    where = (account.organization_id, account.id, Symbol("AAPL"))
    control = TimeControl(trading_start=start, trading_end=end)
    await PostgresControlStore(pool).change_time(*where, lambda _: control, harness.tenant.principal)
    answer = await api.submit(harness.tenant, create_body())
    assert answer.status_code == 202, answer.text
    other = TimeControl(trading_start=start, trading_end=end, timezone="UTC")
    await PostgresControlStore(pool).change_time(*where, lambda _: other, harness.tenant.principal)
    (rule,) = rules_of(await api.submit(harness.tenant, create_body()))
    assert rule["inputs"]["timezone"] == "UTC"


async def test_a_sell_with_a_low_limit_is_valued_at_the_market_s_price_at_both_gates(
    pool: Pool, harness: Harness, api: RestApi
) -> None:
    account = harness.tenant.account
    where = Address(organization_id=account.organization_id, scope=Scope.ACCOUNT, account_id=account.id)
    terms = RuleTerms(parameters={"value": "1000", "currency": "USD", "ref_max_age_millis": 3_600_000})
    # Ten of them at 10 dollars.
    await with_markets(pool, harness.tenant)
    await PostgresRuleStore(pool).save_rule(where, "NOTIONAL_MAX", terms, None, harness.tenant.principal, None)
    sell: dict[str, Any] = create_body("Limit", price="0.01")
    sell["command"]["payload"]["order_side"] = "SELL_SHORT"
    assert (await api.submit(harness.tenant, sell)).status_code == 202
    assert len(await harness.work()) == 1
    assert (await api.submit(harness.tenant, sell)).status_code == 202
    await PostgresMarketStore(pool).give_prices(
        account.organization_id, account.broker, [(Symbol("AAPL"), Decimal(100), None)]
    )
    assert await harness.work() == []
    assert ("CREATE", "SKIPPED", "NOTIONAL_MAX") in await harness.states()
    # A process that has not cached the price of before.
    async with rest_api(pool) as other:
        (rule,) = rules_of(await other.submit(harness.tenant, sell))
    assert (rule["code"], rule["observed"]) == ("NOTIONAL_MAX", "1050")
    assert rule["would_pass"] == "a value of at most 1000 USD: at 105 a quantity of at most 9"
    assert {name: rule["inputs"][name] for name in ("limit_price", "reference_price", "price")} == {
        "limit_price": "0.01",
        "reference_price": "100",
        "price": "105",
    }
