"""An order that could trade with an open order of the same account on the other side is refused."""

from collections.abc import AsyncIterator
from dataclasses import replace
from decimal import Decimal

import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.controls.control_rules import PostgresRuleStore
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.rules import Address, RuleTerms
from openbell_server.domain.orders.intents import CreateIntent
from openbell_server.domain.orders.order_terms import OrderSide, OrderType
from support.brokers.scripted_broker import Harness
from support.builders.tenant import a_limit_create, a_market_create, a_replace
from support.rest.rest_api import RestApi, create_body, replace_body, rest_api


@pytest.fixture
async def api(pool: Pool, harness: Harness) -> AsyncIterator[RestApi]:
    """The account of the harness has the rule."""
    account = harness.tenant.account
    address = Address(organization_id=account.organization_id, scope=Scope.ACCOUNT, account_id=account.id)
    terms = RuleTerms(parameters={})
    await PostgresRuleStore(pool).save_rule(address, "SELF_MATCH", terms, None, harness.tenant.principal, None)
    async with rest_api(pool) as api:
        yield api


async def outcome(api: RestApi, harness: Harness, body: dict[str, object]) -> str:
    """PASSED, or what the rule would let pass."""
    answer = await api.submit(harness.tenant, body)
    if answer.status_code == 202:
        return "PASSED"
    assert answer.status_code == 422, answer.text
    [line] = [rule for rule in answer.json()["receipt"]["rules"] if rule["verdict"] == "REFUSED"]
    assert (line["code"], line["limit"]) == ("SELF_MATCH", 0)
    hint: str = line["would_pass"]
    return hint


def a_sell(price: str) -> CreateIntent:
    return replace(a_limit_create(price), order_side=OrderSide.SELL)


def a_buy(price: str) -> dict[str, object]:
    return create_body("Limit", price=price)


async def test_an_order_that_would_meet_our_own_is_refused_from_its_limit_on(api: RestApi, harness: Harness) -> None:
    await harness.accept(a_sell("101"))
    await harness.accept(a_sell("102"))
    assert await outcome(api, harness, a_buy("101")) == "a limit_price below 101"
    assert await outcome(api, harness, create_body()) == "once no SELL of AAPL is open that could trade with it"
    assert await outcome(api, harness, create_body("Market", symbol="MSFT")) == "PASSED"
    assert await outcome(api, harness, a_buy("100.99")) == "PASSED"
    assert await outcome(api, harness, a_buy("100.98")) == "PASSED"


async def test_an_order_without_a_limit_price_meets_every_order_of_the_other_side(
    api: RestApi, harness: Harness
) -> None:
    stop = a_market_create()
    spec = replace(stop.spec, order_type=OrderType.STOP, stop_price=Decimal(90))
    await harness.accept(replace(stop, order_side=OrderSide.SELL_SHORT, spec=spec))
    assert await outcome(api, harness, a_buy("1")) == "once no SELL of AAPL is open that could trade with it"


async def test_a_replace_that_is_not_settled_counts_with_both_prices(api: RestApi, harness: Harness) -> None:
    intent_id = await harness.accept(a_sell("103"))
    await harness.accept(a_replace(intent_id, price="101"))
    assert await outcome(api, harness, a_buy("101")) == "a limit_price below 101"
    assert await outcome(api, harness, a_buy("100")) == "PASSED"


async def test_a_replace_is_refused_that_would_meet_our_own_and_never_meets_itself(
    api: RestApi, harness: Harness
) -> None:
    ours = await harness.accept(a_limit_create("99"))
    await harness.accept(a_sell("101"))
    body = replace_body(ours, price="101", quantity="12")
    assert await outcome(api, harness, body) == "a limit_price below 101"
    assert await outcome(api, harness, replace_body(ours, price="100", quantity="12")) == "PASSED"


async def test_what_was_accepted_before_the_rule_is_skipped_at_the_door(api: RestApi, harness: Harness) -> None:
    """Both were queued without a check of the rule: the first is sent, the second would meet it."""
    await harness.accept(a_sell("101"))
    await harness.accept(a_limit_create("101"))
    await harness.work()
    assert [(kind, state) for kind, state, _ in await harness.states()] == [("CREATE", "ACKED"), ("CREATE", "SKIPPED")]
