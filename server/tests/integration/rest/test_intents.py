"""Submitting and reading intents over REST: what is taken, replayed, listed and shown."""

import asyncio
from dataclasses import replace
from uuid import UUID

import pytest

from openbell_server.adapters.postgres.connection import Pool
from support.builders.tenant import Tenant, a_cancel, a_tenant, accept, an_account, new_id
from support.rest.rest_api import RestApi, cancel_body, create_body, intents_of, pointers, problem

KINDS = [
    ("Market", {}, "MARKET"),
    ("Limit", {"price": "1.50"}, "LIMIT"),
    ("Stop", {"stop_price": "2.5"}, "STOP"),
    ("StopLimit", {"price": "123456789012345678.000000000000000001", "stop_price": "2"}, "STOP_LIMIT"),
]


@pytest.mark.parametrize(("kind", "prices", "order_type"), KINDS)
async def test_each_order_kind_is_taken_and_echoed_digit_for_digit(
    api: RestApi, tenant: Tenant, kind: str, prices: dict[str, str], order_type: str
) -> None:
    body = {**create_body(kind, quantity="0.500", **prices), "client_reference_id": "mine — €"}
    answer = await api.submit(tenant, body)
    assert answer.status_code == 202
    action = answer.json()
    assert answer.headers["location"] == f"{intents_of(tenant)}/{action['intent_id']}"
    assert (action["order_type"], action["quantity"], action["seq"], action["status"]) == (
        order_type,
        "0.500",
        1,
        "QUEUED",
    )
    assert (action.get("limit_price"), action.get("stop_price")) == (prices.get("price"), prices.get("stop_price"))
    assert (action["time_in_force"], action["route_strategy"], action["client_reference_id"]) == (
        "DAY",
        "SMART",
        "mine — €",
    )
    assert (action["principal_type"], action["principal_id"]) == ("API_KEY", tenant.principal.id)
    execution = action["execution"]
    assert (execution["status"], execution["filled_quantity"], execution["leaves_quantity"]) == (
        "PENDING_NEW",
        "0",
        "0.500",
    )
    assert execution["certainty"] == "CONFIRMED"
    assert "idempotency-replayed" not in answer.headers
    assert api.hints.rows == 1


async def test_a_cancel_is_the_second_action_of_its_intent(api: RestApi, tenant: Tenant) -> None:
    created = (await api.submit(tenant, create_body("Limit", price="3"))).json()
    answer = await api.submit(tenant, cancel_body(created["intent_id"]))
    assert answer.status_code == 202
    cancel = answer.json()
    assert (cancel["intent_id"], cancel["seq"], cancel["action_type"]) == (created["intent_id"], 2, "CANCEL")
    assert (cancel["limit_price"], cancel["quantity"], cancel["symbol"]) == ("3", "10", "AAPL")


async def test_a_symbol_is_taken_in_any_case_with_its_slash(api: RestApi, tenant: Tenant) -> None:
    assert (await api.submit(tenant, create_body(symbol="brk/b"))).json()["symbol"] == "BRK/B"
    assert problem(await api.submit(tenant, create_body(symbol="BRK%2FB")), 422, "invalid_command")


async def test_a_replay_answers_the_same_action_and_says_so(api: RestApi, tenant: Tenant, pool: Pool) -> None:
    first = await api.submit(tenant, create_body("Limit", price="1.50"), key="k")
    again = await api.submit(tenant, create_body("Limit", price="1.5", quantity="10.0"), key="k")
    assert (first.status_code, again.status_code) == (202, 202)
    assert again.headers["idempotency-replayed"] == "true"
    assert again.headers["location"] == first.headers["location"]
    assert again.json() == first.json()
    assert await pool.fetchval("select count(*) from intent_actions") == 1
    assert api.hints.rows == 1


async def test_a_replay_shows_the_execution_of_now(api: RestApi, tenant: Tenant, pool: Pool) -> None:
    await api.submit(tenant, create_body(), key="k")
    await pool.execute(
        "update orders set standing = 'WORKING', pending = 'NONE', filled_quantity = 4, filled_value = 4"
    )
    again = (await api.submit(tenant, create_body(), key="k")).json()
    assert (again["execution"]["status"], again["execution"]["leaves_quantity"]) == ("PARTIALLY_FILLED", "6")


async def test_a_key_used_for_another_command_is_refused(api: RestApi, tenant: Tenant, pool: Pool) -> None:
    created = (await api.submit(tenant, create_body(), key="k")).json()
    digits = "123456789012345678.12345678901234567"
    await api.submit(tenant, create_body(quantity=digits + "1"), key="long")
    for key, body in (
        ("k", create_body(quantity="11")),
        ("k", {**create_body(), "client_reference_id": "r"}),
        ("k", cancel_body(created["intent_id"])),
        ("long", create_body(quantity=digits + "2")),
    ):
        problem(await api.submit(tenant, body, key=key), 422, "idempotency_key_reused")
    assert await pool.fetchval("select count(*) from intent_actions") == 2


async def test_a_refused_command_does_not_use_up_its_key(api: RestApi, tenant: Tenant) -> None:
    problem(await api.submit(tenant, create_body(quantity="0"), key="k"), 422, "invalid_command")
    problem(await api.submit(tenant, cancel_body(new_id()), key="k"), 404, "not_found")
    answer = await api.submit(tenant, create_body(), key="k")
    assert (answer.status_code, "idempotency-replayed" in answer.headers) == (202, False)


async def test_a_key_belongs_to_its_account(api: RestApi, tenant: Tenant, pool: Pool) -> None:
    sibling = replace(tenant, account=await an_account(pool, tenant.account.organization_id))
    first, second = [await api.submit(owner, create_body(), key="k") for owner in (tenant, sibling)]
    assert first.json()["intent_id"] != second.json()["intent_id"]
    assert "idempotency-replayed" not in second.headers


async def test_sixteen_posts_with_one_key_at_once_make_one_intent(api: RestApi, tenant: Tenant, pool: Pool) -> None:
    answers = await asyncio.gather(*(api.submit(tenant, create_body(), key="same") for _ in range(16)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert sum("idempotency-replayed" in answer.headers for answer in answers) == 15
    assert await pool.fetchval("select count(*) from intent_actions") == 1


async def test_the_latest_action_and_the_history_of_an_intent_are_shown(api: RestApi, tenant: Tenant) -> None:
    created = (await api.submit(tenant, create_body())).json()
    await api.submit(tenant, cancel_body(created["intent_id"]))
    latest = (await api.read(tenant, f"/{created['intent_id']}")).json()
    assert (latest["seq"], latest["action_type"], latest["execution"]["status"]) == (2, "CANCEL", "PENDING_NEW")
    history = (await api.read(tenant, f"/{created['intent_id']}/actions")).json()
    assert [(action["seq"], action["action_type"]) for action in history["data"]] == [(1, "CREATE"), (2, "CANCEL")]
    assert history["next_cursor"] is None
    first = (await api.read(tenant, f"/{created['intent_id']}/actions", limit=1)).json()
    second = (
        await api.read(tenant, f"/{created['intent_id']}/actions", limit=1, next_cursor=first["next_cursor"])
    ).json()
    assert [action["seq"] for page in (first, second) for action in page["data"]] == [1, 2]


@pytest.mark.parametrize("below", ["/{}", "/{}/actions"])
async def test_an_intent_of_another_account_is_as_if_it_were_not(
    api: RestApi, tenant: Tenant, pool: Pool, below: str
) -> None:
    created = (await api.submit(tenant, create_body())).json()
    sibling = replace(tenant, account=await an_account(pool, tenant.account.organization_id))
    other_organization = await a_tenant(pool)
    for reader in (sibling, other_organization):
        foreign = problem(await api.read(reader, below.format(created["intent_id"])), 404, "not_found")
        missing = problem(await api.read(reader, below.format(new_id())), 404, "not_found")
        assert {**foreign, "request_id": ""} == {**missing, "request_id": ""}
        problem(await api.submit(reader, cancel_body(created["intent_id"])), 404, "not_found")


async def test_a_list_is_ascending_and_its_pages_join_without_a_seam(api: RestApi, tenant: Tenant, pool: Pool) -> None:
    accepted = await accept(pool, *(tenant.submission() for _ in range(7)))
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = (await api.read(tenant, limit=3, **cursor)).json()
        seen += [action["intent_id"] for action in page["data"]]
        if page["next_cursor"] is None:
            break
        assert page["next_cursor"] == page["last_cursor"]
        cursor = {"next_cursor": page["next_cursor"]}
    assert seen == [str(acceptance.intent_id) for acceptance in accepted]


async def test_the_last_cursor_of_a_page_goes_on_where_it_ended_even_when_nothing_followed(
    api: RestApi, tenant: Tenant, pool: Pool
) -> None:
    assert (await api.read(tenant)).json() == {"data": [], "next_cursor": None, "last_cursor": None}
    await accept(pool, tenant.submission())
    last = (await api.read(tenant)).json()["last_cursor"]
    empty = (await api.read(tenant, next_cursor=last)).json()
    assert empty == {"data": [], "next_cursor": None, "last_cursor": last}
    (later,) = await accept(pool, tenant.submission())
    following = (await api.read(tenant, next_cursor=empty["last_cursor"])).json()
    assert [action["intent_id"] for action in following["data"]] == [str(later.intent_id)]


async def test_a_page_has_fifty_actions_unless_asked_and_a_hundred_at_most(
    api: RestApi, tenant: Tenant, pool: Pool
) -> None:
    await accept(pool, *(tenant.submission() for _ in range(101)))
    pages = [await api.read(tenant), await api.read(tenant, limit=1), await api.read(tenant, limit=100)]
    assert [len(page.json()["data"]) for page in pages] == [50, 1, 100]


@pytest.mark.parametrize("limit", ["0", "101", "-1", "abc", "", "1.5", "1e1", "９", "99999999999999999999", " 1"])
async def test_a_limit_outside_its_bounds_is_refused_with_the_bounds(api: RestApi, tenant: Tenant, limit: str) -> None:
    body = problem(await api.read(tenant, limit=limit), 400, "invalid_parameter")
    assert pointers(body) == ["/limit"]
    assert "1 to 100" in str(body["detail"])


async def test_a_limit_given_twice_is_refused(api: RestApi, tenant: Tenant) -> None:
    url = f"{intents_of(tenant)}?limit=1&limit=2"
    problem(await api.client.get(url, headers={"x-api-key": tenant.key}), 400, "invalid_parameter")


async def test_a_cursor_of_another_list_is_refused(api: RestApi, tenant: Tenant, pool: Pool) -> None:
    sibling = replace(tenant, account=await an_account(pool, tenant.account.organization_id))
    created = [(await api.submit(owner, create_body())).json()["intent_id"] for owner in (tenant, sibling)]
    of_account = (await api.read(tenant)).json()["last_cursor"]
    of_intent = (await api.read(tenant, f"/{created[0]}/actions")).json()["last_cursor"]
    for reader, below, cursor in (
        (sibling, "", of_account),
        (tenant, "", of_intent),
        (tenant, f"/{created[0]}/actions", of_account),
        (sibling, f"/{created[1]}/actions", of_intent),
        (tenant, "", of_account[:-1]),
        (tenant, "", of_account + "="),
        (tenant, "", ""),
        (tenant, "", "x" * 500),
        (tenant, "", "\0"),
    ):
        problem(await api.read(reader, below, next_cursor=cursor), 400, "invalid_cursor")


async def test_pages_under_concurrent_writers_never_skip_or_repeat(api: RestApi, tenant: Tenant, pool: Pool) -> None:
    total = 120

    async def write() -> None:
        for _ in range(total // 4):
            (created,) = await accept(pool, tenant.submission())
            assert created.status == "ACCEPTED"

    seen: list[str] = []

    async def follow() -> None:
        cursor: dict[str, str] = {}
        async with asyncio.timeout(60):
            while len(seen) < total:
                page = (await api.read(tenant, limit=7, **cursor)).json()
                seen.extend(action["intent_id"] for action in page["data"])
                cursor = {"next_cursor": page["last_cursor"]} if page["last_cursor"] else {}

    await asyncio.gather(follow(), *(write() for _ in range(4)))
    rows = await pool.fetch("select intent_id from intent_actions order by action_no")
    assert [UUID(intent) for intent in seen] == [row["intent_id"] for row in rows]


async def test_a_cancel_of_a_closed_order_is_refused(api: RestApi, tenant: Tenant, pool: Pool) -> None:
    created = (await api.submit(tenant, create_body())).json()
    await pool.execute("update orders set standing = 'CLOSED', close_reason = 'FILLED', pending = 'NONE'")
    problem(await api.submit(tenant, cancel_body(created["intent_id"])), 409, "order_terminal")


async def test_a_second_cancel_answers_the_first_while_that_one_waits(api: RestApi, tenant: Tenant, pool: Pool) -> None:
    (created,) = await accept(pool, tenant.submission())
    await accept(pool, tenant.submission(a_cancel(created.intent_id)))
    answers = [await api.submit(tenant, cancel_body(created.intent_id)) for _ in range(2)]
    assert [(answer.status_code, answer.json()["seq"]) for answer in answers] == [(202, 2)] * 2


@pytest.mark.usefixtures("limits_as_they_are")
async def test_an_account_that_is_locked_for_long_answers_503(api: RestApi, tenant: Tenant, pool: Pool) -> None:
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute("select 1 from account_counters for update")
        problem(await api.submit(tenant, create_body()), 503, "unavailable")
