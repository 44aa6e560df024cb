"""What orders may cost is compared with the broker's report of the buying power, less what was accepted since."""

import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.controls.control_rules import PostgresRuleStore
from openbell_server.adapters.postgres.execution.execution import PostgresExecutionStore
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.rules import Address, OnMissing, RuleTerms
from openbell_server.domain.identifiers import client_order_id
from openbell_server.domain.orders.broker_reports import ReportStatus
from support.brokers.scripted_broker import Harness
from support.builders.tenant import a_report
from support.rest.rest_api import RestApi, create_body, rest_api


@pytest.fixture
async def api(pool: Pool, harness: Harness) -> AsyncIterator[RestApi]:
    """An account with a buying power of 1,000 dollars, reported now."""
    await pool.execute("update account_counters set positions_as_of = clock_timestamp()")
    await pool.execute(
        "insert into instruments (organization_id, broker, symbol, asset_class, quote_currency, tradable,"
        " fractional, multiplier, as_of) values ($1, 'paper', 'AAPL', 'us_equity', 'USD', true, true, 1, now())",
        harness.tenant.account.organization_id,
    )
    await reported(harness, "1000")
    await limit(pool, harness)
    async with rest_api(pool) as api:
        yield api


async def limit(pool: Pool, harness: Harness, **parameters: str) -> None:
    account = harness.tenant.account
    address = Address(organization_id=account.organization_id, scope=Scope.ACCOUNT, account_id=account.id)
    terms = RuleTerms(on_missing=OnMissing.DENY, parameters={"currency": "USD", **parameters})
    await PostgresRuleStore(pool).save_rule(address, "BUYING_POWER", terms, None, harness.tenant.principal, None)


async def reported(harness: Harness, buying_power: str, seconds_ago: float = 0) -> None:
    await harness.pool.execute(
        "insert into account_balances (organization_id, account_id, currency, buying_power, as_of, read_at)"
        " values ($1, $2, 'USD', $3, clock_timestamp() - make_interval(secs => $4), clock_timestamp())"
        " on conflict (account_id) do update set buying_power = excluded.buying_power, as_of = excluded.as_of",
        harness.tenant.account.organization_id,
        harness.tenant.account.id,
        Decimal(buying_power),
        seconds_ago,
    )


async def line(api: RestApi, harness: Harness, quantity: str) -> dict[str, Any] | None:
    """Of a BUY of AAPL at 10 the line that refuses; None if it was accepted."""
    answer = await api.submit(harness.tenant, create_body("Limit", price="10", quantity=quantity))
    if answer.status_code == 202:
        return None
    assert answer.status_code == 422, answer.text
    [refused] = [rule for rule in answer.json()["receipt"]["rules"] if rule["verdict"] == "REFUSED"]
    found: dict[str, Any] = refused
    return found


async def acknowledged(harness: Harness, name: str) -> None:
    await harness.report(a_report(ReportStatus.WORKING, client_order_id=name))


async def test_what_was_accepted_since_the_report_is_reserved(api: RestApi, harness: Harness) -> None:
    assert await line(api, harness, "60") is None
    refused = await line(api, harness, "41")
    assert refused is not None
    assert (refused["limit"], refused["observed"], refused["inputs"]["reserved"]) == ("400", "410", "600")
    assert refused["would_pass"] == "a quantity of at most 40"
    assert await line(api, harness, "40") is None


async def test_commands_at_the_same_time_do_not_use_the_same_money(api: RestApi, harness: Harness) -> None:
    lines = await asyncio.gather(*(line(api, harness, "30") for _ in range(8)))
    assert sum(each is None for each in lines) == 3


async def test_an_order_is_reserved_until_a_report_from_after_the_brokers_answer_includes_it(
    api: RestApi, harness: Harness
) -> None:
    assert await line(api, harness, "60") is None
    (door,) = await harness.work()
    await acknowledged(harness, client_order_id(door.action.order_action_id))
    await reported(harness, "400")
    refused = await line(api, harness, "1")
    assert refused is not None
    assert refused["inputs"]["reserved"] == "600"
    await harness.pool.execute("update action_states set settled_at = settled_at - interval '6 seconds'")
    assert await line(api, harness, "40") is None
    # Rows that no report can lack any more are deleted.
    assert await harness.pool.fetchval("select count(*) from reserved_funds") == 1


async def test_an_order_that_the_broker_rejected_reserves_nothing(api: RestApi, harness: Harness) -> None:
    assert await line(api, harness, "60") is None
    await harness.pool.execute("update action_states set state = 'REFUSED', settled_at = clock_timestamp()")
    assert await line(api, harness, "100") is None


async def test_a_report_that_is_too_old_or_has_no_buying_power_is_a_missing_input(
    api: RestApi, harness: Harness
) -> None:
    await reported(harness, "1000", seconds_ago=61)
    refused = await line(api, harness, "1")
    assert refused is not None
    assert refused["missing"] == "a report of the account's buying power in USD that is at most 60 seconds old"
    await harness.pool.execute("update account_balances set buying_power = null, as_of = clock_timestamp()")
    assert (await line(api, harness, "1") or {}).get("missing") == refused["missing"]


async def test_at_the_door_orders_that_were_accepted_before_count_first(api: RestApi, harness: Harness) -> None:
    assert await line(api, harness, "50") is None
    assert await line(api, harness, "40") is None
    await reported(harness, "600")
    await harness.work()
    assert [(kind, state) for kind, state, _ in await harness.states()] == [("CREATE", "ACKED"), ("CREATE", "SKIPPED")]


async def test_executors_keep_the_balances_of_accounts_with_the_rule_fresh(api: RestApi, harness: Harness) -> None:
    store, slot = PostgresExecutionStore(harness.pool), harness.account.slot
    await harness.pool.execute("update account_balances set read_at = clock_timestamp() - interval '26 seconds'")
    [found] = await store.accounts_with_old_balances_across_organizations([slot], 25)
    assert found.account_id == harness.account.account_id
    await harness.pool.execute("update control_rules set terms = null")
    assert await store.accounts_with_old_balances_across_organizations([slot], 25) == []


async def test_what_must_be_left_is_not_used(pool: Pool, api: RestApi, harness: Harness) -> None:
    await limit(pool, harness, keep="500")
    assert await line(api, harness, "51") is not None
    assert await line(api, harness, "50") is None
