"""Webhooks on REST: secrets that are told once, lanes that begin at the right event, and every change audited."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from openbell.webhooks import verify
from openbell_server.adapters.postgres.connection import Pool
from openbell_server.application.webhooks.ports.posting import Answer, DeliveryFailure, NotDelivered
from openbell_server.application.webhooks.send_test_message import TRIES_MAX
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.caps import CAPS
from openbell_server.domain.events.webhooks import ACCOUNTS_MAX, secret_of
from support.builders.tenant import Tenant, a_key, a_market_create, a_tenant, accept, an_account
from support.builders.webhook_targets import RememberedPosts
from support.identity.bearers import as_service, as_user
from support.rest.rest_api import WEBHOOK_KEY, RestApi, pointers, problem, rest_api

URL = "/v1/webhooks"
FILLS = {"url": "https://example.com/openbell", "types": ["BROKER_TRADE", "BROKER_ORDER"]}


async def create(api: RestApi, tenant: Tenant, **fields: object) -> httpx.Response:
    return await api.client.post(URL, json={**FILLS, **fields}, headers=as_user(tenant))


async def created(api: RestApi, tenant: Tenant, **fields: object) -> dict[str, Any]:
    answer = await create(api, tenant, **fields)
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def change(api: RestApi, tenant: Tenant, webhook_id: str, tag: str = "*", **fields: object) -> httpx.Response:
    headers = {**as_user(tenant), "if-match": tag}
    return await api.client.patch(f"{URL}/{webhook_id}", json=fields, headers=headers)


async def act(api: RestApi, tenant: Tenant, webhook_id: str, what: str, **fields: object) -> httpx.Response:
    return await api.client.post(f"{URL}/{webhook_id}/{what}", json=fields, headers=as_user(tenant))


async def lanes(api: RestApi, tenant: Tenant, webhook_id: str, **query: str) -> list[dict[str, Any]]:
    answer = await api.client.get(f"{URL}/{webhook_id}/lanes", params=query, headers=as_user(tenant))
    assert answer.status_code == 200, answer.text
    data: list[dict[str, Any]] = answer.json()["data"]
    return data


async def positions(api: RestApi, tenant: Tenant, webhook_id: str) -> dict[str, int]:
    return {lane["account_id"]: lane["position"] for lane in await lanes(api, tenant, webhook_id)}


async def audited(pool: Pool) -> list[tuple[str, Any, Any]]:
    rows = await pool.fetch("select operation, before, after from audit_log order by occurred_at")
    return [(row[0], row[1] and json.loads(row[1]), json.loads(row[2])) for row in rows]


async def test_a_webhook_is_made_and_its_secret_told_once(api: RestApi, tenant: Tenant, pool: Pool) -> None:
    answer = await create(api, tenant, description="order desk")
    body = answer.json()
    assert answer.status_code == 201, body
    assert answer.headers["location"] == f"{URL}/{body['id']}"
    assert (answer.headers["cache-control"], answer.headers["etag"]) == ("no-store", '"1"')
    organization_id = tenant.account.organization_id
    assert body.pop("secret") == secret_of(WEBHOOK_KEY, organization_id, UUID(body["id"]), 1).text
    assert body["types"] == ["BROKER_ORDER", "BROKER_TRADE"]
    assert (body["url"], body["description"], body["status"]) == (FILLS["url"], "order desk", "ACTIVE")
    shown = (await api.client.get(f"{URL}/{body['id']}", headers=as_user(tenant))).json()
    assert shown == body | {"lanes": {"accounts": 1, "behind": 0, "failing": 0, "parked": 0}}
    listed = (await api.client.get(URL, headers=as_user(tenant))).json()
    assert listed["data"] == [shown]
    stored = await pool.fetchval("select string_agg(w::text, '') from webhooks w")
    assert "whsec" not in stored


async def test_lanes_begin_at_the_newest_event_of_each_account_that_is_covered(
    api: RestApi, tenant: Tenant, pool: Pool
) -> None:
    await accept(pool, tenant.submission(a_market_create()))
    other = await an_account(pool, tenant.account.organization_id, Environment.LIVE)
    every, one = await created(api, tenant), await created(api, tenant, account_ids=[str(other.id)])
    assert await positions(api, tenant, every["id"]) == {str(tenant.account.id): 1, str(other.id): 0}
    assert await positions(api, tenant, one["id"]) == {str(other.id): 0}
    await accept(pool, tenant.submission(a_market_create()))
    lane = (await lanes(api, tenant, every["id"]))[0]
    assert (lane["position"], lane["newest_seq"]) == (1, 2)
    shown = (await api.client.get(f"{URL}/{every['id']}", headers=as_user(tenant))).json()
    assert shown["lanes"] == {"accounts": 2, "behind": 1, "failing": 0, "parked": 0}


async def test_an_account_covered_later_by_a_change_begins_with_what_happens_next(
    api: RestApi, tenant: Tenant, pool: Pool
) -> None:
    other = await an_account(pool, tenant.account.organization_id)
    webhook = await created(api, tenant, account_ids=[str(other.id)])
    await accept(pool, tenant.submission(a_market_create()))
    body = (await change(api, tenant, webhook["id"], account_ids=None)).json()
    assert "account_ids" not in body
    assert await positions(api, tenant, webhook["id"]) == {str(tenant.account.id): 1, str(other.id): 0}
    await change(api, tenant, webhook["id"], account_ids=[str(tenant.account.id)])
    assert await positions(api, tenant, webhook["id"]) == {str(tenant.account.id): 1}


async def test_a_change_needs_the_version_that_was_read_and_one_of_nothing_keeps_it(
    api: RestApi, tenant: Tenant, pool: Pool
) -> None:
    webhook = await created(api, tenant)
    paused = await change(api, tenant, webhook["id"], '"1"', status="PAUSED", types=["BROKER_TRADE"])
    assert (paused.status_code, paused.headers["etag"]) == (200, '"2"')
    assert (paused.json()["status"], paused.json()["types"]) == ("PAUSED", ["BROKER_TRADE"])
    problem(await change(api, tenant, webhook["id"], '"1"', status="ACTIVE"), 412, "version_mismatch")
    same = await change(api, tenant, webhook["id"], status="PAUSED")
    assert same.headers["etag"] == '"2"'
    assert [operation for operation, _, _ in await audited(pool)] == ["webhooks create", "webhooks change"]


async def test_after_a_rotation_another_secret_is_told_and_the_one_before_signs_for_a_day(
    api: RestApi, tenant: Tenant, pool: Pool
) -> None:
    webhook = await created(api, tenant)
    answer = await act(api, tenant, webhook["id"], "rotate-secret")
    body = answer.json()
    assert answer.status_code == 200, body
    organization_id = tenant.account.organization_id
    assert body["secret"] == secret_of(WEBHOOK_KEY, organization_id, UUID(webhook["id"]), 2).text
    hours = await pool.fetchval("select extract(epoch from previous_secret_until - updated_at) / 3600 from webhooks")
    assert float(hours) == 24
    assert (await audited(pool))[-1][2]["secret_version"] == 2
    assert "whsec" not in json.dumps(await audited(pool))


async def test_a_webhook_is_deleted_with_its_lanes(api: RestApi, tenant: Tenant, pool: Pool) -> None:
    webhook = await created(api, tenant)
    path = f"{URL}/{webhook['id']}"
    assert (await api.client.delete(path, headers=as_user(tenant))).status_code == 204
    problem(await api.client.get(path, headers=as_user(tenant)), 404, "not_found")
    problem(await api.client.delete(path, headers=as_user(tenant)), 404, "not_found")
    assert await pool.fetchval("select count(*) from webhook_lanes") == 0
    assert (await audited(pool))[-1][::2] == ("webhooks delete", {"removed": True})


async def test_a_replay_sets_lanes_back_or_on_and_takes_them_from_whoever_holds_them(
    api: RestApi, tenant: Tenant, pool: Pool
) -> None:
    for _ in range(3):
        await accept(pool, tenant.submission(a_market_create()))
    webhook = await created(api, tenant)
    await pool.execute(
        "update webhook_lanes set claim_token = gen_random_uuid(), claimed_until = now() + interval '1 hour',"
        " parked_at = now(), failing_since = now(), failures = 9, previous = 3"
    )
    answer = await act(api, tenant, webhook["id"], "replay", account_id=str(tenant.account.id), after_seq=1)
    assert (answer.status_code, answer.json()) == (200, {"lanes": 1})
    row = await pool.fetchrow("select claim_token, parked_at, failing_since, previous, position from webhook_lanes")
    assert row is not None
    assert tuple(row) == (None, None, None, None, 1)
    # No further than to the newest event.
    assert (await act(api, tenant, webhook["id"], "replay", after_seq=10_000)).json() == {"lanes": 1}
    assert await positions(api, tenant, webhook["id"]) == {str(tenant.account.id): 3}
    assert (await audited(pool))[-1][::2] == ("webhooks replay", {"after_seq": 10_000, "lanes": 1})
    other_organization = await act(api, tenant, webhook["id"], "replay", account_id=str(uuid4()), after_seq=0)
    problem(other_organization, 404, "not_found")


async def test_parked_lanes_are_told_and_resumed_where_they_stood(api: RestApi, tenant: Tenant, pool: Pool) -> None:
    await accept(pool, tenant.submission(a_market_create()))
    webhook = await created(api, tenant)
    assert await lanes(api, tenant, webhook["id"], parked="true") == []
    await pool.execute(
        "update webhook_lanes set parked_at = now(), failing_since = now(), failures = 9, last_status = 500,"
        " last_error = 'it answered 500'"
    )
    (lane,) = await lanes(api, tenant, webhook["id"], parked="true")
    assert (lane["last_status"], lane["last_error"], lane["failures"]) == (500, "it answered 500", 9)
    assert lane["parked_at"] == lane["failing_since"]
    assert await lanes(api, tenant, webhook["id"], parked="false") == []
    for entries in (2, 2):
        # The webhook itself is as it was, and the second time there is nothing to resume.
        assert (await change(api, tenant, webhook["id"], status="ACTIVE")).headers["etag"] == '"1"'
        (lane,) = await lanes(api, tenant, webhook["id"], parked="false")
        assert (lane["position"], lane["failures"], "parked_at" in lane) == (1, 0, False)
        assert len(await audited(pool)) == entries
    assert (await audited(pool))[-1] == ("webhooks resume", None, {"lanes": 1})


async def test_a_paused_webhook_is_resumed_with_its_failing_lanes_by_one_change(
    api: RestApi, tenant: Tenant, pool: Pool
) -> None:
    webhook = await created(api, tenant)
    await pool.execute("update webhook_lanes set failing_since = now(), failures = 3")
    assert (await change(api, tenant, webhook["id"], status="PAUSED")).json()["status"] == "PAUSED"
    assert (await lanes(api, tenant, webhook["id"]))[0]["failures"] == 3
    assert (await change(api, tenant, webhook["id"], status="ACTIVE")).json()["status"] == "ACTIVE"
    assert (await lanes(api, tenant, webhook["id"]))[0]["failures"] == 0
    operation, before, after = (await audited(pool))[-1]
    assert (operation, before["status"], after["status"], after["lanes"]) == ("webhooks change", "PAUSED", "ACTIVE", 1)


async def test_attempts_are_listed_the_newest_first_and_go_with_the_webhook(
    api: RestApi, tenant: Tenant, pool: Pool
) -> None:
    webhook = await created(api, tenant)
    where = (tenant.account.organization_id, UUID(webhook["id"]), tenant.account.id)
    await pool.execute(
        "insert into webhook_attempts (organization_id, webhook_id, account_id, account_seq, message_id,"
        " duration_millis, status, error, message) select $1, $2, $3, n, 'm', 12, 503, 'NOT_TAKEN', 'it answered 503'"
        " from generate_series(1, 5) n",
        *where,
    )
    path = f"{URL}/{webhook['id']}/attempts"
    first = (await api.client.get(path, params={"limit": "3"}, headers=as_user(tenant))).json()
    rest = (await api.client.get(path, params={"next_cursor": first["next_cursor"]}, headers=as_user(tenant))).json()
    assert [each["account_seq"] for each in first["data"] + rest["data"]] == [5, 4, 3, 2, 1]
    assert rest["next_cursor"] is None
    assert rest["data"][-1] == {
        "account_id": str(tenant.account.id),
        "account_seq": 1,
        "message_id": "m",
        "attempted_at": rest["data"][-1]["attempted_at"],
        "delivered": False,
        "duration_millis": 12,
        "status": 503,
        "error": "NOT_TAKEN",
        "message": "it answered 503",
    }
    await api.client.delete(f"{URL}/{webhook['id']}", headers=as_user(tenant))
    assert await pool.fetchval("select count(*) from webhook_attempts") == 0


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"url": "http://example.com/"}, "/url"),
        ({"url": "https://user:secret@example.com/"}, "/url"),
        ({"url": "https://127.0.0.1/"}, "/url"),
        ({"types": []}, "/types"),
        ({"types": ["BROKER_TRADE", "weather"]}, "/types/1"),
        ({"account_ids": []}, "/account_ids"),
        ({"account_ids": [str(uuid4())]}, "/account_ids"),
        ({"account_ids": [str(uuid4())] * (ACCOUNTS_MAX + 1)}, "/account_ids"),
        ({"description": "\n"}, "/description"),
    ],
)
async def test_what_no_webhook_may_have_is_refused_at_its_field(
    api: RestApi, tenant: Tenant, fields: dict[str, object], pointer: str
) -> None:
    assert pointers(problem(await create(api, tenant, **fields), 422, "invalid_command")) == [pointer]


async def test_nobody_but_the_target_can_say_that_it_is_gone(api: RestApi, tenant: Tenant) -> None:
    webhook = await created(api, tenant)
    told = problem(await change(api, tenant, webhook["id"], status="GONE"), 422, "invalid_command")
    assert told["detail"] == "/status must be one of ACTIVE, PAUSED"


async def test_an_organization_has_so_many_webhooks_and_no_more(api: RestApi, tenant: Tenant) -> None:
    for _ in range(CAPS["webhooks"].limit):
        webhook = await created(api, tenant)
    problem(await create(api, tenant), 409, "cap_reached")
    await api.client.delete(f"{URL}/{webhook['id']}", headers=as_user(tenant))
    await created(api, tenant)


async def test_a_webhook_of_a_key_covers_accounts_of_its_environment_only(
    api: RestApi, tenant: Tenant, pool: Pool
) -> None:
    organization_id = tenant.account.organization_id
    live = await an_account(pool, organization_id, Environment.LIVE)
    _, key = await a_key(pool, organization_id, Environment.PAPER, frozenset({"webhook:edit"}))
    by_key = {"x-api-key": key}
    webhook = (await api.client.post(URL, json=FILLS, headers=by_key)).json()
    assert webhook["environment"] == "paper"
    assert list(await positions(api, tenant, webhook["id"])) == [str(tenant.account.id)]
    named = await api.client.post(URL, json={**FILLS, "account_ids": [str(live.id)]}, headers=by_key)
    assert pointers(problem(named, 422, "invalid_command")) == ["/account_ids"]
    of_both = await created(api, tenant)
    listed = (await api.client.get(URL, headers=by_key)).json()["data"]
    assert [each["id"] for each in listed] == [webhook["id"]]
    problem(await api.client.delete(f"{URL}/{of_both['id']}", headers=by_key), 403, "environment_mismatch")


async def test_another_organization_s_webhook_is_as_if_it_were_not(api: RestApi, tenant: Tenant, pool: Pool) -> None:
    webhook, other = await created(api, tenant), await a_tenant(pool)
    for answer in (
        await api.client.get(f"{URL}/{webhook['id']}", headers=as_user(other)),
        await api.client.get(f"{URL}/{webhook['id']}/lanes", headers=as_user(other)),
        await change(api, other, webhook["id"], status="PAUSED"),
        await act(api, other, webhook["id"], "replay", after_seq=0),
        await act(api, other, webhook["id"], "rotate-secret"),
    ):
        problem(answer, 404, "not_found")
    theirs = await create(api, other, account_ids=[str(tenant.account.id)])
    assert pointers(problem(theirs, 422, "invalid_command")) == ["/account_ids"]


async def test_a_service_account_reads_webhooks_and_changes_none(api: RestApi, tenant: Tenant) -> None:
    webhook = await created(api, tenant)
    headers = as_service("webhook:read", tenant=tenant)
    assert (await api.client.get(f"{URL}/{webhook['id']}", headers=headers)).status_code == 200
    refused = await api.client.post(URL, json=FILLS, headers=headers)
    problem(refused, 403, "principal_kind_not_allowed")


async def test_a_test_message_is_signed_sent_at_once_and_changes_no_lane(
    api: RestApi, tenant: Tenant, pool: Pool
) -> None:
    posts = RememberedPosts(Answer(503))
    async with rest_api(pool, poster=posts) as sending:
        webhook = await created(sending, tenant)
        await change(sending, tenant, webhook["id"], status="PAUSED")
        before = await lanes(api, tenant, webhook["id"])
        told = (await act(sending, tenant, webhook["id"], "test")).json()
        millis = told.pop("duration_millis")
        ((url, headers, body),) = posts.posts
        verify(webhook["secret"], headers, body)
        sent = json.loads(body)
        assert told == {
            "message_id": headers["webhook-id"],
            "delivered": False,
            "status": 503,
            "error": "NOT_TAKEN",
            "message": "it answered 503",
        }
        assert (url, sent["type"], sent["event_id"]) == (webhook["url"], "webhook.test", headers["webhook-id"])
        assert millis >= 0
        posts.answer = NotDelivered(DeliveryFailure.TIMED_OUT, "no whole answer within 10 s")
        told = (await act(sending, tenant, webhook["id"], "test")).json()
        assert (told["error"], "status" in told) == ("TIMED_OUT", False)
        posts.answer = Answer(204)
        told = (await act(sending, tenant, webhook["id"], "test")).json()
        assert (told["delivered"], told["status"], "error" in told) == (True, 204, False)
        assert await lanes(api, tenant, webhook["id"]) == before


async def test_of_an_organization_only_so_many_test_messages_are_under_way(
    api: RestApi, tenant: Tenant, pool: Pool
) -> None:
    webhook, all_there, go_on = await created(api, tenant), asyncio.Event(), asyncio.Event()

    class Slow(RememberedPosts):
        async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
            answer = await super().post(url, headers, body)
            if len(self.posts) == TRIES_MAX:
                all_there.set()
            await go_on.wait()
            return answer

    async with rest_api(pool, poster=Slow()) as sending:
        under_way = [asyncio.ensure_future(act(sending, tenant, webhook["id"], "test")) for _ in range(TRIES_MAX)]
        await asyncio.wait_for(all_there.wait(), 60)
        problem(await act(sending, tenant, webhook["id"], "test"), 429, "rate_limited")
        go_on.set()
        assert [answer.status_code for answer in await asyncio.gather(*under_way)] == [200] * TRIES_MAX
        assert (await act(sending, tenant, webhook["id"], "test")).status_code == 200


async def test_without_a_key_no_secret_is_made_and_what_there_is_can_be_read_and_removed(
    api: RestApi, tenant: Tenant, pool: Pool
) -> None:
    webhook = await created(api, tenant)
    async with rest_api(pool, webhook_key=b"") as without:
        problem(await create(without, tenant), 503, "webhooks_not_configured")
        for what in ("rotate-secret", "test"):
            problem(await act(without, tenant, webhook["id"], what), 503, "webhooks_not_configured")
        path = f"{URL}/{webhook['id']}"
        assert (await without.client.get(path, headers=as_user(tenant))).json()["version"] == 1
        assert (await without.client.delete(path, headers=as_user(tenant))).status_code == 204
