"""Deliveries to webhooks: in order, at least once, and nothing to whom nothing is to be sent any more."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.events import delivery_queue
from openbell_server.adapters.postgres.events.delivery_queue import (
    ORGANIZATION_QUEUES_MAX,
    WEBHOOK_FAILING_MAX,
    WEBHOOK_QUEUES_MAX,
    PostgresDeliveryQueueStore,
)
from openbell_server.adapters.postgres.events.events import PostgresEventStore
from openbell_server.adapters.webhooks.posting import WebhookPoster
from openbell_server.application.webhooks.deliver_webhooks import DeliverWebhooks, SignAndPost, Tried
from support.builders.tenant import Tenant, a_tenant, accept
from support.builders.webhook_targets import OK, Target, a_target, a_webhook
from support.history.pruning import prune_at_any_age
from support.rest.event_streams import delete_events

FAILING = b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n"
GONE = b"HTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n"


@dataclass
class Post:
    """A sender of its own, a tenant and a target."""

    pool: Pool
    tenant: Tenant
    target: Target
    deliver: DeliverWebhooks
    troubles: list[Exception] = field(default_factory=list)

    async def add_webhook(self, tenant: Tenant, target: Target, kinds: str = "{1,2,3}") -> UUID:
        return await a_webhook(self.pool, tenant, f"http://127.0.0.1:{target.port}/", kinds)

    async def events(self, count: int) -> None:
        for _ in range(count):
            await accept(self.pool, self.tenant.submission())

    async def round(self) -> None:
        """Claim once, and let all turns end."""
        await self.deliver()
        while self.deliver._turns:
            await asyncio.wait(self.deliver._turns, timeout=60)
        assert self.troubles == []

    async def lane(self) -> dict[str, object]:
        row = await self.pool.fetchrow("select * from webhook_lanes")
        assert row is not None
        return dict(row)

    def sent(self) -> list[dict[str, object]]:
        return [json.loads(request.body) for request in self.target.requests]


@pytest.fixture
async def post(pool: Pool) -> AsyncIterator[Post]:
    poster = WebhookPoster(private_targets={"*"})
    async with a_target() as target:
        troubles: list[Exception] = []
        store = PostgresDeliveryQueueStore(pool)
        deliver = DeliverWebhooks(
            store,
            PostgresEventStore(pool),
            SignAndPost(poster, b"k" * 32, lambda: 1.0),
            lambda: 1.0,
            asyncio.get_running_loop().time,
            3600.0,
            troubles.append,
            lambda: None,
        )
        one = Post(pool, await a_tenant(pool), target, deliver, troubles)
        await one.add_webhook(one.tenant, target)
        await store.add_queues_across_organizations()
        yield one
        await poster.close()


async def test_an_account_created_later_has_all_its_events_delivered_in_order_each_naming_the_one_before(
    post: Post,
) -> None:
    await post.events(4)
    await post.round()
    assert [event["account_seq"] for event in post.sent()] == [1, 2, 3, 4]
    assert [event["prev_seq"] for event in post.sent()] == [0, 1, 2, 3]
    assert [request.headers["webhook-id"] for request in post.target.requests] == [
        f"{post.tenant.account.id}.{number}" for number in (1, 2, 3, 4)
    ]
    lane = await post.lane()
    assert (lane["position"], lane["delivered"], lane["claim_token"], lane["last_status"]) == (4, 4, None, 200)
    await post.round()
    assert len(post.sent()) == 4


async def test_kinds_that_are_not_wanted_are_passed_and_the_chain_goes_over_them(post: Post) -> None:
    await post.events(1)
    await post.round()
    await post.pool.execute("update webhooks set kinds = '{2}'")
    await post.events(3)
    await post.round()
    assert (await post.lane())["position"] == 4
    await post.pool.execute("update webhooks set kinds = '{1}'")
    await post.events(1)
    await post.round()
    assert [(event["account_seq"], event["prev_seq"]) for event in post.sent()] == [(1, 0), (5, 1)]


async def test_what_fails_is_tried_again_later_and_nothing_behind_it_is_sent_before(post: Post) -> None:
    await post.events(2)
    post.target.answer = FAILING
    await post.round()
    lane = await post.lane()
    assert (lane["position"], lane["failures"], lane["last_status"]) == (0, 1, 503)
    await post.round()
    assert [event["account_seq"] for event in post.sent()] == [1]
    post.target.answer = OK
    await post.pool.execute("update webhook_lanes set next_attempt_at = now()")
    await post.round()
    assert [event["account_seq"] for event in post.sent()] == [1, 1, 2]
    lane = await post.lane()
    assert (lane["failures"], lane["failing_since"], lane["last_error"]) == (0, None, None)


async def test_a_target_that_wants_calm_has_it(post: Post) -> None:
    await post.events(1)
    post.target.answer = FAILING.replace(b"\r\n\r\n", b"\r\nretry-after: 900\r\n\r\n")
    await post.round()
    assert await post.pool.fetchval("select next_attempt_at > now() + interval '800 seconds' from webhook_lanes")


async def test_a_lane_that_failed_for_too_long_is_parked_and_skips_nothing(post: Post) -> None:
    await post.events(2)
    post.target.answer = FAILING
    await post.round()
    assert (await post.lane())["parked_at"] is None
    await post.pool.execute(
        "update webhook_lanes set failing_since = now() - interval '2 hours', next_attempt_at = now()"
    )
    await post.round()
    lane = await post.lane()
    assert lane["parked_at"] is not None
    assert (await PostgresDeliveryQueueStore(post.pool).counts_across_organizations()) == (0, 1)
    await post.pool.execute("update webhook_lanes set next_attempt_at = now()")
    await post.round()
    assert len(post.sent()) == 2
    post.target.answer = OK
    await post.pool.execute("update webhook_lanes set parked_at = null")
    await post.round()
    assert [event["account_seq"] for event in post.sent()] == [1, 1, 1, 2]


async def test_a_target_that_is_gone_ends_the_webhook(post: Post) -> None:
    await post.events(2)
    post.target.answer = GONE
    await post.round()
    assert await post.pool.fetchval("select status from webhooks") == "GONE"
    await post.round()
    assert len(post.sent()) == 1
    assert (await post.lane())["position"] == 0


@pytest.mark.parametrize(
    "change",
    [
        "update webhooks set status = 'PAUSED'",
        "delete from webhooks",
        "update organizations set disabled = true",
        "update webhooks set account_ids = array[gen_random_uuid()]",
        "update webhooks set environment = 'live'",
    ],
)
async def test_nothing_more_is_sent_after_the_event_during_which_it_was_ended(post: Post, change: str) -> None:
    async def change_then_answer(writer: asyncio.StreamWriter) -> None:
        await post.pool.execute(change)
        writer.write(OK)

    await post.events(3)
    post.target.answer = change_then_answer
    await post.round()
    await post.round()
    assert [event["account_seq"] for event in post.sent()] == [1]


async def test_events_that_are_no_longer_kept_are_told_as_a_gap(post: Post) -> None:
    await post.events(5)
    await prune_at_any_age(post.pool)
    await post.pool.execute("select prune_events($1, 0, 3)", UUID(int=0))
    await post.round()
    gap, *events = post.sent()
    assert gap == {
        "account_id": str(post.tenant.account.id),
        "account_seq": 3,
        "type": "GAP",
        "gap": {"first_seq": 1, "last_seq": 3, "reason": "RETENTION"},
        "prev_seq": 0,
    }
    assert [(event["account_seq"], event["prev_seq"]) for event in events] == [(4, 3), (5, 4)]


async def test_events_that_were_deleted_without_pruning_are_delivered_as_gaps(post: Post) -> None:
    await post.events(7)
    await prune_at_any_age(post.pool)
    await post.pool.execute("select prune_events($1, 0, 1)", UUID(int=0))
    await delete_events(post.pool, post.tenant, 2, 4, 7)
    await post.round()
    sent = [(each["account_seq"], each["prev_seq"], each.get("gap")) for each in post.sent()]
    assert sent == [
        (1, 0, {"first_seq": 1, "last_seq": 1, "reason": "RETENTION"}),
        (2, 1, {"first_seq": 2, "last_seq": 2, "reason": "DELETED"}),
        (3, 2, None),
        (4, 3, {"first_seq": 4, "last_seq": 4, "reason": "DELETED"}),
        (5, 4, None),
        (6, 5, None),
        (7, 6, {"first_seq": 7, "last_seq": 7, "reason": "DELETED"}),
    ]


async def test_a_holder_who_fell_silent_loses_its_lane_and_then_changes_nothing(post: Post) -> None:
    await post.events(1)
    store = PostgresDeliveryQueueStore(post.pool)
    (silent,) = await store.claim_across_organizations(9, 9)
    assert await store.claim_across_organizations(9, 9) == []
    await post.pool.execute("update webhook_lanes set claimed_until = now() - interval '1 second'")
    (other,) = await store.claim_across_organizations(9, 9)
    before = await post.lane()
    tried = Tried(message_id="m", duration_millis=1, status=200)
    assert await store.save(silent, 1, 1, tried) is None
    await store.release(silent)
    await store.end(silent, 1, tried, f"http://127.0.0.1:{post.target.port}/")
    assert not await store.fail(silent, 1, tried, 1.0, 0.0)
    assert await post.pool.fetchval("select count(*) from webhook_attempts") == 0
    assert await post.lane() == before
    assert await store.save(other, 0, 0, None) is not None


async def test_a_replay_takes_the_lane_from_whoever_is_at_it(post: Post) -> None:
    async def replay_then_answer(writer: asyncio.StreamWriter) -> None:
        post.target.answer = OK
        await post.pool.execute(
            "update webhook_lanes set position = 0, previous = null, claim_token = null, claimed_until = null"
        )
        writer.write(OK)

    await post.events(2)
    post.target.answer = replay_then_answer
    await post.round()
    await post.round()
    assert [(event["account_seq"], event["prev_seq"]) for event in post.sent()] == [(1, 0), (1, 0), (2, 1)]


async def test_of_a_webhook_and_of_an_organization_only_so_many_lanes_are_worked_and_each_has_its_first_one(
    pool: Pool, post: Post
) -> None:
    other = await a_tenant(pool)
    await post.add_webhook(other, post.target)
    for _ in range(2):
        await post.add_webhook(post.tenant, post.target)
    organization_id = post.tenant.account.organization_id
    await pool.execute(
        "insert into accounts select (json_populate_record(a, json_build_object('account_id', gen_random_uuid(),"
        " 'name', 'n' || n))).* from accounts a, generate_series(1, 20) n where organization_id = $1",
        organization_id,
    )
    await pool.execute(
        "insert into account_counters select (json_populate_record(c, json_build_object('account_id',"
        " a.account_id))).* from account_counters c join accounts a using (organization_id)"
        " where a.organization_id = $1 and a.account_id <> c.account_id",
        organization_id,
    )
    await PostgresDeliveryQueueStore(pool).add_queues_across_organizations()
    await pool.execute("update account_counters set event_no = 1")
    claimed = await PostgresDeliveryQueueStore(pool).claim_across_organizations(200, 200)
    webhooks = Counter(lane.webhook_id for lane in claimed if lane.organization_id == organization_id)
    assert sum(webhooks.values()) == ORGANIZATION_QUEUES_MAX
    assert max(webhooks.values()) <= WEBHOOK_QUEUES_MAX
    assert {lane.organization_id for lane in claimed} == {organization_id, other.account.organization_id}
    await pool.execute("update webhook_lanes set failures = 1, claimed_until = null")
    claimed = await PostgresDeliveryQueueStore(pool).claim_across_organizations(200, 200)
    assert max(Counter(lane.webhook_id for lane in claimed).values()) == WEBHOOK_FAILING_MAX
    await pool.execute("update webhook_lanes set claimed_until = null")
    few = await PostgresDeliveryQueueStore(pool).claim_across_organizations(2, 2)
    assert len({lane.organization_id for lane in few}) == 2


async def test_each_attempt_is_recorded_with_its_result_and_when_it_is_tried_again(post: Post) -> None:
    await post.events(2)
    post.target.answer = FAILING
    await post.round()
    post.target.answer = OK
    await post.pool.execute("update webhook_lanes set next_attempt_at = now()")
    await post.round()
    await post.events(1)
    post.target.answer = GONE
    await post.round()
    rows = await post.pool.fetch("select * from webhook_attempts order by attempt_no")
    assert [(row["account_seq"], row["status"], row["error"]) for row in rows] == [
        (1, 503, "NOT_TAKEN"),
        (1, 200, None),
        (2, 200, None),
        (3, 410, "NOT_TAKEN"),
    ]
    assert [row["message"] for row in rows[:2]] == ["it answered 503", None]
    assert [row["next_attempt_at"] is None for row in rows] == [False, True, True, True]
    assert {row["message_id"] for row in rows} == {f"{post.tenant.account.id}.{number}" for number in (1, 2, 3)}
    assert all(0 <= row["duration_millis"] < 60_000 for row in rows)


async def test_the_last_attempt_before_a_lane_is_parked_has_no_next_one(post: Post) -> None:
    await post.events(1)
    post.target.answer = FAILING
    await post.pool.execute("update webhook_lanes set failing_since = now() - interval '2 hours'")
    await post.round()
    assert (await post.lane())["parked_at"] is not None
    assert await post.pool.fetchval("select next_attempt_at from webhook_attempts") is None


async def test_a_delivery_takes_one_statement_which_also_records_the_attempt(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: Counter[str] = Counter()
    in_order = named_queries._PlainAdapter._in_order

    def counted(adapter: Any, query_name: str, parameters: Any) -> Any:
        ran[query_name] += 1
        return in_order(adapter, query_name, parameters)

    monkeypatch.setattr(named_queries._PlainAdapter, "_in_order", counted)
    await post.events(5)
    ran.clear()
    await post.round()
    assert len(post.sent()) == 5
    # It is saved once before the first event, and once for each.
    assert ran == {"claim_across_organizations": 1, "save_lane": 6, "read_after": 2, "release_lane": 1}


async def test_attempts_are_removed_after_three_days_a_limited_number_of_each_webhook(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_queue, "PRUNE_ATTEMPTS_MAX", 2)
    await post.events(5)
    await post.round()
    store = PostgresDeliveryQueueStore(post.pool)
    assert await store.prune_across_organizations() == 0
    await post.pool.execute(
        "update webhook_attempts set attempted_at = now() - interval '73 hours' where account_seq <= 3"
    )
    assert [await store.prune_across_organizations() for _ in range(3)] == [2, 1, 0]
    assert await post.pool.fetchval("select min(account_seq) from webhook_attempts") == 4
