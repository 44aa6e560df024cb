"""Statistics over REST: what is counted, in which window, and that they say what the tables say."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from openbell_server.adapters.postgres.connection import Pool, open_pool
from openbell_server.adapters.postgres.migrate import migrate
from openbell_server.adapters.postgres.schema import OLDEST
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.orders.broker_reports import Refused, Unknown
from openbell_server.domain.orders.order_terms import OrderSide
from support.brokers.scripted_broker import Harness
from support.builders.tenant import Tenant, a_cancel, a_limit_create, a_market_create, a_tenant, accept, new_id
from support.environment.statistics_check import miscounted
from support.rest.rest_api import RestApi, create_body, pointers, problem, rest_api
from support.tenancy.populated_tenant import PopulatedTenant

WINDOWS = ["last_hour", "last_day", "last_week", "last_month", "all"]
# Of an account; those after them are read from where they stand.
COUNTED_AT_ONCE = 64


def some(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


async def read(api: RestApi, tenant: Tenant, **query: str) -> dict[str, Any]:
    answer = await api.read(tenant, "/stats", **query)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def refuse(pool: Pool, tenant: Tenant, count: int) -> None:
    """Receipts of commands that a control refused."""
    await pool.execute(
        "insert into receipts (organization_id, account_id, receipt_id, verdict, body, hash, created_at)"
        " select $1, $2, gen_random_uuid(), 'REFUSED', '{}', sha256(''), clock_timestamp() from generate_series(1, $3)",
        tenant.account.organization_id,
        tenant.account.id,
        count,
    )


async def test_an_account_without_intents_has_zeros(api: RestApi, tenant: Tenant) -> None:
    body = await read(api, tenant)
    assert set(body.pop("window")) == {"since", "until"}
    assert body.pop("outcomes").keys() >= {"QUEUED", "ACKED", "REFUSED", "UNKNOWN"}
    assert body == {
        "intents": 0,
        "actions": {"CREATE": 0, "REPLACE": 0, "CANCEL": 0},
        "symbols": [],
        "sides": {"BUY": 0, "SELL": 0, "SELL_SHORT": 0},
        "control_refusals": 0,
        "dispatch_latency_millis": {"p50": None, "p95": None, "p99": None},
    }


@pytest.mark.parametrize("window", WINDOWS)
async def test_every_window_counts_what_was_asked_just_now_and_what_came_of_it(
    api: RestApi, tenant: Tenant, pool: Pool, window: str
) -> None:
    harness = Harness(pool, tenant)
    await harness.accept(a_market_create(symbol="MSFT"))
    await harness.work()
    harness.broker.script.append(Refused("no", "no"))
    await harness.accept(replace(a_limit_create(), order_side=OrderSide.SELL))
    await harness.work()
    harness.broker.script.append(Unknown("no answer"))
    await harness.accept()
    await harness.work()
    superseded = await harness.accept()
    await harness.accept(a_cancel(superseded))
    await harness.work()
    await harness.accept()
    await harness.accept()
    await refuse(pool, tenant, 3)
    body = await read(api, tenant, time_window=window)
    assert (body["intents"], body["actions"]) == (6, {"CREATE": 6, "REPLACE": 0, "CANCEL": 1})
    assert body["symbols"] == [{"symbol": "AAPL", "actions": 6}, {"symbol": "MSFT", "actions": 1}]
    assert some(body["sides"]) == {"BUY": 6, "SELL": 1}
    assert some(body["outcomes"]) == {"ACKED": 1, "REFUSED": 1, "UNKNOWN": 1, "SKIPPED": 2, "QUEUED": 2}
    assert body["control_refusals"] == 3
    assert 1 <= body["dispatch_latency_millis"]["p50"] <= body["dispatch_latency_millis"]["p99"] < 60_000
    assert await miscounted(pool) == []


async def test_what_is_another_account_s_is_not_counted(api: RestApi, tenant: Tenant, pool: Pool) -> None:
    other = await a_tenant(pool)
    await accept(pool, tenant.submission(), other.submission(), other.submission())
    assert (await read(api, tenant))["intents"] == 1
    for account in (other.account.id, AccountId(new_id())):
        other_organization = replace(tenant, account=replace(tenant.account, id=account))
        problem(await api.read(other_organization, "/stats"), 404, "not_found")


@pytest.mark.parametrize(
    ("window", "reach", "step"),
    [
        ("last_hour", timedelta(hours=1), timedelta(minutes=1)),
        ("last_day", timedelta(days=1), timedelta(hours=1)),
        ("last_week", timedelta(days=7), timedelta(hours=1)),
        ("last_month", timedelta(days=30), timedelta(hours=1)),
    ],
)
async def test_a_window_begins_with_the_span_in_which_it_begins_and_says_so(
    api: RestApi, tenant: Tenant, pool: Pool, window: str, reach: timedelta, step: timedelta
) -> None:
    await accept(pool, *(tenant.submission() for _ in range(COUNTED_AT_ONCE)))
    body = await read(api, tenant, time_window=window)
    begin, end = (datetime.fromisoformat(body["window"][name]) for name in ("since", "until"))
    assert abs(end - datetime.now(UTC)) < timedelta(seconds=30)
    assert reach <= end - begin < reach + step
    assert begin == begin.replace(second=0, microsecond=0, minute=begin.minute if window == "last_hour" else 0)
    # The first span of the window counts, the one before it does not.
    span = "MINUTE" if window == "last_hour" else "HOUR"
    move = "update intent_counts set starts_at = $1 where span = $2"
    await pool.execute(move, begin, span)
    assert (await read(api, tenant, time_window=window))["intents"] == COUNTED_AT_ONCE
    await pool.execute(move, begin - step, span)
    assert (await read(api, tenant, time_window=window))["intents"] == 0
    assert (await read(api, tenant, time_window="all"))["intents"] == COUNTED_AT_ONCE


async def test_all_begins_with_the_account(api: RestApi, tenant: Tenant, pool: Pool) -> None:
    created = await pool.fetchval("select created_at from accounts where account_id = $1", tenant.account.id)
    begin = (await read(api, tenant, time_window="all"))["window"]["since"]
    assert datetime.fromisoformat(begin) == created


@pytest.mark.parametrize("window", ["", "last_year", "LAST_DAY", "last_day ", "1h"], ids=str)
async def test_a_window_that_is_none_is_refused_with_those_there_are(api: RestApi, tenant: Tenant, window: str) -> None:
    body = problem(await api.read(tenant, "/stats", time_window=window), 400, "invalid_parameter")
    assert pointers(body) == ["/time_window"]
    assert all(name in str(body["detail"]) for name in WINDOWS)


async def test_the_fifty_most_traded_symbols_are_named_the_most_traded_first(
    api: RestApi, tenant: Tenant, pool: Pool
) -> None:
    creates = [a_market_create(symbol=f"S{number:02}") for number in range(60) for _ in range(1 + number % 7)]
    await accept(pool, *(tenant.submission(create) for create in creates))
    symbols = (await read(api, tenant))["symbols"]
    assert len(symbols) == 50
    expected = sorted(((1 + number % 7, f"S{number:02}") for number in range(60)), key=lambda s: (-s[0], s[1]))
    assert [(entry["actions"], entry["symbol"]) for entry in symbols] == expected[:50]


async def test_actions_are_exact_before_and_after_they_are_counted(
    api: RestApi, tenant: Tenant, pool: Pool, us: PopulatedTenant
) -> None:
    total = 0
    for together, counted_to in ((1, 0), (62, 0), (1, 64), (60, 64), (3, 64), (2, 129), (64, 193)):
        total += together
        # A set of many accounts counts those of them that have enough.
        await accept(pool, us.tenant.submission(), *(tenant.submission() for _ in range(together)))
        assert (await read(api, tenant, time_window="all"))["intents"] == total
        assert await miscounted(pool) == []
        marks = await pool.fetch("select actions_to from intent_counted where account_id = $1", tenant.account.id)
        assert [row["actions_to"] for row in marks] == [counted_to] * bool(counted_to)


async def test_spans_that_no_window_reaches_are_removed_by_the_next_count(tenant: Tenant, pool: Pool) -> None:
    await accept(pool, *(tenant.submission() for _ in range(COUNTED_AT_ONCE)))
    await pool.execute(
        "update intent_counts set starts_at = starts_at - interval '40 days' where span = 'HOUR';"
        " update intent_counts set starts_at = starts_at - interval '63 minutes' where span = 'MINUTE'"
    )
    await accept(pool, *(tenant.submission() for _ in range(COUNTED_AT_ONCE)))
    spans = await pool.fetch("select span, count from intent_counts order by span")
    assert [tuple(row) for row in spans] == [
        ("EVER", 2 * COUNTED_AT_ONCE),
        ("HOUR", COUNTED_AT_ONCE),
        ("MINUTE", COUNTED_AT_ONCE),
    ]


async def test_an_outcome_that_comes_after_its_minute_is_forgotten_still_counts_where_it_is_remembered(
    api: RestApi, tenant: Tenant, pool: Pool
) -> None:
    await accept(pool, *(tenant.submission() for _ in range(COUNTED_AT_ONCE)))
    await pool.execute("update action_states set queued_at = queued_at - interval '3 hours'")
    await pool.execute("update action_states set state = 'SKIPPED', settled_at = now()")
    rows = await pool.fetch("select span from intent_counts where dimension = 'OUTCOME' order by span")
    assert [row["span"] for row in rows] == ["EVER", "HOUR"]
    assert some((await read(api, tenant, time_window="all"))["outcomes"]) == {"SKIPPED": COUNTED_AT_ONCE}


async def test_outcomes_are_exact_before_and_after_their_actions_are_counted(
    api: RestApi, tenant: Tenant, pool: Pool
) -> None:
    settle_half = (
        "update action_states set state = 'SKIPPED', settled_at = now() where settled_at is null and action_no % 2 = {}"
    )
    await accept(pool, *(tenant.submission() for _ in range(COUNTED_AT_ONCE - 2)))
    # Each of them before the action is counted, with it, and after.
    await pool.execute(settle_half.format(0))
    skipped = COUNTED_AT_ONCE // 2 - 1
    assert await pool.fetchval("select count(*) from intent_counts") == 0
    assert (await read(api, tenant, time_window="all"))["outcomes"]["SKIPPED"] == skipped
    assert await miscounted(pool) == []
    await accept(pool, tenant.submission(), tenant.submission())
    assert (await read(api, tenant, time_window="all"))["outcomes"]["SKIPPED"] == skipped
    assert await miscounted(pool) == []
    await pool.execute(settle_half.format(1))
    assert some((await read(api, tenant, time_window="all"))["outcomes"]) == {
        "SKIPPED": COUNTED_AT_ONCE - 1,
        "QUEUED": 1,
    }
    assert await miscounted(pool) == []


async def test_counts_are_right_whoever_writes_at_once(api: RestApi, pool: Pool) -> None:
    # As many as make each account's actions be counted meanwhile.
    tenants, turns = [await a_tenant(pool) for _ in range(3)], 10

    async def write(number: int) -> None:
        for turn in range(turns):
            create = a_market_create(symbol=f"S{turn % 2}")
            await accept(pool, *(tenants[(number + turn + n) % 3].submission(create) for n in range(5)))
            await api.submit(tenants[number % 3], create_body())

    async def execute(tenant: Tenant) -> None:
        harness = Harness(pool, tenant)
        for turn in range(turns):
            harness.broker.script.extend([Refused("no", "no")] * (turn % 3))
            await harness.work(free=7)

    await asyncio.gather(
        *(write(number) for number in range(4)),
        *(execute(tenant) for tenant in tenants),
        *(refuse(pool, tenant, 2) for tenant in tenants for _ in range(3)),
    )
    assert await miscounted(pool) == []
    for tenant in tenants:
        body = await read(api, tenant, time_window="all")
        assert sum(body["outcomes"].values()) == sum(body["actions"].values())
        assert body["control_refusals"] == 6
    assert sum([(await read(api, tenant))["intents"] for tenant in tenants]) == 4 * turns * 6
    assert await pool.fetchval("select min(actions_to) from intent_counted") >= COUNTED_AT_ONCE


async def test_on_the_schema_before_commands_are_accepted_and_statistics_are_not_served(empty: str) -> None:
    await asyncio.to_thread(migrate, empty, OLDEST)
    async with await open_pool(empty) as pool, rest_api(pool) as api:
        tenant = await a_tenant(pool)
        assert (await api.submit(tenant, create_body())).status_code == 202
        problem(await api.read(tenant, "/stats"), 503, "schema_outdated")
        await asyncio.to_thread(migrate, empty)
        assert (await read(api, tenant, time_window="all"))["intents"] == 1


async def test_actions_are_counted_exactly_before_during_and_after_a_migration(empty: str) -> None:
    await asyncio.to_thread(migrate, empty, OLDEST)
    async with await open_pool(empty) as pool:
        tenants = [await a_tenant(pool) for _ in range(3)]

        async def write(tenant: Tenant) -> None:
            for together in (1, 30, 64, 1, 40, 7):
                await accept(pool, *(tenant.submission() for _ in range(together)))

        await write(tenants[0])
        await asyncio.gather(*(write(tenant) for tenant in tenants), asyncio.to_thread(migrate, empty))
        await asyncio.gather(*(write(tenant) for tenant in tenants))
        assert await miscounted(pool) == []
