"""Changes of an account: by version, in one transaction, acting on commands that race them, and for good."""

import asyncio
import itertools
import json
from collections import Counter
from typing import Any

import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.domain.events.account_events import EventKind
from support.brokers.raced_commands import race, slipped
from support.brokers.scripted_broker import Harness
from support.builders.tenant import Tenant, a_replace, a_tenant, an_account
from support.identity.bearers import as_user
from support.rest.managed_accounts import URL, audited, change, close, create, created, queued, show, url_of
from support.rest.rest_api import RestApi, cancel_body, create_body, pointers, problem, rest_api


async def test_a_change_makes_a_new_version_and_tells_what_changed(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    body = await created(api, tenant)
    epoch = "select control_epoch from account_counters where account_id = $1"
    assert await pool.fetchval(epoch, body["id"]) == 1
    answer = await change(api, tenant, url_of(body), name="Renamed", timezone="Asia/Tokyo")
    after = answer.json()
    assert (answer.status_code, answer.headers["etag"]) == (200, '"2"')
    assert after == body | {
        "name": "Renamed",
        "timezone": "Asia/Tokyo",
        "version": 2,
        "updated_at": after["updated_at"],
    }
    assert after["updated_at"] > body["updated_at"]
    assert await show(api, tenant, url_of(body)) == after
    assert await pool.fetchval(epoch, body["id"]) == 2
    names = {"account_id": body["id"], "organization_id": body["organization_id"]}
    assert (await queued(pool))[1:] == [("account.updated", names | {"version": 2, "changed": ["name", "timezone"]})]
    event = await pool.fetchrow("select event_no, kind, body from account_events where account_id = $1", body["id"])
    assert event is not None
    assert (event["event_no"], event["kind"], json.loads(event["body"])) == (
        1,
        3,
        {
            "changed": ["name", "timezone"],
            "version": 2,
            "credential_status": "NOT_REQUIRED",
            "expires_at": None,
            "reason": None,
        },
    )


async def test_the_account_s_log_tells_of_each_change_and_whoever_follows_is_woken(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    url = url_of(tenant)
    await change(api, tenant, url, name="Renamed", disabled=True)
    await change(api, tenant, url, name="Renamed")
    await close(api, tenant, url)
    await close(api, tenant, url)
    rows = await pool.fetch("select event_no, kind, body from account_events order by event_no")
    told = [(row["event_no"], row["kind"], json.loads(row["body"])) for row in rows]
    assert [(number, kind, body["version"], body["changed"]) for number, kind, body in told] == [
        (1, EventKind.ACCOUNT_CHANGED, 2, ["name", "disabled"]),
        (2, EventKind.ACCOUNT_CHANGED, 3, ["closed_at"]),
    ]
    assert set(api.hints.accounts) == {tenant.account.id}


async def test_a_change_that_changes_nothing_writes_nothing(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    body = await created(api, tenant)
    answer = await change(api, tenant, url_of(body), name=body["name"], disabled=False, timezone="UTC")
    assert (answer.status_code, answer.json()) == (200, body)
    assert (len(await queued(pool)), len(await audited(pool))) == (1, 1)
    assert await pool.fetchval("select max(control_epoch) from account_counters") == 1


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"name": ""},
        {"name": None},
        {"timezone": "nowhere"},
        {"disabled": "yes"},
        {"disabled_reason": "not disabled"},
        {"disabled": False, "disabled_reason": "not disabled"},
        {"disabled": True, "disabled_reason": "two\nlines"},
        {"environment": "live"},
        {"broker": "paper"},
        {"base_currency": "EUR"},
        {"credential_status": "VALID"},
        {"version": 7},
    ],
    ids=str,
)
async def test_a_change_that_cannot_be_is_refused(api: RestApi, tenant: Tenant, fields: dict[str, Any]) -> None:
    problem(await change(api, tenant, url_of(tenant), **fields), 422, "invalid_command")
    assert (await show(api, tenant, url_of(tenant)))["version"] == 1


async def test_the_account_at_the_broker_is_named_once(api: RestApi, tenant: Tenant) -> None:
    url = url_of(tenant)
    for _ in range(2):
        named = await change(api, tenant, url, external_account_id="DU1")
        assert (named.json()["external_account_id"], named.json()["version"]) == ("DU1", 2)
    problem(await change(api, tenant, url, external_account_id="DU2"), 409, "external_account_mismatch")


async def test_if_match_lets_only_the_version_that_was_read_be_changed(api: RestApi, tenant: Tenant) -> None:
    url = url_of(tenant)
    assert (await change(api, tenant, url, '"1"', name="a")).status_code == 200
    for stale in ('"1"', '"3"', 'W/"2"', '"2x"', '"02"', '"1", "3"', '""'):
        answer = await change(api, tenant, url, stale, name="b")
        body = problem(answer, 412, "version_mismatch")
        assert "version 2" in str(body["detail"])
    for fresh, name in (('"2"', "b"), ('"1",  "3"', "c"), ("*", "d")):
        assert (await change(api, tenant, url, fresh, name=name)).status_code == 200, fresh
    for malformed in ("5", '"5', "", "*, *", '"5" "6"', "W/5", '"a b"', '"5",'):
        body = problem(await change(api, tenant, url, malformed, name="e"), 400, "invalid_header")
        assert pointers(body) == ["/headers/if-match"]
    problem(await close(api, tenant, url, '"4"'), 412, "version_mismatch")
    assert (await close(api, tenant, url, '"5"')).status_code == 204


async def test_of_changes_with_the_same_version_exactly_one_wins(api: RestApi, tenant: Tenant) -> None:
    url = url_of(tenant)
    for version in range(1, 4):
        answers = await asyncio.gather(
            *(change(api, tenant, url, f'"{version}"', name=f"{version} {each}") for each in range(20))
        )
        assert Counter(answer.status_code for answer in answers) == {200: 1, 412: 19}
        assert (await show(api, tenant, url))["version"] == version + 1


async def test_a_disabled_account_takes_cancels_only_until_it_is_enabled(api: RestApi, tenant: Tenant) -> None:
    intent = (await api.submit(tenant, create_body("Limit", price="1"))).json()["intent_id"]
    disabled = await change(api, tenant, url_of(tenant), disabled=True, disabled_reason="under review")
    assert (disabled.json()["disabled"], disabled.json()["disabled_reason"]) == (True, "under review")
    problem(await api.submit(tenant, create_body()), 409, "account_disabled")
    assert (await api.submit(tenant, cancel_body(intent))).status_code == 202
    renamed = await change(api, tenant, url_of(tenant), name="Still disabled")
    assert renamed.json()["disabled_reason"] == "under review"
    enabled = await change(api, tenant, url_of(tenant), disabled=False)
    assert not enabled.json()["disabled"]
    assert "disabled_reason" not in enabled.json()
    assert (await api.submit(tenant, create_body())).status_code == 202


async def test_a_closed_account_is_readable_and_nothing_else(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    body = await created(api, tenant)
    for if_match in (None, '"1"', '"77"'):
        answer = await close(api, tenant, url_of(body), if_match)
        assert (answer.status_code, answer.content) == (204, b"")
    after = await show(api, tenant, url_of(body))
    assert (after["disabled"], after["session_status"], after["version"]) == (True, "CLOSED", 2)
    assert after["closed_at"] == after["updated_at"] > body["updated_at"]
    problem(await change(api, tenant, url_of(body), name="Back"), 409, "account_closed")
    problem(await change(api, tenant, url_of(body), disabled=False), 409, "account_closed")
    submitted = await api.client.post(f"{url_of(body)}/intents", json=create_body(), headers={"x-api-key": tenant.key})
    problem(submitted, 409, "account_closed")
    assert [account["id"] for account in (await api.client.get(URL, headers=as_user(tenant))).json()["data"]][1:] == [
        body["id"]
    ]
    told = [(event_type, payload["version"], payload["changed"]) for event_type, payload in await queued(pool)]
    assert told[1:] == [("account.deleted", 2, ["disabled", "closed_at"])]
    assert [row[1] for row in await audited(pool)] == ["accounts create", "accounts close"]


async def test_an_account_with_something_to_do_is_not_closed(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    assert (await api.submit(tenant, create_body("Limit", price="1"))).status_code == 202
    problem(await close(api, tenant, url_of(tenant)), 409, "account_busy")
    settled = "state = 'ACKED', attempt_id = action_id, send_started_at = now(), settled_at = now()"
    await pool.execute(f"update action_states set {settled}")
    problem(await close(api, tenant, url_of(tenant)), 409, "account_busy")
    await pool.execute("update orders set standing = 'WORKING', pending = 'NONE'")
    problem(await close(api, tenant, url_of(tenant)), 409, "account_busy")
    await pool.execute("update orders set standing = 'CLOSED', close_reason = 'CANCELED'")
    assert (await close(api, tenant, url_of(tenant))).status_code == 204


async def test_in_a_disabled_organization_accounts_are_only_read(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    await pool.execute("update organizations set disabled = true")
    problem(await create(api, tenant), 409, "organization_disabled")
    problem(await change(api, tenant, url_of(tenant), name=""), 409, "organization_disabled")
    problem(await close(api, tenant, url_of(tenant)), 409, "organization_disabled")
    assert (await show(api, tenant, url_of(tenant)))["version"] == 1
    assert (await api.client.get(URL, headers=as_user(tenant))).status_code == 200


async def test_every_change_is_audited_with_who_and_what_was_before(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    body = await created(api, tenant)
    await api.client.patch(url_of(body), json={"name": "By key"}, headers={"x-api-key": tenant.key})
    for _ in range(2):
        await change(api, tenant, url_of(body), disabled=True)
        await close(api, tenant, url_of(body))
    rows = await audited(pool)
    assert [row[:2] for row in rows] == [
        ("USER", "accounts create"),
        ("API_KEY", "accounts change"),
        ("USER", "accounts change"),
        ("USER", "accounts close"),
    ]
    assert rows[0][2] is None
    for (*_, after), (_, _, before, _) in itertools.pairwise(rows):
        assert after == before
    assert [row[3]["version"] for row in rows] == [1, 2, 3, 4]
    assert [event_type for event_type, _ in await queued(pool)] == [
        *("account.created", "account.updated", "account.updated", "account.deleted")
    ]


@pytest.mark.parametrize("table", ["account_outbox", "audit_log", "account_events"])
async def test_account_queue_audit_and_log_are_written_in_one_transaction(
    api: RestApi, pool: Pool, tenant: Tenant, table: str
) -> None:
    """Whichever row cannot be written, nothing is."""
    await pool.execute(
        "create function refuse() returns trigger language plpgsql as $$ begin raise 'no'; end $$;"
        f"create trigger refuse before insert on {table} for each row execute function refuse()"
    )
    everything = (
        "select (select jsonb_agg(to_jsonb(a) order by account_id) from accounts a)"
        " || (select jsonb_agg(to_jsonb(c) order by account_id) from account_counters c)"
        " || (select to_jsonb(array_agg(o)) from account_outbox o) || (select to_jsonb(array_agg(l)) from audit_log l)"
    )
    before = await pool.fetchval(everything)
    # The log of an account begins with its first change.
    opened = [] if table == "account_events" else [await create(api, tenant)]
    for answer in (
        *opened,
        await change(api, tenant, url_of(tenant), name="x", disabled=True),
        await close(api, tenant, url_of(tenant)),
    ):
        problem(answer, 500, "internal_error")
    assert await pool.fetchval(everything) == before
    assert api.hints.rows == 0


async def test_of_a_close_and_a_submit_that_race_one_is_refused(pool: Pool, login_pool: Pool, tenant: Tenant) -> None:
    outcomes: Counter[tuple[int, int]] = Counter()
    async with rest_api(login_pool) as api:
        for turn in range(20):
            account = await an_account(pool, tenant.account.organization_id)
            racer = Tenant(account, tenant.principal, tenant.key)
            submit, end = api.submit(racer, create_body()), close(api, tenant, url_of(racer))
            first, second = (submit, end) if turn % 2 else (end, submit)
            answers = await asyncio.gather(first, second)
            submitted, closed = answers if turn % 2 else reversed(answers)
            outcomes[submitted.status_code, closed.status_code] += 1
            actions = await pool.fetchval("select count(*) from intent_actions where account_id = $1", account.id)
            ended = await pool.fetchval("select closed_at is not null from accounts where account_id = $1", account.id)
            assert (actions, ended) == ((1, False) if submitted.status_code == 202 else (0, True))
    assert set(outcomes) <= {(202, 409), (409, 204)}


async def test_what_was_accepted_before_an_account_is_disabled_is_not_sent(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    harness = Harness(pool, tenant)
    intent, _ = await harness.working()
    await harness.accept(a_replace(intent))
    for _ in range(3):
        await harness.accept()
    calls = harness.broker.calls
    assert (await change(api, tenant, url_of(tenant), disabled=True)).status_code == 200
    assert await harness.work() == []
    assert harness.broker.calls == calls
    skipped = Counter((kind, reason) for kind, state, reason in await harness.states() if state == "SKIPPED")
    assert skipped == {("REPLACE", "ACCOUNT_DISABLED"): 1, ("CREATE", "ACCOUNT_DISABLED"): 3}
    # The order that works is followed, and can be cancelled.
    assert (await api.submit(tenant, cancel_body(intent))).status_code == 202
    assert len(await harness.work()) == 1


async def test_nothing_is_accepted_or_sent_while_an_account_is_disabled(pool: Pool, database: str) -> None:
    tenant = await a_tenant(pool)

    async def switch(api: RestApi, is_off: bool) -> None:
        assert (await change(api, tenant, url_of(tenant), disabled=is_off)).status_code == 200

    raced = await race(pool, database, tenant, switch, 31)
    answers, states = raced.answers, raced.states
    assert set(answers) <= {202, 409}, answers
    assert min(answers[202], answers[409]) > 20, answers
    assert await slipped(pool, "accounts change", "disabled") == {"accepted": 0, "opened": 0}
    assert set(states) <= {("ACKED", None), ("SKIPPED", "ACCOUNT_DISABLED")}, states
    assert sum(states.values()) == answers[202]
    assert raced.writes == states["ACKED", None]
