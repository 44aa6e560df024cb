"""Rules of every scope at both gates: what counts, what expires, what nobody can read, and how refusals are kept."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from openbell_server.adapters.postgres.access.organizations import PostgresOrganizationStore
from openbell_server.adapters.postgres.connection import Pool, open_pool
from openbell_server.adapters.postgres.controls import rule_books
from openbell_server.adapters.postgres.controls.control_rules import PostgresRuleStore
from openbell_server.adapters.postgres.controls.symbol_controls import PostgresControlStore
from openbell_server.adapters.postgres.migrate import migrate
from openbell_server.adapters.postgres.schema import OLDEST
from openbell_server.domain.access.accounts import TradingAccount
from openbell_server.domain.controls.findings import Mode, Scope
from openbell_server.domain.controls.rules import PLATFORM_ID, Address, OnMissing, Override, RuleTerms
from openbell_server.domain.controls.symbol_controls import ManualControl
from openbell_server.domain.identifiers import Symbol
from support.brokers.scripted_broker import Harness
from support.builders.tenant import Tenant, a_limit_create, a_replace, a_tenant, accept
from support.rest.rest_api import RestApi, cancel_body, create_body, rest_api

NOTHING_PASSES: dict[str, Any] = {"quantity": "0.5"}


@pytest.fixture
async def api(pool: Pool) -> AsyncIterator[RestApi]:
    async with rest_api(pool) as api:
        yield api


def place(tenant: Tenant, scope: Scope) -> Address:
    account = tenant.account
    return Address(
        organization_id=PLATFORM_ID if scope is Scope.PLATFORM else account.organization_id,
        scope=scope,
        account_id=account.id if scope in {Scope.ACCOUNT, Scope.SYMBOL} else None,
        symbol=Symbol("AAPL") if scope is Scope.SYMBOL else None,
        api_key_id=tenant.principal.id if scope is Scope.KEY else None,
    )


async def set_rule(
    pool: Pool, tenant: Tenant, code: str, scope: Scope = Scope.ACCOUNT, mode: Mode = Mode.HARD, **parameters: Any
) -> None:
    terms = RuleTerms(mode=mode, parameters=parameters)
    await PostgresRuleStore(pool).save_rule(place(tenant, scope), code, terms, None, tenant.principal, None)


async def as_it_is(pool: Pool, tenant: Tenant) -> Tenant:
    account = tenant.account
    found = await PostgresOrganizationStore(pool).find_account(account.organization_id, account.id)
    assert found is not None
    return replace(tenant, account=found)


def refusals(answer: httpx.Response) -> list[tuple[str, str]]:
    assert answer.status_code == 422, answer.text
    rules = answer.json()["receipt"]["rules"]
    return [(rule["code"], rule["scope"]) for rule in rules if rule["verdict"] == "REFUSED"]


@pytest.mark.parametrize("scope", list(Scope))
async def test_a_rule_of_any_scope_refuses_at_both_gates(
    pool: Pool, harness: Harness, api: RestApi, scope: Scope
) -> None:
    await harness.accept()
    await set_rule(pool, harness.tenant, "QTY_MAX", scope, **NOTHING_PASSES)
    assert refusals(await api.submit(harness.tenant, create_body())) == [("QTY_MAX", scope)]
    assert await harness.work() == []
    assert await harness.states() == [("CREATE", "SKIPPED", "QTY_MAX")]


async def test_a_rule_of_one_key_or_symbol_stops_no_other(pool: Pool, harness: Harness, api: RestApi) -> None:
    other = replace(harness.tenant, principal=replace(harness.tenant.principal, id="another"))
    await set_rule(pool, other, "QTY_MAX", Scope.KEY, **NOTHING_PASSES)
    await set_rule(pool, harness.tenant, "QTY_MAX", Scope.SYMBOL, **NOTHING_PASSES)
    assert refusals(await api.submit(harness.tenant, create_body())) == [("QTY_MAX", "SYMBOL")]
    assert (await api.submit(harness.tenant, create_body(symbol="MSFT"))).status_code == 202


async def test_an_override_ends_by_itself(pool: Pool, harness: Harness, api: RestApi) -> None:
    await set_rule(pool, harness.tenant, "QTY_MAX", **NOTHING_PASSES)
    soon = datetime.now(UTC) + timedelta(hours=1)
    override = Override(terms=RuleTerms(parameters={"quantity": "1000"}), expires_at=soon)
    where = place(harness.tenant, Scope.ACCOUNT)
    await PostgresRuleStore(pool).save_rule(where, "QTY_MAX", override, None, harness.tenant.principal, None)
    assert (await api.submit(harness.tenant, create_body())).status_code == 202
    # No change of a rule, and so no epoch: the book that was read holds both.
    await pool.execute("update control_rules set override_expires_at = clock_timestamp()")
    async with rest_api(pool) as fresh:
        assert refusals(await fresh.submit(harness.tenant, create_body())) == [("QTY_MAX", "ACCOUNT")]
    assert await harness.work() == []


async def test_a_rule_in_shadow_mode_refuses_nothing_and_says_what_it_would(
    pool: Pool, harness: Harness, api: RestApi
) -> None:
    await set_rule(pool, harness.tenant, "QTY_MAX", mode=Mode.SHADOW, **NOTHING_PASSES)
    assert (await api.submit(harness.tenant, create_body())).status_code == 202
    assert len(await harness.work()) == 1
    (body,) = await bodies(pool)
    assert [(rule["verdict"], body["verdict"]) for rule in body["rules"]] == [("WOULD_REFUSE", "PASSED")]


async def bodies(pool: Pool) -> list[dict[str, Any]]:
    rows = await pool.fetch("select body from receipts order by created_at")
    return [json.loads(row["body"]) for row in rows]


@pytest.mark.parametrize("terms", ["not JSON", '{"mode":"HARD","on_missing":null,"parameters":{"quantity":5}}'])
async def test_a_rule_that_nobody_can_read_lets_nothing_pass_but_cancels(
    pool: Pool, harness: Harness, api: RestApi, terms: str
) -> None:
    intent, _ = await harness.working()
    await harness.accept()
    await set_rule(pool, harness.tenant, "QTY_MAX", quantity="1000")
    await pool.execute("update control_rules set terms = $1", terms)
    answer = await api.submit(harness.tenant, create_body())
    assert refusals(answer) == [("QTY_MAX", "ACCOUNT")]
    assert "CONTROL_INPUT_UNAVAILABLE" in answer.json()["detail"]
    assert await harness.work() == []
    assert (await harness.states())[1] == ("CREATE", "SKIPPED", "CONTROL_INPUT_UNAVAILABLE")
    assert (await api.submit(harness.tenant, cancel_body(intent))).status_code == 202


async def test_refusals_at_both_gates_are_numbered_and_chained(pool: Pool, harness: Harness, api: RestApi) -> None:
    intent = await harness.accept()
    await set_rule(pool, harness.tenant, "QTY_MAX", **NOTHING_PASSES)
    assert (await api.submit(harness.tenant, create_body())).status_code == 422
    await harness.work()
    rows = await pool.fetch(
        "select refusal_no, intent_id, seq, body, hash from receipts where verdict = 'REFUSED' order by refusal_no"
    )
    assert [(row["refusal_no"], row["intent_id"], row["seq"]) for row in rows] == [(1, None, None), (2, intent, 1)]
    assert [json.loads(row["body"])["gate"] for row in rows] == ["ACCEPT", "DOOR"]
    head = bytes(32)
    for row in rows:
        assert row["hash"] == hashlib.sha256(row["body"].encode()).digest()
        head = hashlib.sha256(head + row["hash"]).digest()
    assert await pool.fetchval("select refusal_head from account_counters") == head


async def test_a_replace_that_reduces_risk_passes_both_gates(pool: Pool, harness: Harness, api: RestApi) -> None:
    intent, _ = await harness.working()
    await set_rule(pool, harness.tenant, "QTY_MAX", **NOTHING_PASSES)
    less, more = replace_body(str(intent), "5"), replace_body(str(intent), "15")
    assert refusals(await api.submit(harness.tenant, more)) == [("QTY_MAX", "ACCOUNT")]
    assert (await api.submit(harness.tenant, less)).status_code == 202
    assert len(await harness.work()) == 1
    told = (await bodies(pool))[-1]
    assert (told["exempt"], told["command"]["before"]["quantity"], told["rules"]) == ("REDUCES_RISK", "10", [])


def replace_body(intent: str, quantity: str) -> dict[str, Any]:
    spec = {"Limit": {"quantity": quantity, "price": "1.50"}}
    return {"command": {"type": "REPLACE", "payload": {"ref_intent_id": intent, "spec": spec}}}


async def test_a_replace_is_judged_at_the_door_beside_the_order_as_it_is_then(pool: Pool, harness: Harness) -> None:
    intent, _ = await harness.working()
    await harness.accept(a_replace(intent, quantity="12"))
    await set_rule(pool, harness.tenant, "QTY_MAX", quantity="11")
    assert await harness.work() == []
    assert (await harness.states())[1] == ("REPLACE", "SKIPPED", "QTY_MAX")


async def test_open_orders_count_those_that_wait_and_at_the_door_only_those_before(
    pool: Pool, harness: Harness, api: RestApi
) -> None:
    await set_rule(pool, harness.tenant, "OPEN_ORDERS_MAX", count=2, per="ACCOUNT")
    tenant = harness.tenant
    assert [(await api.submit(tenant, create_body())).status_code for _ in range(3)] == [202, 202, 422]
    assert len(await harness.work()) == 2
    third = await accept(pool, (await as_it_is(pool, tenant)).submission(a_limit_create()))
    assert third[0].status == "ACCEPTED"
    assert await harness.work() == []
    assert (await harness.states())[2] == ("CREATE", "SKIPPED", "OPEN_ORDERS_MAX")


async def test_an_equal_order_is_a_duplicate_unless_its_caller_says_otherwise(
    pool: Pool, harness: Harness, api: RestApi
) -> None:
    await set_rule(pool, harness.tenant, "DUPLICATE", window_millis=60_000)
    tenant = harness.tenant
    first = await api.submit(tenant, create_body(), key="k")
    again = await api.submit(tenant, create_body(), key="k")
    assert (first.status_code, again.status_code) == (202, 202)
    assert again.headers["idempotency-replayed"] == "true"
    assert refusals(await api.submit(tenant, create_body(), key="l")) == [("DUPLICATE", "ACCOUNT")]
    assert (await api.submit(tenant, create_body() | {"allow_duplicate": True})).status_code == 202
    assert (await api.submit(tenant, create_body(symbol="MSFT"))).status_code == 202
    reused = await api.submit(tenant, create_body(symbol="MSFT"), key="k")
    assert reused.json()["code"] == "idempotency_key_reused"


@pytest.mark.parametrize("scope", list(Scope))
async def test_rates_count_what_was_refused_and_no_replay(
    pool: Pool, harness: Harness, api: RestApi, scope: Scope
) -> None:
    await set_rule(pool, harness.tenant, "RATE_ORDERS", scope, count=3, window_millis=3_600_000)
    await set_rule(pool, harness.tenant, "QTY_MAX", quantity="100")
    tenant = harness.tenant
    assert (await api.submit(tenant, create_body(), key="k")).status_code == 202
    for _ in range(5):
        assert (await api.submit(tenant, create_body(), key="k")).status_code == 202
    assert refusals(await api.submit(tenant, create_body(quantity="200"))) == [("QTY_MAX", "ACCOUNT")]
    assert (await api.submit(tenant, create_body())).status_code == 202
    assert refusals(await api.submit(tenant, create_body())) == [("RATE_ORDERS", scope)]
    judged = await pool.fetch("select scope, judged from control_rates")
    assert [(row["scope"], len(row["judged"])) for row in judged] == [(scope, 4)]


async def test_a_deadline_is_kept_at_both_gates(pool: Pool, harness: Harness, api: RestApi) -> None:
    past, later = "2026-01-05T12:00:00Z", "2100-01-05T12:00:00+02:00"
    assert refusals(await api.submit(harness.tenant, create_body() | {"deadline": past})) == [
        ("STALE_ORDER", "PLATFORM")
    ]
    accepted = await api.submit(harness.tenant, create_body() | {"deadline": later})
    assert accepted.status_code == 202
    await pool.execute("update action_states set deadline = clock_timestamp() - interval '1 millisecond'")
    assert await harness.work() == []
    assert await harness.states() == [("CREATE", "SKIPPED", "STALE_ORDER")]


async def test_a_position_counts_only_by_the_broker_s_word(pool: Pool, harness: Harness, api: RestApi) -> None:
    terms = RuleTerms(on_missing=OnMissing.DENY, parameters={"quantity": "15"})
    where = place(harness.tenant, Scope.ACCOUNT)
    await PostgresRuleStore(pool).save_rule(where, "POSITION_MAX", terms, None, harness.tenant.principal, None)
    answer = await api.submit(harness.tenant, create_body())
    assert "CONTROL_INPUT_UNAVAILABLE" in answer.json()["detail"]
    await pool.execute("update account_counters set positions_as_of = clock_timestamp()")
    assert (await api.submit(harness.tenant, create_body())).status_code == 202
    assert refusals(await api.submit(harness.tenant, create_body())) == [("POSITION_MAX", "ACCOUNT")]


@pytest.mark.parametrize(
    ("code", "parameters"), [("OPEN_ORDERS_MAX", {"count": 3}), ("POSITION_MAX", {"quantity": "30"})]
)
async def test_commands_at_once_never_get_past_a_limit_together(
    pool: Pool, harness: Harness, api: RestApi, code: str, parameters: dict[str, Any]
) -> None:
    await set_rule(pool, harness.tenant, code, **parameters)
    await pool.execute("update account_counters set positions_as_of = clock_timestamp()")
    answers = await asyncio.gather(*(api.submit(harness.tenant, create_body()) for _ in range(12)))
    assert sorted(answer.status_code for answer in answers) == [202] * 3 + [422] * 9
    assert len(await harness.work(free=12)) == 3


@pytest.fixture
async def counted(database: str) -> AsyncIterator[tuple[Pool, list[str]]]:
    """A pool of one connection, and what it is sent."""
    sent: list[str] = []
    pool = await open_pool(database, connections_max=1)
    async with pool.acquire() as connection:
        connection.add_query_logger(lambda record: sent.append(record.query))
    yield pool, sent
    await pool.close()


async def test_rules_that_count_nothing_cost_a_submit_no_round_trip(
    pool: Pool, counted: tuple[Pool, list[str]]
) -> None:
    one, sent = counted

    async def costs(api: RestApi, rules: int) -> tuple[int, int]:
        """Of an account's first command, which reads its rules, and of its next."""
        tenant = await a_tenant(pool)
        for scope in tuple(Scope)[:rules]:
            await set_rule(pool, tenant, "QTY_MAX", scope, quantity="1000")
        counts = []
        for _ in range(2):
            sent.clear()
            assert (await api.submit(tenant, create_body())).status_code == 202
            counts.append(len(sent))
        return counts[0], counts[1]

    async with rest_api(one) as api:
        # The first of all looks up types. What was remembered may lapse while a machine stands still.
        none = [await costs(api, 0) for _ in range(5)]
        some = [await costs(api, 5) for _ in range(5)]
    for place in (0, 1):
        assert min(cost[place] for cost in some) == min(cost[place] for cost in none)


async def test_both_gates_work_on_the_oldest_schema_with_the_controls_of_symbols(empty: str) -> None:
    await asyncio.to_thread(migrate, empty, OLDEST)
    async with await open_pool(empty) as old, rest_api(old) as api:
        harness = Harness(old, await a_tenant(old))
        await harness.accept()
        assert len(await harness.work()) == 1
        assert (await api.submit(harness.tenant, create_body())).status_code == 202
        where = (harness.tenant.account.organization_id, harness.tenant.account.id, Symbol("AAPL"))
        off = ManualControl(manually_disabled=True)
        await PostgresControlStore(old).set_manual(*where, off, harness.tenant.principal)
        assert refusals(await api.submit(harness.tenant, create_body())) == [("SYMBOL_DISABLED", "SYMBOL")]
        assert await harness.work() == []
        assert (await harness.states())[1] == ("CREATE", "SKIPPED", "SYMBOL_DISABLED")
        assert await old.fetchval("select count(*) from receipts where verdict = 'REFUSED'") == 2


async def test_the_books_of_only_so_many_accounts_are_kept(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_books, "BOOKS_MAX", 2)
    store = rule_books.PostgresRuleBookStore(pool)
    accounts = [(await a_tenant(pool)).account for _ in range(3)]
    for account in accounts:
        await store.rule_book(account)

    def is_kept(account: TradingAccount) -> bool:
        epochs = (account.organization_epoch, account.account_epoch)
        return store.books.find(account.organization_id, account.id, epochs) is not None

    assert [is_kept(account) for account in accounts] == [False, True, True]
