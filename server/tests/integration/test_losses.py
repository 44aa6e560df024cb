"""What an account lost today is measured from its trades and prices; beyond the limit it may only reduce."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from openbell_server.adapters.postgres.access.organizations import PostgresOrganizationStore
from openbell_server.adapters.postgres.connection import Pool, Role
from openbell_server.adapters.postgres.controls.control_rules import PostgresRuleStore
from openbell_server.adapters.postgres.controls.markets import PostgresMarketStore
from openbell_server.adapters.postgres.controls.rule_books import ExecutorRuleBookStore, PostgresRuleBookStore
from openbell_server.adapters.postgres.money.books import ExecutorBookStore, PostgresBookStore
from openbell_server.adapters.postgres.money.losses import PostgresLossStore
from openbell_server.adapters.postgres.money.marks import ExecutorMarks, PostgresMarks
from openbell_server.application.money.measure_losses import MeasureLosses
from openbell_server.application.money.save_books import SaveBooks
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.rules import Address, OnMissing, RuleTerms
from openbell_server.domain.events.account_events import EventKind
from openbell_server.domain.identifiers import client_order_id
from openbell_server.domain.orders.broker_reports import ReportStatus
from support.brokers.scripted_broker import Harness
from support.builders.tenant import a_key, a_limit_create, a_report, an_execution
from support.identity.bearers import as_user
from support.rest.rest_api import RecordedHints, RestApi, control_path, create_body, problem, rest_api


class Desk:
    """An account that bought 100 of AAPL at the executions' price, and whose price moves."""

    def __init__(self, harness: Harness, api: RestApi) -> None:
        self.harness, self.api, self.pool = harness, api, harness.pool
        self.hints = RecordedHints()
        self.measure = MeasureLosses(
            PostgresLossStore(harness.pool),
            PostgresOrganizationStore(harness.pool),
            PostgresRuleBookStore(harness.pool),
            PostgresBookStore(harness.pool),
            PostgresMarks(harness.pool),
            PostgresMarketStore(harness.pool),
            self.hints,
        )

    async def limit(self, value: str, scope: Scope = Scope.ACCOUNT, **parameters: str) -> None:
        account = self.harness.tenant.account
        account_id = account.id if scope is Scope.ACCOUNT else None
        api_key_id = self.harness.tenant.principal.id if scope is Scope.KEY else None
        address = Address(
            organization_id=account.organization_id, scope=scope, account_id=account_id, api_key_id=api_key_id
        )
        terms = RuleTerms(on_missing=OnMissing.DENY, parameters={"value": value, "currency": "USD", **parameters})
        await PostgresRuleStore(self.pool).save_rule(
            address, "LOSS_MAX", terms, None, self.harness.tenant.principal, None
        )

    async def buys(self) -> Decimal:
        """100 of AAPL; the price of one."""
        await self.harness.accept(a_limit_create("10", "100"))
        (door,) = await self.harness.work()
        fill = an_execution(1, 100, 50)
        name = client_order_id(door.action.order_action_id)
        await self.harness.report(a_report(ReportStatus.FILLED, [fill], client_order_id=name))
        await self.pool.execute("update account_counters set positions_as_of = clock_timestamp()")
        return fill.price

    async def priced(self, price: Decimal | str) -> None:
        """The market moves, and executors measure."""
        await self.pool.execute(
            "insert into reference_prices (organization_id, broker, symbol, price, source, as_of)"
            " values ($1, 'paper', 'AAPL', $2, 'quote', now())"
            " on conflict (organization_id, broker, symbol) do update set price = excluded.price",
            self.harness.tenant.account.organization_id,
            Decimal(price),
        )
        await self.sweep()

    async def sweep(self) -> None:
        await self.measure.sweep([self.harness.account.slot])
        assert self.measure.failures == {}

    async def submits(self, side: str = "BUY", quantity: str = "1") -> list[str]:
        """The codes that refuse; none if it was accepted."""
        body: Any = create_body(quantity=quantity)
        body["command"]["payload"]["order_side"] = side
        answer = await self.api.submit(self.harness.tenant, body)
        if answer.status_code == 202:
            return []
        assert answer.status_code == 422, answer.text
        return [rule["code"] for rule in answer.json()["receipt"]["rules"] if rule["verdict"] == "REFUSED"]

    async def breaches(self) -> list[dict[str, Any]]:
        listed = await self.api.client.get(
            "/v1/events",
            params={
                "account_id": str(self.harness.tenant.account.id),
                "types": EventKind.LOSS_LIMIT_EXCEEDED.name,
            },
            headers={"x-api-key": self.harness.tenant.key},
        )
        assert listed.status_code == 200, listed.text
        return [event["loss_limit_exceeded"] for event in listed.json()["data"]]


@pytest.fixture
async def desk(pool: Pool, harness: Harness) -> AsyncIterator[Desk]:
    await pool.execute(
        "insert into instruments (organization_id, broker, symbol, asset_class, quote_currency, tradable, fractional,"
        " multiplier, as_of) values ($1, 'paper', 'AAPL', 'us_equity', 'USD', true, true, 1, now())",
        harness.tenant.account.organization_id,
    )
    async with rest_api(pool) as api:
        yield Desk(harness, api)


async def test_beyond_the_loss_of_the_day_only_what_reduces_is_accepted_and_the_log_says_so_once(desk: Desk) -> None:
    price = await desk.buys()
    await desk.limit("100")
    await desk.priced(price)
    assert await desk.submits() == []
    await desk.priced(price - 1)
    assert (await desk.submits(), await desk.breaches()) == ([], [])
    await desk.priced(price - Decimal("1.01"))
    assert await desk.submits() == ["LOSS_MAX"]
    assert await desk.submits("SELL", "101") == ["LOSS_MAX"]
    assert await desk.submits("SELL", "99") == []
    # It was made good again, but not undone.
    await desk.priced(price + 5)
    assert await desk.submits() == ["LOSS_MAX"]
    [breach] = await desk.breaches()
    assert (breach["limit"], breach["loss"], breach["scope"]) == ("100", "101.00", "ACCOUNT")
    assert breach["on_breach"] == "REDUCE_ONLY"


async def test_a_new_day_begins_where_the_last_one_ended(desk: Desk) -> None:
    price = await desk.buys()
    await desk.limit("100", on_breach="HALTED")
    await desk.priced(price)
    await desk.priced(price - 2)
    assert await desk.submits("SELL") == ["LOSS_MAX"]
    await desk.pool.execute("update loss_marks set day = day - 1")
    await desk.sweep()
    assert await desk.submits() == []
    await desk.priced(price - Decimal("3.5"))
    assert await desk.submits() == ["LOSS_MAX"]
    assert [breach["loss"] for breach in await desk.breaches()] == ["200", "150.0"]


async def test_a_higher_limit_lets_trade_again_and_is_announced_anew(desk: Desk) -> None:
    price = await desk.buys()
    await desk.limit("100")
    await desk.priced(price)
    await desk.priced(price - 2)
    await desk.limit("300")
    await desk.sweep()
    assert await desk.submits() == []
    await desk.priced(price - 4)
    assert await desk.submits() == ["LOSS_MAX"]
    assert [breach["limit"] for breach in await desk.breaches()] == ["100", "300"]


async def test_without_a_measurement_or_a_price_nothing_is_accepted_where_missing_inputs_deny(desk: Desk) -> None:
    price = await desk.buys()
    await desk.limit("100")
    assert await desk.submits() == ["LOSS_MAX"]
    # Nobody has told a price of what is held.
    await desk.sweep()
    assert await desk.submits() == ["LOSS_MAX"]
    await desk.priced(price)
    assert await desk.submits() == []
    await desk.pool.execute("update loss_marks set as_of = as_of - $1::interval", timedelta(seconds=31))
    assert await desk.submits() == ["LOSS_MAX"]


async def test_a_limit_of_the_organization_is_one_of_each_account_and_from_the_highest_profit_if_so_set(
    desk: Desk,
) -> None:
    price = await desk.buys()
    await desk.limit("100", Scope.ORGANIZATION, measured_from="HIGHEST")
    await desk.priced(price)
    await desk.priced(price + 10)
    await desk.priced(price + Decimal("8.5"))
    assert await desk.submits() == ["LOSS_MAX"]
    [breach] = await desk.breaches()
    assert (breach["scope"], breach["loss"], breach["measured_from"]) == ("ORGANIZATION", "150.0", "HIGHEST")


async def test_what_was_queued_before_the_limit_was_exceeded_is_skipped_at_the_door(desk: Desk) -> None:
    price = await desk.buys()
    await desk.limit("100")
    await desk.priced(price)
    assert await desk.submits() == []
    await desk.priced(price - 2)
    await desk.harness.work()
    assert (await desk.harness.states())[-1] == ("CREATE", "SKIPPED", "LOSS_MAX")


async def test_a_limit_of_a_key_stops_that_key_in_the_accounts_that_it_is_limited_to(
    desk: Desk,
) -> None:
    price, tenant = await desk.buys(), desk.harness.tenant
    await desk.limit("100", Scope.KEY)
    await desk.priced(price)
    # A key of every account is not measured.
    assert await desk.pool.fetchval("select count(*) from loss_marks") == 0
    await desk.pool.execute("update api_keys set account_ids = $1", [tenant.account.id])
    await desk.sweep()
    assert await desk.submits() == []
    await desk.priced(price - 2)
    assert await desk.submits() == ["LOSS_MAX"]
    [breach] = await desk.breaches()
    assert (breach["scope"], breach["limit"]) == ("KEY", "100")
    another, text = await a_key(desk.pool, tenant.account.organization_id)
    answer = await desk.api.submit(replace(tenant, principal=another, key=text), create_body())
    assert answer.status_code == 202, answer.text


async def test_a_limit_of_a_key_of_every_account_is_refused(desk: Desk) -> None:
    tenant = desk.harness.tenant
    refused = await desk.api.client.put(
        control_path("rules/LOSS_MAX", tenant, Scope.KEY),
        json={"mode": "HARD", "parameters": {"value": "100", "currency": "USD"}, "reason": "test"},
        headers=as_user(tenant),
    )
    assert "account_ids" in str(problem(refused, 422, "invalid_command")["detail"])


async def test_executors_measure_losses_and_save_books_with_their_own_login(desk: Desk, executor_pool: Pool) -> None:
    price = await desk.buys()
    await desk.limit("100")
    await desk.priced(price)
    books = ExecutorBookStore(executor_pool)
    measure = MeasureLosses(
        PostgresLossStore(executor_pool),
        PostgresOrganizationStore(executor_pool),
        ExecutorRuleBookStore(executor_pool),
        books,
        ExecutorMarks(executor_pool),
        PostgresMarketStore(executor_pool, role=Role.EXECUTION),
        desk.hints,
    )
    await desk.pool.execute("update reference_prices set price = price - 2")
    await desk.pool.execute("update loss_marks set as_of = as_of - $1::interval", timedelta(seconds=31))
    slots = [desk.harness.account.slot]
    await measure.sweep(slots)
    assert measure.failures == {}
    assert await desk.submits() == ["LOSS_MAX"]
    await desk.pool.execute("delete from book_heads")
    await SaveBooks(books, books)(slots)
    assert await desk.pool.fetchval("select count(*) from book_heads") == 1
