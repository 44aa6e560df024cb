"""Trading accounts on REST: who opens and reads them, what they look like, and what they refuse."""

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import pytest

from openbell_server.adapters.postgres.access.accounts import open_account
from openbell_server.adapters.postgres.connection import DatabaseClock, Pool, Role, transaction
from openbell_server.adapters.postgres.execution.sign_ins import PostgresSessionStore
from openbell_server.adapters.postgres.execution.slot_leases import PostgresLeaseStore
from openbell_server.domain.access.accounts import Environment, NewAccount
from openbell_server.domain.access.credentials import CredentialStatus
from openbell_server.domain.identifiers import AccountId
from support.brokers.paper_broker import until
from support.builders.tenant import Tenant, a_key, a_tenant, begin_epochs, new_id
from support.identity.bearers import as_service, as_user
from support.rest.managed_accounts import URL, audited, change, close, create, created, queued, show, url_of
from support.rest.rest_api import RestApi, cancel_body, create_body, problem, rest_api


async def test_an_admin_opens_an_account_that_trades(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    answer = await create(
        api, tenant, external_account_id="DU1", base_currency="EUR", timezone="Europe/Berlin", name="Second"
    )
    body = answer.json()
    assert answer.status_code == 201, body
    assert (answer.headers["location"], answer.headers["etag"]) == (url_of(body), '"1"')
    assert body == {
        "id": body["id"],
        "organization_id": str(tenant.account.organization_id),
        "name": "Second",
        "broker": "paper",
        "profile": "A",
        "environment": "paper",
        "external_account_id": "DU1",
        "base_currency": "EUR",
        "timezone": "Europe/Berlin",
        "disabled": False,
        "credential_status": "NOT_REQUIRED",
        "session_status": "CONNECTING",
        "created_at": body["created_at"],
        "updated_at": body["created_at"],
        "version": 1,
    }
    listed = (await api.client.get(URL, headers=as_user(tenant))).json()["data"]
    assert await show(api, tenant, url_of(body)) == listed[-1] == body
    assert [account["name"] for account in listed] == ["First", "Second"]
    submitted = await api.client.post(f"{url_of(body)}/intents", json=create_body(), headers={"x-api-key": tenant.key})
    assert submitted.status_code == 202, submitted.text
    assert await queued(pool) == [
        (
            "account.created",
            {
                "account_id": body["id"],
                "organization_id": body["organization_id"],
                "version": 1,
                "changed": [
                    *("name", "broker", "environment", "external_account_id", "base_currency", "timezone"),
                    *("disabled", "credential_status", "created_at"),
                ],
            },
        )
    ]
    assert api.hints.rows > 0


async def test_what_is_left_out_has_a_default(api: RestApi, tenant: Tenant) -> None:
    body = await created(api, tenant)
    assert (body["base_currency"], body["timezone"]) == ("USD", "UTC")
    assert "external_account_id" not in body


@pytest.mark.parametrize(
    ("fields", "pointer", "says"),
    [
        ({"name": " "}, "/name", "not only spaces"),
        ({"broker": "nobody"}, "/broker", "must be one of"),
        ({"environment": "test"}, "/environment", "one of live, paper"),
        ({"base_currency": "usd"}, "/base_currency", "three capital letters"),
        ({"base_currency": "ÄÖÜ"}, "/base_currency", "three capital letters"),
        ({"timezone": "Mars/Olympus"}, "/timezone", "IANA name"),
        ({"timezone": "../etc/passwd"}, "/timezone", "IANA name"),
        ({"external_account_id": ""}, "/external_account_id", "1 to 128"),
        ({"external_account_id": " x"}, "/external_account_id", "without spaces around"),
        ({"disabled": True}, "/disabled", "not a field here"),
        ({"slot": 1}, "/slot", "not a field here"),
    ],
    ids=str,
)
async def test_an_account_that_cannot_be_is_refused_with_what_would_pass(
    api: RestApi, pool: Pool, tenant: Tenant, fields: dict[str, Any], pointer: str, says: str
) -> None:
    body = problem(await create(api, tenant, **fields), 422, "invalid_command")
    assert isinstance(body["errors"], list)
    (error,) = body["errors"]
    assert error["pointer"] == pointer
    assert says in error["message"]
    assert await pool.fetchval("select count(*) from accounts") == 1
    assert (await queued(pool), await audited(pool)) == ([], [])


async def test_a_key_opens_sees_and_changes_accounts_of_its_own_environment(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    _, live_key = await a_key(pool, tenant.account.organization_id, Environment.LIVE)
    paper, live = {"x-api-key": tenant.key}, {"x-api-key": live_key}
    assert (await create(api, tenant, live, environment="live")).status_code == 201
    problem(await create(api, tenant, live), 403, "environment_mismatch")
    problem(await create(api, tenant, paper, environment="live"), 403, "environment_mismatch")
    for headers, environments in ((paper, {"paper"}), (live, {"live"}), (as_user(tenant), {"paper", "live"})):
        data = (await api.client.get(URL, headers=headers)).json()["data"]
        assert {account["environment"] for account in data} == environments
    for method in ("GET", "PATCH", "DELETE"):
        answer = await api.client.request(method, url_of(tenant), json={"name": "x"}, headers=live)
        problem(answer, 403, "environment_mismatch")
    assert (await api.client.patch(url_of(tenant), json={"name": "x"}, headers=paper)).status_code == 200


async def test_a_service_account_reads_an_organization_s_accounts_and_changes_none(
    api: RestApi, tenant: Tenant
) -> None:
    headers = as_service("account:read", tenant=tenant)
    assert (await api.client.get(URL, headers=headers)).json()["data"][0]["name"] == "First"
    assert (await api.client.get(url_of(tenant), headers=headers)).status_code == 200
    problem(await create(api, tenant, headers), 403, "principal_kind_not_allowed")
    problem(await api.client.get(URL, headers=headers | {"x-organization-id": str(uuid4())}), 404, "not_found")


async def test_another_organization_s_account_answers_as_one_that_is_not_there(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    theirs = await a_tenant(pool)
    for method in ("GET", "PATCH", "DELETE"):
        answers = set()
        for account_id in (theirs.account.id, uuid4()):
            headers = as_user(tenant) | {"x-request-id": "same"}
            answer = await api.client.request(method, f"{URL}/{account_id}", json={"name": "mine"}, headers=headers)
            assert answer.status_code == 404
            answers.add(answer.content)
        assert len(answers) == 1
    assert (await show(api, theirs, url_of(theirs)))["name"] == "First"


@pytest.mark.parametrize("status", list(CredentialStatus))
async def test_without_a_good_credential_nothing_new_is_accepted(
    api: RestApi, pool: Pool, tenant: Tenant, status: CredentialStatus
) -> None:
    intent = (await api.submit(tenant, create_body("Limit", price="1"))).json()["intent_id"]
    await pool.execute("update accounts set credential_status = $1", status)
    await begin_epochs(pool)
    answer = await api.submit(tenant, create_body())
    body = await show(api, tenant, url_of(tenant))
    assert body["credential_status"] == status
    if status in {"MISSING", "INVALID", "EXPIRED"}:
        problem(answer, 409, "account_not_ready")
        assert body["session_status"] == "BLOCKED"
    else:
        assert answer.status_code == 202
        assert body["session_status"] == "CONNECTING"
    assert (await api.submit(tenant, cancel_body(intent))).status_code == 202


async def test_an_account_is_ready_while_an_executor_holds_its_slot_and_has_compared_it(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    executor, slot = uuid4(), tenant.account.slot
    leases, feeds = PostgresLeaseStore(pool), PostgresSessionStore(pool, DatabaseClock(pool))
    states = []

    async def look(
        *,
        connected: bool,
        compared: Sequence[int],
        signing_in: Sequence[AccountId] = (),
        mute: Sequence[AccountId] | None = None,
    ) -> None:
        await feeds.report_feed(
            executor, "paper", connected=connected, compared=compared, signing_in=signing_in, mute=mute
        )
        states.append((await show(api, tenant, url_of(tenant)))["session_status"])

    # Of one that is not there nothing is believed.
    await look(connected=True, compared=[slot])
    await leases.join(executor)
    await leases.take(executor, 60, 64)
    states.append((await show(api, tenant, url_of(tenant)))["session_status"])
    await look(connected=True, compared=[])
    await look(connected=True, compared=[slot])
    await look(connected=False, compared=[])
    await look(connected=True, compared=[slot])
    for status in ("UNVERIFIED", "VALID"):
        await pool.execute("update accounts set credential_status = $1", status)
        await look(connected=True, compared=[slot])
    # Its credential is good, and yet it is not signed in: perhaps the vault does not answer.
    await look(connected=True, compared=[slot], signing_in=[tenant.account.id])
    await look(connected=True, compared=[slot], signing_in=[AccountId(uuid4())])
    # Its feed is silent where it must speak; what was told of it stays so until something else is.
    await look(connected=True, compared=[slot], mute=[tenant.account.id])
    await look(connected=True, compared=[slot])
    await look(connected=True, compared=[slot], mute=[])
    await leases.leave(executor)
    await look(connected=True, compared=[slot])
    await leases.release(executor, [slot])
    await look(connected=True, compared=[slot])
    assert states == [
        "CONNECTING",
        "RECONCILING",
        "RECONCILING",
        "READY",
        "DEGRADED",
        "READY",
        "CONNECTING",
        "READY",
        "CONNECTING",
        "READY",
        "DEGRADED",
        "DEGRADED",
        "READY",
        "RECONCILING",
        "CONNECTING",
    ]


async def test_pages_show_every_account_once_and_cursors_are_for_this_list(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    names = [f"account {number}" for number in range(5)]
    for name in names:
        await created(api, tenant, name=name)
    seen, last = await api.read_pages(URL, as_user(tenant), 2)
    assert [each["name"] for each in seen] == ["First", *names]
    later = await api.client.get(URL, params={"next_cursor": last}, headers=as_user(tenant))
    assert later.json() == {"data": [], "next_cursor": None, "last_cursor": last}
    for other in (as_user(await a_tenant(pool)), {"x-api-key": tenant.key}):
        refused = await api.client.get(URL, params={"next_cursor": last}, headers=other)
        problem(refused, 400, "invalid_cursor")
    problem(await api.client.get(URL, params={"limit": 101}, headers=as_user(tenant)), 400, "invalid_parameter")


async def test_accounts_opened_at_once_are_listed_in_the_order_in_which_they_came_to_be(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    organization = tenant.account.organization_id
    slow = NewAccount(name="slow", broker="paper", environment=Environment.PAPER)

    async def waits() -> bool:
        return bool(await pool.fetchval("select count(*) from pg_locks where locktype = 'advisory' and not granted"))

    async with transaction(pool, Role.TENANT, organization) as connection:
        await open_account(connection, organization, AccountId(new_id()), slow, CredentialStatus.NOT_REQUIRED)
        quick = asyncio.ensure_future(created(api, tenant, name="quick"))
        await until(waits, 60)
    await quick
    listed = (await api.client.get(URL, headers=as_user(tenant))).json()["data"]
    assert [account["name"] for account in listed] == ["First", "slow", "quick"]


async def test_a_login_that_may_only_what_it_needs_manages_accounts(login_pool: Pool) -> None:
    tenant = await a_tenant(login_pool)
    async with rest_api(login_pool) as api:
        body = await created(api, tenant)
        assert (await change(api, tenant, url_of(body), disabled=True)).status_code == 200
        assert (await close(api, tenant, url_of(body))).status_code == 204
        assert len((await api.client.get(URL, headers=as_user(tenant))).json()["data"]) == 2
