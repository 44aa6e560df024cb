"""The value of everything that an account holds and may come to hold, by the tables: positions, open orders, prices."""

from collections.abc import AsyncIterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.controls.control_rules import PostgresRuleStore
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.rules import Address, OnMissing, RuleTerms
from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.orders.order_terms import OrderSide
from support.brokers.scripted_broker import Harness
from support.builders.tenant import a_limit_create
from support.rest.rest_api import RestApi, create_body, rest_api

PRICES = {"AAPL": ("USD", 10), "MSFT": ("USD", 50), "SAP": ("EUR", 100)}


@pytest.fixture
async def api(pool: Pool, harness: Harness) -> AsyncIterator[RestApi]:
    """Positions are known, prices are current, and the account of the harness may hold 10,000 dollars."""
    await pool.execute("update account_counters set positions_as_of = clock_timestamp()")
    for symbol, (currency, price) in PRICES.items():
        await pool.execute(
            "insert into instruments (organization_id, broker, symbol, asset_class, quote_currency, tradable,"
            " fractional, multiplier, as_of) values ($1, 'paper', $2, 'us_equity', $3, true, true, 1, now())",
            harness.tenant.account.organization_id,
            symbol,
            currency,
        )
        await pool.execute(
            "insert into reference_prices (organization_id, broker, symbol, price, source, as_of)"
            " values ($1, 'paper', $2, $3, 'quote', now())",
            harness.tenant.account.organization_id,
            symbol,
            price,
        )
    await limit(pool, harness, "10000")
    async with rest_api(pool) as api:
        yield api


async def limit(pool: Pool, harness: Harness, value: str) -> None:
    account = harness.tenant.account
    address = Address(organization_id=account.organization_id, scope=Scope.ACCOUNT, account_id=account.id)
    parameters = {"value": value, "currency": "USD", "ref_max_age_millis": 3_600_000}
    terms = RuleTerms(on_missing=OnMissing.DENY, parameters=parameters)
    await PostgresRuleStore(pool).save_rule(address, "GROSS_MAX", terms, None, harness.tenant.principal, None)


async def holds(harness: Harness, symbol: str, quantity: int) -> None:
    await harness.pool.execute(
        "insert into positions (organization_id, account_id, symbol, quantity, updated_at)"
        " values ($1, $2, $3, $4, now())",
        harness.tenant.account.organization_id,
        harness.tenant.account.id,
        symbol,
        Decimal(quantity),
    )


async def line(api: RestApi, harness: Harness, quantity: str, price: str = "10") -> dict[str, Any] | None:
    """Of a BUY of AAPL the line that refuses; None if it was accepted."""
    answer = await api.submit(harness.tenant, create_body("Limit", price=price, quantity=quantity))
    if answer.status_code == 202:
        return None
    assert answer.status_code == 422, answer.text
    [refused] = [rule for rule in answer.json()["receipt"]["rules"] if rule["verdict"] == "REFUSED"]
    assert refused["code"] in {"GROSS_MAX", "CONTROL_INPUT_UNAVAILABLE"}
    found: dict[str, Any] = refused
    return found


async def test_positions_and_open_orders_of_every_symbol_count_long_and_short(api: RestApi, harness: Harness) -> None:
    await holds(harness, "MSFT", -80)
    resting = replace(a_limit_create("1", "40"), symbol=Symbol("MSFT"), order_side=OrderSide.SELL_SHORT)
    await harness.accept(resting)
    # 120 of MSFT at 50 are 6,000: 400 of AAPL at 10 are left.
    refused = await line(api, harness, "401")
    assert refused is not None
    assert (refused["observed"], refused["inputs"]["others"]) == ("10010", "6000")
    assert refused["would_pass"] == "a quantity of at most 400"
    assert await line(api, harness, "400") is None
    assert await line(api, harness, "1") is not None


async def test_a_symbol_without_a_price_is_missing_until_it_has_one_and_is_asked_for(
    api: RestApi, harness: Harness
) -> None:
    await holds(harness, "NEWS", 1)
    refused = await line(api, harness, "1")
    assert refused is not None
    assert "a price of NEWS" in refused["missing"]
    assert await harness.pool.fetchval("select count(*) from wanted_symbols where symbol = 'NEWS'") == 1


async def test_what_is_held_in_another_currency_is_converted(api: RestApi, harness: Harness) -> None:
    await holds(harness, "SAP", 64)
    refused = await line(api, harness, "1")
    assert refused is not None
    assert "a rate of exchange from EUR to USD" in refused["missing"]
    await harness.pool.execute(
        "insert into exchange_rates (organization_id, from_currency, to_currency, rate, as_of)"
        " values ($1, 'EUR', 'USD', 1.25, now())",
        harness.tenant.account.organization_id,
    )
    assert await line(api, harness, "200.1") is not None
    assert await line(api, harness, "200") is None


async def test_what_was_accepted_before_the_limit_is_skipped_at_the_door(
    pool: Pool, api: RestApi, harness: Harness
) -> None:
    await holds(harness, "MSFT", 80)
    await harness.accept(a_limit_create("10", "400"))
    await harness.accept(a_limit_create("10", "201"))
    await harness.work()
    assert [(kind, state) for kind, state, _ in await harness.states()] == [("CREATE", "ACKED"), ("CREATE", "SKIPPED")]
    await limit(pool, harness, "20000")
    assert await line(api, harness, "600") is None
