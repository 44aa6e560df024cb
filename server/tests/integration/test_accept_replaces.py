"""The accept step and REPLACE: what it becomes in the record, what refuses it, and what a stranger cannot do to it."""

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from decimal import Decimal

import asyncpg
import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.intents.intents import PostgresIntentStore, intent_action
from openbell_server.application.ports.accept_step import Submission
from openbell_server.domain.identifiers import AccountId, IntentId, OrganizationId
from openbell_server.domain.orders.intents import CancelIntent, Command, CreateIntent, ReplaceIntent, action_hash
from openbell_server.domain.orders.order_terms import OrderType, ReplacementSpec, TimeInForce
from support.builders.tenant import (
    Tenant,
    a_cancel,
    a_limit_create,
    a_market_create,
    a_replace,
    a_tenant,
    accept,
    new_id,
)

EXACT_PRICE, EXACT_QUANTITY = "123456789012345678.000000000000000001", "12.500"


@pytest.fixture
async def tenant(pool: Pool) -> Tenant:
    return await a_tenant(pool)


async def a_working_order(pool: Pool, tenant: Tenant, filled: str = "0") -> IntentId:
    """A limit order of 10, as its broker acknowledged it."""
    (created,) = await accept(pool, tenant.submission(a_limit_create()))
    await pool.execute(
        "update orders set standing = 'WORKING', pending = 'NONE', filled_quantity = $2 where order_id = $1",
        created.intent_id,
        Decimal(filled),
    )
    await pool.execute(
        "update action_states set state = 'ACKED', attempt_id = gen_random_uuid(), send_started_at = now(),"
        " settled_at = now() where intent_id = $1",
        created.intent_id,
    )
    return created.intent_id


async def answer_to(pool: Pool, submission: Submission) -> str:
    (acceptance,) = await accept(pool, submission)
    return str(acceptance.status)


async def pending_of(pool: Pool, intent: IntentId) -> str:
    return str(await pool.fetchval("select pending from orders where order_id = $1", intent))


async def test_an_accepted_replace_is_a_full_snapshot_with_the_new_terms_and_the_order_stays_as_it_was(
    pool: Pool, tenant: Tenant
) -> None:
    intent = await a_working_order(pool, tenant, filled="4")
    command = replace(a_replace(intent, EXACT_PRICE, EXACT_QUANTITY), client_reference_id="mine")
    (accepted,) = await accept(pool, tenant.submission(command, key="k"))
    assert (accepted.status, accepted.intent_id, accepted.seq, accepted.number) == ("ACCEPTED", intent, 2, 2)
    latest = await PostgresIntentStore(pool).find_action(tenant.account.organization_id, tenant.account.id, intent)
    assert latest is not None
    action = latest.action
    assert (str(action.quantity), str(action.limit_price)) == (EXACT_QUANTITY, EXACT_PRICE)
    assert (action.action_type, action.symbol, action.order_side, action.order_type) == (
        "REPLACE",
        "AAPL",
        "BUY",
        "LIMIT",
    )
    assert (action.time_in_force, action.route_strategy, action.stop_price) == ("GOOD_TILL_CANCEL", "SMART", None)
    assert action.client_reference_id == "mine"
    order = await pool.fetchrow("select quantity, limit_price, pending from orders")
    assert order is not None
    assert tuple(order) == (Decimal(10), Decimal("1.50"), "REPLACE")
    for row in await pool.fetch("select * from intent_actions"):
        assert row["hash"] == action_hash(intent_action(row))


async def test_a_replace_without_time_in_force_keeps_the_order_s_or_that_of_the_replace_before_it(
    pool: Pool, tenant: Tenant
) -> None:
    intent = await a_working_order(pool, tenant)
    for time_in_force in (None, TimeInForce.EXT, None, TimeInForce.DAY, None):
        assert await answer_to(pool, tenant.submission(a_replace(intent, time_in_force=time_in_force))) == "ACCEPTED"
    rows = await pool.fetch("select time_in_force from intent_actions where seq > 1 order by seq")
    assert [row[0] for row in rows] == ["GOOD_TILL_CANCEL", "EXT", "EXT", "DAY", "DAY"]
    # One that came to nothing leaves nothing to keep.
    await pool.execute("update action_states set state = 'SKIPPED', settled_at = now() where state = 'QUEUED'")
    await accept(pool, tenant.submission(a_replace(intent)))
    assert await pool.fetchval("select time_in_force from intent_actions where seq = 7") == "GOOD_TILL_CANCEL"


def of_kind(intent: IntentId, order_type: OrderType) -> ReplaceIntent:
    spec = ReplacementSpec(
        order_type=order_type,
        quantity=Decimal(12),
        limit_price=Decimal(2) if order_type is OrderType.LIMIT else None,
        stop_price=Decimal(2) if order_type is OrderType.STOP else None,
    )
    return ReplaceIntent(ref_intent_id=intent, spec=spec)


@pytest.mark.parametrize("kind", [OrderType.MARKET, OrderType.STOP])
async def test_the_kind_of_an_order_cannot_be_replaced(pool: Pool, tenant: Tenant, kind: OrderType) -> None:
    intent = await a_working_order(pool, tenant)
    assert await answer_to(pool, tenant.submission(of_kind(intent, kind))) == "IMMUTABLE_FIELD"
    assert await answer_to(pool, tenant.submission(of_kind(intent, OrderType.LIMIT))) == "ACCEPTED"


@pytest.mark.parametrize(
    ("quantity", "answer"),
    [
        ("3.999", "QUANTITY_NOT_ABOVE_FILLED"),
        ("4", "QUANTITY_NOT_ABOVE_FILLED"),
        ("4.0", "QUANTITY_NOT_ABOVE_FILLED"),
        ("4.000000000000000001", "ACCEPTED"),
        ("10", "ACCEPTED"),
    ],
)
async def test_the_new_total_must_be_above_what_has_filled(
    pool: Pool, tenant: Tenant, quantity: str, answer: str
) -> None:
    intent = await a_working_order(pool, tenant, filled="4")
    assert await answer_to(pool, tenant.submission(a_replace(intent, quantity=quantity))) == answer


async def test_an_order_that_ended_and_one_that_nobody_is_sure_of_refuse_a_replace(pool: Pool, tenant: Tenant) -> None:
    (created,) = await accept(pool, tenant.submission(a_limit_create()))
    command = a_replace(created.intent_id)
    await pool.execute("update orders set certainty = 'UNKNOWN'")
    assert await answer_to(pool, tenant.submission(command)) == "ORDER_UNKNOWN"
    assert await answer_to(pool, tenant.submission(a_cancel(created.intent_id))) == "ACCEPTED"
    await pool.execute(
        "update orders set certainty = 'CONFIRMED', standing = 'CLOSED', close_reason = 'FILLED', pending = 'NONE'"
    )
    assert await answer_to(pool, tenant.submission(command)) == "ORDER_TERMINAL"


async def test_a_replace_in_doubt_lets_the_next_one_wait_behind_it(pool: Pool, tenant: Tenant) -> None:
    intent = await a_working_order(pool, tenant)
    await accept(pool, tenant.submission(a_replace(intent)))
    await pool.execute("update orders set certainty = 'UNKNOWN'")
    assert await answer_to(pool, tenant.submission(a_replace(intent, quantity="15"))) == "ACCEPTED"


async def test_a_replace_of_an_unsent_order_waits_and_leaves_it_pending_new(pool: Pool, tenant: Tenant) -> None:
    (created,) = await accept(pool, tenant.submission(a_limit_create()))
    assert await answer_to(pool, tenant.submission(a_replace(created.intent_id))) == "ACCEPTED"
    assert await pending_of(pool, created.intent_id) == "NEW"
    assert await pool.fetchval("select count(*) from action_states where state = 'QUEUED'") == 2


async def test_a_cancel_outranks_a_replace_that_waits_and_never_the_other_way(pool: Pool, tenant: Tenant) -> None:
    intent = await a_working_order(pool, tenant)
    for command, pending in (
        (a_replace(intent), "REPLACE"),
        (a_cancel(intent), "CANCEL"),
        (a_replace(intent), "CANCEL"),
    ):
        assert await answer_to(pool, tenant.submission(command)) == "ACCEPTED"
        assert await pending_of(pool, intent) == pending


async def test_controls_that_changed_stop_a_replace_and_no_cancel(pool: Pool, tenant: Tenant) -> None:
    intent = await a_working_order(pool, tenant)
    for stale in (replace(tenant.account, account_epoch=99), replace(tenant.account, organization_epoch=99)):
        assert await answer_to(pool, replace(tenant.submission(a_replace(intent)), account=stale)) == "STALE_CONTROLS"
    assert await answer_to(pool, replace(tenant.submission(a_cancel(intent)), account=stale)) == "ACCEPTED"


async def test_a_replace_under_a_used_key_is_the_first_one(pool: Pool, tenant: Tenant) -> None:
    intent = await a_working_order(pool, tenant)
    answers = [(await accept(pool, tenant.submission(a_replace(intent), key="k")))[0] for _ in range(3)]
    assert [(a.status, a.seq) for a in answers] == [("ACCEPTED", 2), ("REPLAYED", 2), ("REPLAYED", 2)]


async def test_an_intent_of_another_account_is_not_found(pool: Pool, tenant: Tenant) -> None:
    other = await a_tenant(pool)
    intent = await a_working_order(pool, tenant)
    before = await pool.fetch("select * from orders")
    assert await answer_to(pool, other.submission(a_replace(intent))) == "NOT_FOUND"
    stolen = replace(other.account, id=tenant.account.id)
    assert await answer_to(pool, replace(other.submission(a_replace(intent)), account=stolen)) == "NOT_FOUND"
    assert await pool.fetch("select * from orders") == before


def intruding(intruder: Tenant, owner: Tenant, submission: Submission) -> Submission:
    """The intruder's command, with the account of another organization in it."""
    return replace(submission, account=replace(intruder.account, id=owner.account.id))


async def test_a_stranger_s_row_changes_nothing_for_the_owner_s_in_the_same_set(pool: Pool, tenant: Tenant) -> None:
    intruder = await a_tenant(pool)
    intent = await a_working_order(pool, tenant)
    attack = [
        intruding(intruder, tenant, intruder.submission(a_market_create(), key="same")),
        intruding(intruder, tenant, intruder.submission(a_replace(intent))),
        intruding(intruder, tenant, intruder.submission(a_cancel(intent))),
    ]
    own = [tenant.submission(a_replace(intent)), tenant.submission(a_limit_create(), key="same")]
    answers = await accept(pool, *attack, *own)
    assert [str(answer.status) for answer in answers] == ["NOT_FOUND"] * 3 + ["ACCEPTED"] * 2
    assert [answer.number for answer in answers[3:]] == [2, 3]


@pytest.mark.usefixtures("limits_as_they_are")
async def test_a_stranger_waits_for_no_account_but_its_own(pool: Pool, tenant: Tenant) -> None:
    intruder = await a_tenant(pool)
    foreign = intruding(intruder, tenant, intruder.submission(a_market_create()))
    async with pool.acquire() as holder, holder.transaction():
        lock = "select from account_counters where account_id = $1 for no key update"
        await holder.fetch(lock, tenant.account.id)
        answers = await accept(pool, foreign, intruder.submission())
        assert [str(answer.status) for answer in answers] == ["NOT_FOUND", "ACCEPTED"]
        with pytest.raises(asyncpg.LockNotAvailableError):
            await accept(pool, tenant.submission())


@dataclass(slots=True)
class Known:
    """What is known of an intent whose order is a limit order."""

    owner: Tenant
    filled: Decimal = Decimal(0)
    closed: bool = False
    unknown: bool = False
    cancelled: bool = False


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of the accept step, written a second time."""

    organization_of: dict[AccountId, OrganizationId]
    known: dict[IntentId, Known] = field(default_factory=dict)
    keys: set[tuple[AccountId, str]] = field(default_factory=set)

    def answers(self, submissions: list[Submission]) -> list[str]:
        """What a set is answered with; the account's own rows alone decide about each other."""
        before: set[object] = set()
        answers = []
        for submission in submissions:
            whose = submission.account.organization_id
            names: set[tuple[object, ...]] = {(whose, submission.account.id, submission.intent_id)}
            if submission.idempotency_key is not None:
                names.add((whose, submission.account.id, submission.idempotency_key))
            answers.append(self._answer(submission, [name[-1] for name in names & before]))
            before |= names
        return answers

    def learn(self, submission: Submission, status: str, owner: Tenant) -> None:
        if status in ("ACCEPTED", "CANCEL_PENDING") and submission.idempotency_key is not None:
            self.keys.add((submission.account.id, submission.idempotency_key))
        if status == "ACCEPTED":
            known = self.known.setdefault(submission.intent_id, Known(owner))
            known.cancelled |= isinstance(submission.command, CancelIntent)

    def _answer(self, submission: Submission, taken: list[object]) -> str:
        account, command, key = submission.account, submission.command, submission.idempotency_key
        if submission.principal.organization_id != self.organization_of[account.id]:
            return "NOT_FOUND"
        if key is not None and (account.id, key) in self.keys:
            return "REPLAYED"
        if key in taken:
            return "SAME_KEY_IN_SET"
        if isinstance(command, CreateIntent):
            return "ACCEPTED"
        known = self.known.get(submission.intent_id)
        if known is None or known.owner.account.id != account.id:
            return "NOT_FOUND"
        refusals = {
            "CANCEL_PENDING": isinstance(command, CancelIntent) and known.cancelled,
            "ORDER_TERMINAL": known.closed,
        }
        if isinstance(command, ReplaceIntent):
            refusals |= {
                "ORDER_UNKNOWN": known.unknown,
                "IMMUTABLE_FIELD": command.spec.order_type is not OrderType.LIMIT,
                "QUANTITY_NOT_ABOVE_FILLED": command.spec.quantity <= known.filled,
            }
        refusals["DEFERRED"] = submission.intent_id in taken
        return next((status for status, holds in refusals.items() if holds), "ACCEPTED")


def a_random_submission(chance: random.Random, tenants: list[Tenant], rules: Rules) -> Submission:
    """A command of anybody, about any intent, at times in a stranger's name."""
    intent = chance.choice([*list(rules.known)[-6:], IntentId(new_id())])
    owners = [rules.known[intent].owner] * 9 if intent in rules.known else []
    tenant = chance.choice([*tenants, *owners])
    commands: list[Command] = [
        a_limit_create(),
        a_cancel(intent),
        a_replace(intent, quantity=str(chance.randint(1, 12))),
        a_replace(intent),
        of_kind(intent, chance.choice([OrderType.MARKET, OrderType.LIMIT])),
    ]
    submission = tenant.submission(chance.choice(commands), chance.choice([None, None, f"k{chance.randrange(60)}"]))
    return intruding(tenant, chance.choice(tenants), submission) if chance.random() < 0.15 else submission


async def disturb(pool: Pool, chance: random.Random, rules: Rules) -> None:
    """Let something happen to an order: a fill, an end, a doubt."""
    intent, known = chance.choice(list(rules.known.items())[-6:])
    if known.closed:
        return
    known.filled = Decimal(chance.randint(0, 6))
    known.closed = chance.random() < 0.2
    known.unknown = chance.random() < 0.2 and not known.closed
    await pool.execute(
        "update orders set filled_quantity = $2, standing = $3, close_reason = $4, pending = $5, certainty = $6"
        " where order_id = $1",
        intent,
        known.filled,
        "CLOSED" if known.closed else "NONE",
        "CANCELED" if known.closed else None,
        "NONE" if known.closed else "NEW",
        "UNKNOWN" if known.unknown else "CONFIRMED",
    )


@pytest.mark.parametrize("seed", range(3))
async def test_random_sets_of_everybody_s_commands_are_answered_as_the_rules_say(pool: Pool, seed: int) -> None:
    chance = random.Random(seed)
    tenants = [await a_tenant(pool) for _ in range(3)]
    owners = {tenant.account.id: tenant for tenant in tenants}
    rules = Rules({tenant.account.id: tenant.account.organization_id for tenant in tenants})
    seen: Counter[str] = Counter()
    for _ in range(60):
        submissions = [a_random_submission(chance, tenants, rules) for _ in range(chance.randint(1, 12))]
        expected = rules.answers(submissions)
        answers = [str(answer.status) for answer in await accept(pool, *submissions)]
        assert answers == expected
        seen.update(answers)
        for submission, status in zip(submissions, answers, strict=True):
            rules.learn(submission, status, owners[submission.account.id])
        if rules.known:
            await disturb(pool, chance, rules)
    assert len(seen) == 10, seen
    rows = await pool.fetch("select * from intent_actions order by account_id, action_no")
    assert [row["hash"] for row in rows] == [action_hash(intent_action(row)) for row in rows]
    assert len(rows) == seen["ACCEPTED"]
    gaps = "select count(*) - max(action_no) from intent_actions group by account_id"
    assert {row[0] for row in await pool.fetch(gaps)} == {0}
