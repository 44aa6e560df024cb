"""The back-test route: what rules would have refused, by what was recorded over REST."""

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import httpx
import pytest

from openbell_server.adapters.calendars.table import load_calendars
from openbell_server.adapters.postgres.access.organizations import PostgresOrganizationStore
from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.controls.backtest_history import PostgresHistoryStore
from openbell_server.adapters.postgres.controls.control_rules import PostgresRuleStore
from openbell_server.adapters.postgres.controls.rule_books import PostgresRuleBookStore
from openbell_server.adapters.postgres.events.event_pruning import PruneEvents
from openbell_server.application.controls.backtest_rules import BacktestRequest, BacktestRules, ProposedRule
from openbell_server.application.controls.ports.backtest_history import Stretch
from openbell_server.brokers.registry import BROKERS
from openbell_server.domain.access.accounts import TRADING_LIVE, TradingAccount
from openbell_server.domain.controls.backtest_state import RecordedState
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.rules import Address, RuleTerms
from openbell_server.domain.errors import InvalidCommand, Problem
from openbell_server.domain.markets.calendars import Session, SessionChange
from support.builders.tenant import Tenant, a_tenant
from support.history.pruning import prune_at_any_age
from support.rest.rest_api import RestApi, create_body, pointers, problem


def a_rule(code: str, scope: str = "ACCOUNT", **parameters: object) -> dict[str, object]:
    return {"scope": scope, "code": code, "parameters": parameters}


def at_most(quantity: str) -> dict[str, object]:
    return a_rule("QTY_MAX", quantity=quantity)


async def backtest(api: RestApi, tenant: Tenant, *rules: dict[str, object], **asked: Any) -> httpx.Response:
    body = {"account_id": str(tenant.account.id), "rules": rules, **asked}
    return await api.client.post("/v1/controls/backtest", json=body, headers={"x-api-key": tenant.key})


async def set_rule(pool: Pool, tenant: Tenant, code: str, **parameters: object) -> None:
    address = Address(organization_id=tenant.account.organization_id, scope=Scope.ACCOUNT, account_id=tenant.account.id)
    await PostgresRuleStore(pool).save_rule(
        address, code, RuleTerms(parameters=parameters), None, tenant.principal, None
    )


async def submit(api: RestApi, tenant: Tenant, *quantities: int) -> list[int]:
    return [(await api.submit(tenant, create_body(quantity=str(quantity)))).status_code for quantity in quantities]


@dataclass(frozen=True, slots=True)
class Said:
    """What an operator says of sessions."""

    changes: tuple[SessionChange, ...] = ()

    async def session_changes(self) -> tuple[SessionChange, ...]:
        return self.changes


def a_use_case(pool: Pool, *changes: SessionChange) -> BacktestRules:
    organizations, books, history = (
        PostgresOrganizationStore(pool),
        PostgresRuleBookStore(pool),
        PostgresHistoryStore(pool),
    )
    return BacktestRules(organizations, books, history, BROKERS, load_calendars(), Said(changes))


async def test_a_tighter_rule_would_have_refused_what_was_accepted(api: RestApi, tenant: Tenant) -> None:
    await submit(api, tenant, 5, 10, 20)
    answer = await backtest(api, tenant, at_most("10"))
    assert answer.status_code == 200
    told = answer.json()
    counted = {name: told[name] for name in ("intents", "judged", "refused", "undecided")}
    assert counted == {"intents": 3, "judged": 3, "refused": 1, "undecided": 0}
    assert (told["newly_refused"], told["newly_accepted"]) == (1, 0)
    assert told["by_rule"] == [{"scope": "ACCOUNT", "code": "QTY_MAX", "refused": 1, "would_refuse": 0, "undecided": 0}]
    (example,) = told["examples"]
    assert (example["symbol"], example["was_refused"], example["would_be_refused"]) == ("AAPL", False, True)
    assert [(line["limit"], line["observed"]) for line in example["findings"]] == [("10", "20")]


async def test_a_looser_rule_would_have_accepted_what_was_refused(api: RestApi, tenant: Tenant, pool: Pool) -> None:
    await set_rule(pool, tenant, "QTY_MAX", quantity="10")
    assert await submit(api, tenant, 5, 15, 25) == [202, 422, 422]
    told = (await backtest(api, tenant, at_most("20"))).json()
    assert (told["intents"], told["refused"], told["newly_refused"], told["newly_accepted"]) == (3, 1, 0, 1)
    assert [(example["was_refused"], example["would_be_refused"]) for example in told["examples"]] == [(True, False)]
    assert all("receipt_id" in example and "action_id" not in example for example in told["examples"])


async def test_rules_in_force_stay_unless_they_are_of_the_same_scope_and_code(
    api: RestApi, tenant: Tenant, pool: Pool
) -> None:
    await set_rule(pool, tenant, "QTY_MAX", quantity="10")
    await set_rule(pool, tenant, "QTY_MIN", quantity="3")
    await submit(api, tenant, 2, 5, 15)
    alone = (await backtest(api, tenant, at_most("20"))).json()
    beside = (await backtest(api, tenant, at_most("20"), replace=False)).json()
    assert (alone["refused"], beside["refused"]) == (0, 1)
    assert {line["code"]: line["refused"] for line in beside["by_rule"] if line["scope"] == "ACCOUNT"} == {
        "QTY_MAX": 0,
        "QTY_MIN": 1,
    }


async def test_rates_count_what_was_refused_too(api: RestApi, tenant: Tenant, pool: Pool) -> None:
    await set_rule(pool, tenant, "QTY_MAX", quantity="10")
    await submit(api, tenant, 5, 15, 5, 15)
    told = (await backtest(api, tenant, a_rule("RATE_ORDERS", count=3, window_millis=3_600_000))).json()
    assert (told["refused"], told["judged"]) == (1, 4)


async def test_open_orders_and_equal_ones_are_counted_from_the_record(api: RestApi, tenant: Tenant) -> None:
    await submit(api, tenant, 5, 5, 6)
    opened = (await backtest(api, tenant, a_rule("OPEN_ORDERS_MAX", count=2))).json()
    equal = (await backtest(api, tenant, a_rule("DUPLICATE", window_millis=60_000))).json()
    assert (opened["refused"], equal["refused"]) == (1, 1)


async def test_what_the_record_does_not_tell_is_undecided(api: RestApi, tenant: Tenant, pool: Pool) -> None:
    await submit(api, tenant, 5)
    rules = (a_rule("PRICE_COLLAR", up_percent="5", down_percent="5"), a_rule("POSITION_MAX", quantity="1"))
    for rule in rules:
        told = (await backtest(api, tenant, rule)).json()
        assert (told["intents"], told["judged"], told["undecided"]) == (1, 0, 1), rule
    await pool.execute("update account_counters set positions_as_of = clock_timestamp()")
    told = (await backtest(api, tenant, rules[1])).json()
    assert (told["refused"], told["undecided"]) == (1, 0)


async def test_a_window_that_cannot_be_is_refused(api: RestApi, tenant: Tenant) -> None:
    now = datetime.now(UTC)
    for since, until in ((now, now - timedelta(days=1)), (now - timedelta(days=32), now)):
        answer = await backtest(api, tenant, since=since.isoformat(), until=until.isoformat())
        assert pointers(problem(answer, 422, "invalid_command")) == ["/since"]


async def test_a_window_that_begins_before_what_is_kept_is_refused_and_one_that_is_left_open_begins_there(
    api: RestApi, tenant: Tenant, pool: Pool
) -> None:
    await submit(api, tenant, 5, 10)
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute("alter table account_events disable trigger append_only")
        await connection.execute("update account_events set occurred_at = occurred_at - interval '2 days'")
        await connection.execute("alter table account_events enable trigger append_only")
    await submit(api, tenant, 20)
    await prune_at_any_age(pool)
    assert await PruneEvents(pool, 86_400.0).across_organizations() == 2
    three_days_ago = (datetime.now(UTC) - timedelta(days=3)).isoformat()
    refused = problem(await backtest(api, tenant, at_most("10"), since=three_days_ago), 422, "invalid_command")
    assert pointers(refused) == ["/since"]
    assert "some are gone" in str(refused)
    told = (await backtest(api, tenant, at_most("10"))).json()
    assert told["window"]["since"] > three_days_ago
    assert told["refused"] == 1
    again = await backtest(api, tenant, at_most("10"), since=told["window"]["since"])
    assert again.json()["refused"] == 1


class PrunedMeanwhile(PostgresHistoryStore):
    """Loses its events while they are read."""

    async def state_before(self, account: TradingAccount, stretch: Stretch) -> RecordedState:
        state = await super().state_before(account, stretch)
        await prune_at_any_age(self.pool)
        assert await PruneEvents(self.pool, 0.0).across_organizations() == 2
        return state


async def test_what_goes_while_it_is_replayed_is_not_passed_over(api: RestApi, tenant: Tenant, pool: Pool) -> None:
    await submit(api, tenant, 5, 10)
    use_case = replace(a_use_case(pool), history=PrunedMeanwhile(pool))
    rule = ProposedRule(scope=Scope.ACCOUNT, code="QTY_MAX", parameters={"quantity": "10"})
    with pytest.raises(InvalidCommand, match="some are gone"):
        await use_case(tenant.principal, BacktestRequest(account_id=tenant.account.id, rules=[rule]))


async def test_a_rule_that_cannot_be_is_refused_where_it_stands(api: RestApi, tenant: Tenant) -> None:
    for rule, pointer in (
        (at_most("none"), "/rules/1/parameters/quantity"),
        (a_rule("NO_SUCH"), "/rules/1/code"),
        (at_most("5") | {"symbol": "AAPL"}, "/rules/1/symbol"),
        (at_most("5") | {"scope": "KEY"}, "/rules/1/api_key_id"),
    ):
        answer = await backtest(api, tenant, at_most("10"), rule)
        assert pointers(problem(answer, 422, "invalid_command")) == [pointer], rule


async def test_it_needs_the_entitlement_and_an_account_of_one_s_own(api: RestApi, tenant: Tenant, pool: Pool) -> None:
    plain = await a_tenant(pool, entitlements=frozenset({TRADING_LIVE}))
    problem(await backtest(api, plain, at_most("1")), 403, "entitlement_required")
    other_organization = await a_tenant(pool)
    answer = await backtest(api, other_organization, at_most("1"), account_id=str(tenant.account.id))
    problem(answer, 404, "not_found")


async def test_an_organization_has_one_back_test_at_a_time(api: RestApi, tenant: Tenant, pool: Pool) -> None:
    await submit(api, tenant, 5)
    use_case = a_use_case(pool)
    request = BacktestRequest(
        account_id=tenant.account.id,
        rules=[ProposedRule(scope=Scope.ACCOUNT, code="QTY_MAX", parameters={"quantity": "1"})],
    )
    answers = await asyncio.gather(*(use_case(tenant.principal, request) for _ in range(3)), return_exceptions=True)
    refusals = [answer.code for answer in answers if isinstance(answer, Problem)]
    assert refusals == ["backtest_running"] * 2
    assert (await use_case(tenant.principal, request)).tally.refused == 1


async def test_market_hours_are_those_that_an_operator_says(api: RestApi, tenant: Tenant, pool: Pool) -> None:
    await submit(api, tenant, 5)
    now = datetime.now(UTC)
    day = now.astimezone(ZoneInfo("America/New_York")).date()
    rule = ProposedRule(scope=Scope.ACCOUNT, code="MARKET_CLOSED", parameters={"calendar": "XNYS"})
    request = BacktestRequest(account_id=tenant.account.id, rules=[rule])
    for opens_at, closes_at, refused in (
        (now - timedelta(hours=1), now + timedelta(hours=1), 0),
        (None, None, 1),
    ):
        change = SessionChange(
            calendar="XNYS",
            trade_date=day,
            session=Session.REGULAR,
            opens_at=opens_at,
            closes_at=closes_at,
            reason="a test",
        )
        tally = (await a_use_case(pool, change)(tenant.principal, request)).tally
        assert (tally.judged, tally.refused) == (1, refused)
