"""What is asked of an account with a long history reads as little of it as of a short one."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Pool, Role, transaction
from openbell_server.adapters.postgres.events.outbox_health import count_waiting
from openbell_server.adapters.postgres.intents.intents import DIRECTIONS
from openbell_server.application.paging import ListOrder
from support.builders.tenant import a_tenant, accept

ACTIONS, SETS = 64, 30
# Halving so many takes so many looks.
LOOKS = (ACTIONS * SETS).bit_length() + 1
LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)
ASKED: dict[str, tuple[str, str, dict[str, Any], int]] = {
    "actions since a time": ("intents", "first_number_since", {"moment": LONG_AGO, "later_seconds": 0}, LOOKS),
    "events since a time": (
        "events",
        "first_event_since",
        {"moment": LONG_AGO, "head": ACTIONS * SETS},
        LOOKS,
    ),
    "statistics": (
        "intent_statistics",
        "count_intents",
        {"span": "EVER", "window_seconds": 0, "in_flight_max": 10, "symbols_max": 50},
        # What is not counted yet with its states, what is in flight, and the counts.
        2 * 64 + 10 + 10,
    ),
    "statistics of a day": (
        "intent_statistics",
        "count_intents",
        {"span": "HOUR", "window_seconds": 86_400, "in_flight_max": 10, "symbols_max": 50},
        2 * 64 + 10 + 30,
    ),
}
_ORDERS: dict[str, Any] = {
    "of_account": None,
    "beyond": UUID(int=2**128 - 1),
    "looked_at_max": 100,
    "symbols": None,
    "order_side": None,
    "is_closed": None,
    "certainty": None,
    "environment": None,
    "account_ids": None,
    "row_limit": 50,
}
# The action, the order, and its first and last action.
_ROWS_OF_AN_ORDER = 4
ASKED |= {
    "the newest orders": ("order_lists", "orders_of_organization", _ORDERS, 50 * _ROWS_OF_AN_ORDER),
    "the newest orders of an environment": (
        "order_lists",
        "orders_of_organization",
        _ORDERS | {"environment": "paper"},
        # And the account.
        50 * (_ROWS_OF_AN_ORDER + 1),
    ),
    "the newest open orders": ("order_lists", "open_orders", _ORDERS, 50 * _ROWS_OF_AN_ORDER),
    "orders where few match": (
        "order_lists",
        "orders_of_organization",
        _ORDERS | {"symbols": ["RARE"]},
        # Those that are looked at, and their orders.
        100 * 2,
    ),
}
_READ = "select sum(seq_tup_read + idx_tup_fetch)::bigint from pg_stat_xact_user_tables where schemaname = 'openbell'"


# A month of hours.
_PAST = """
insert into intent_counts (organization_id, account_id, span, starts_at, dimension, value, count)
select organization_id, account_id, span, starts_at - n * interval '1 hour', dimension, value, count
from intent_counts cross join generate_series(1, 700) n where span = 'HOUR'
"""


@pytest.mark.parametrize(("file", "name", "parameters", "rows_max"), ASKED.values(), ids=ASKED)
async def test_little_is_read_of_a_long_history(
    pool: Pool, login_pool: Pool, file: str, name: str, parameters: dict[str, Any], rows_max: int
) -> None:
    tenant = await a_tenant(pool)
    for _ in range(SETS):
        await accept(pool, *(tenant.submission() for _ in range(ACTIONS)))
    await accept(pool, *(tenant.submission() for _ in range(ACTIONS - 1)))
    await pool.execute(_PAST)
    await pool.execute("vacuum analyze")
    organization_id, account_id = tenant.account.organization_id, tenant.account.id
    # As the processes ask it: under row security fewer plans are permitted.
    async with transaction(login_pool, Role.TENANT, organization_id) as connection:
        query = getattr(named_queries.load(file, DIRECTIONS[ListOrder.NEWEST_FIRST]), name)
        where = {} if "of_account" in parameters else {"account_id": account_id}
        asked = query(connection, organization_id=organization_id, **where, **parameters)
        if hasattr(asked, "__aiter__"):
            assert [row async for row in asked] or parameters.get("symbols")
        else:
            assert await asked is not None
        read = await connection.fetchval(_READ)
    # Beside them: the account itself, wherever it is written down.
    assert 0 < read <= rows_max + 10


async def test_what_rules_count_takes_a_few_rows_for_each_open_order_with_a_plan_made_while_there_were_none(
    pool: Pool, login_pool: Pool
) -> None:
    tenant = await a_tenant(pool)
    organization_id, account_id = tenant.account.organization_id, tenant.account.id
    nothing = dict.fromkeys(("action_id", "intent_id", "key", "limit_price", "stop_price"))
    order = {"symbol": "AAPL", "order_side": "BUY", "order_type": "MARKET", "quantity": 10, "time_in_force": "DAY"}
    wanted = {"wants_exposure": True, "wants_equals": False, "wants_others": False, "window_millis": 0}

    async def count() -> tuple[int, int]:
        async with transaction(login_pool, Role.TENANT, organization_id) as connection:
            row = await named_queries.load("accept_with_counts").counted_facts(
                connection, organization_id=organization_id, account_id=account_id, **nothing, **order, **wanted
            )
            return row["open_orders"], await connection.fetchval(_READ)

    assert await count() == (0, 2)
    await accept(pool, *(tenant.submission() for _ in range(ACTIONS)))
    orders, read = await count()
    assert orders == ACTIONS
    # The order, and its action if that is not settled.
    assert read <= 2 * ACTIONS + 10


_TAKEN_UP = """
update action_states
set state = 'ACKED', attempt_id = action_id, send_started_at = queued_at, settled_at = queued_at
"""


async def test_commands_of_the_last_seconds_are_counted_by_account_while_an_executor_runs(
    pool: Pool, login_pool: Pool
) -> None:
    tenants = [await a_tenant(pool), await a_tenant(pool)]

    async def waiting() -> list[int]:
        counted = {each.account_id: each for each in await count_waiting(login_pool, 60)}
        assert all(each.organization_id in {of.account.organization_id for of in tenants} for each in counted.values())
        return [counted[of.account.id].commands if of.account.id in counted else 0 for of in tenants]

    await accept(pool, *(tenants[0].submission() for _ in range(3)))
    await accept(pool, tenants[1].submission())
    assert await waiting() == [0, 0]
    await pool.execute("insert into executors values (gen_random_uuid(), clock_timestamp())")
    assert await waiting() == [3, 1]
    await pool.execute("update action_states set queued_at = queued_at - interval '61 seconds' where action_no = 1")
    assert await waiting() == [2, 0]
    await pool.execute(_TAKEN_UP)
    assert await waiting() == [0, 0]
