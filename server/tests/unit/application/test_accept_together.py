"""Commands that are accepted together: whose company they have, and what they hear of each other."""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from openbell_server.application.intents import group_commit
from openbell_server.application.intents.group_commit import (
    APART_SECONDS,
    BATCH_SLOTS,
    SECOND_SLOT_FROM,
    SET_MAX,
    WAITING_MAX,
    GroupCommit,
)
from openbell_server.application.ports.accept_step import Acceptance, AcceptStatus, Submission
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.principals import Principal, PrincipalKind
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import AccountId, IntentId, OrganizationId
from support.brokers.execution_harness import Clock
from support.brokers.paper_broker import until
from support.builders.tenant import Tenant, a_cancel, a_trading_account, new_id


class Lost(Exception):
    """Nobody can say whether the set was written."""


class Locked(Exception):
    """An account's lock was not free."""


def a_tenant() -> Tenant:
    organization = OrganizationId(new_id())
    account = a_trading_account(AccountId(new_id()), organization)
    principal = Principal(
        kind=PrincipalKind.API_KEY,
        id="key",
        organization_id=organization,
        environment=Environment.PAPER,
        permissions=frozenset(),
    )
    return Tenant(account, principal, "")


@dataclass
class Database:
    """Writes a set when it is let go, and fails on request."""

    clock: Clock = field(default_factory=Clock)
    sets: list[list[Submission]] = field(default_factory=list)
    alone: list[Submission] = field(default_factory=list)
    gates: list[asyncio.Event] = field(default_factory=list)
    fails: Exception | None = None
    poison: Submission | None = None
    locked: AccountId | None = None
    is_behind_for: frozenset[UUID] = frozenset()

    def accepting(self) -> GroupCommit:
        return GroupCommit(
            self.write_set, self.write_alone, (Lost,), (Locked,), self.clock, self.is_behind_for.__contains__
        )

    async def write_set(self, submissions: Sequence[Submission]) -> list[Acceptance]:
        self.sets.append(list(submissions))
        gate = asyncio.Event()
        self.gates.append(gate)
        await gate.wait()
        if self.fails:
            raise self.fails
        if any(each.account.id == self.locked for each in submissions):
            raise Locked
        return [accepted(each) for each in submissions]

    async def write_alone(self, submissions: Sequence[Submission]) -> list[Acceptance]:
        self.alone += submissions
        if self.poison in submissions:
            raise ValueError("poison")
        return [accepted(each) for each in submissions]

    async def let_go(self) -> None:
        """Let everything be written that is asked for."""
        for _ in range(200):
            await settled()
            for gate in self.gates:
                gate.set()

    async def has_written(self, sets: int) -> bool:
        return len(self.sets) == sets

    @property
    def sizes(self) -> list[int]:
        return [len(each) for each in self.sets]


def accepted(submission: Submission) -> Acceptance:
    return Acceptance(
        status=AcceptStatus.ACCEPTED,
        intent_id=submission.intent_id,
        seq=1,
        number=1,
        command_hash=None,
        created_at=datetime(2026, 1, 5, tzinfo=UTC),
    )


async def settled() -> None:
    """Until nothing moves by itself any more."""
    for _ in range(10):
        await asyncio.sleep(0)


def started(calls: Sequence[Awaitable[Acceptance]]) -> "list[asyncio.Future[Acceptance]]":
    return [asyncio.ensure_future(call) for call in calls]


def submissions(count: int) -> list[Submission]:
    tenant = a_tenant()
    return [tenant.submission() for _ in range(count)]


async def test_what_comes_in_one_turn_of_the_loop_goes_together() -> None:
    database = Database()
    accept, asked = database.accepting(), submissions(3)
    answers = started([accept(each) for each in asked])
    await database.let_go()
    assert database.sizes == [3]
    assert [(await answer).intent_id for answer in answers] == [each.intent_id for each in asked]


async def test_what_comes_while_a_set_is_written_goes_with_the_next() -> None:
    database = Database()
    accept = database.accepting()
    first = started([accept(each) for each in submissions(1)])
    await settled()
    later = started([accept(each) for each in submissions(5)])
    await settled()
    assert database.sizes == [1]
    await database.let_go()
    assert database.sizes == [1, 5]
    assert all(answer.done() for answer in [*first, *later])


async def test_a_second_lane_is_used_once_enough_wait() -> None:
    database = Database()
    accept = database.accepting()
    started([accept(each) for each in submissions(1)])
    await settled()
    started([accept(each) for each in submissions(SECOND_SLOT_FROM)])
    await settled()
    assert database.sizes == [1, SECOND_SLOT_FROM]
    # A third is not.
    started([accept(each) for each in submissions(SECOND_SLOT_FROM)])
    await settled()
    assert len(database.sets) == 2
    await database.let_go()


async def test_nobody_waits_for_a_lane_that_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "LATE_SECONDS", 0.001)
    database = Database()
    accept = database.accepting()
    started([accept(each) for each in submissions(1)])
    await settled()
    for lanes in (2, 3, BATCH_SLOTS, BATCH_SLOTS):
        # Found by itself, without anything that comes or ends.
        started([accept(each) for each in submissions(1)])
        database.clock.seconds += 1
        await until(partial(database.has_written, lanes))
    await database.let_go()
    assert database.sizes == [1, 1, 1, 1, 1]


async def test_no_set_is_larger_than_the_largest() -> None:
    database = Database()
    accept = database.accepting()
    answers = started([accept(each) for each in submissions(3 * SET_MAX + 1)])
    await database.let_go()
    assert (max(database.sizes), sum(database.sizes)) == (SET_MAX, 3 * SET_MAX + 1)
    assert all(answer.done() for answer in answers)


@pytest.mark.parametrize("shared", ["intent_id", "idempotency_key"])
async def test_two_commands_for_one_intent_or_under_one_key_go_in_turn(shared: str) -> None:
    database = Database()
    accept, tenant = database.accepting(), a_tenant()
    value: Any = IntentId(new_id()) if shared == "intent_id" else "one key"
    asked = [replace(tenant.submission(), **{shared: value}) for _ in range(3)]
    other = tenant.submission()
    started([accept(each) for each in [*asked, other]])
    await database.let_go()
    assert database.sets == [[asked[0], other], [asked[1]], [asked[2]]]


async def test_the_same_key_of_another_account_is_another_key() -> None:
    database = Database()
    accept = database.accepting()
    started([accept(replace(a_tenant().submission(), idempotency_key="one key")) for _ in range(2)])
    await database.let_go()
    assert database.sizes == [2]


async def test_after_a_set_that_failed_each_command_hears_its_own() -> None:
    database = Database()
    accept, asked = database.accepting(), submissions(3)
    database.fails, database.poison = ValueError("one of the set"), asked[1]
    answers = started([accept(each) for each in asked])
    await database.let_go()
    assert database.alone == asked
    assert (await answers[0]).intent_id == asked[0].intent_id
    assert (await answers[2]).intent_id == asked[2].intent_id
    with pytest.raises(ValueError, match="poison"):
        await answers[1]


async def test_a_set_that_may_have_been_written_is_not_written_again() -> None:
    database = Database()
    accept = database.accepting()
    database.fails = Lost()
    answers = started([accept(each) for each in submissions(3)])
    await database.let_go()
    assert (database.sizes, database.alone) == ([3], [])
    for answer in answers:
        with pytest.raises(Lost):
            await answer


async def test_an_account_whose_lock_was_not_free_goes_alone_for_a_while() -> None:
    database = Database()
    accept, tenant = database.accepting(), a_tenant()
    database.fails = Locked()
    started([accept(tenant.submission())])
    await database.let_go()
    database.fails = None
    asked = [tenant.submission(), a_tenant().submission()]
    started([accept(each) for each in asked])
    await database.let_go()
    assert database.alone[1:] == [asked[0]]
    assert database.sets[1:] == [[asked[1]]]
    database.clock.seconds += APART_SECONDS
    started([accept(tenant.submission())])
    await database.let_go()
    assert database.sizes == [1, 1, 1]


async def test_of_several_accounts_only_the_one_whose_lock_was_not_free_is_accepted_alone() -> None:
    database = Database()
    accept, tenant, other = database.accepting(), a_tenant(), a_tenant()
    database.locked = tenant.account.id
    asked = [each.submission() for each in (tenant, other, other)]
    answers = started([accept(each) for each in asked])
    await database.let_go()
    assert database.sets == [asked, asked[:1], asked[1:]]
    assert database.alone == asked[:1]
    assert all(answer.done() for answer in answers)
    started([accept(other.submission())])
    await database.let_go()
    assert len(database.alone) == 1


async def test_while_executors_are_behind_for_an_organization_all_of_it_but_cancels_is_refused() -> None:
    tenant, other = a_tenant(), a_tenant()
    database = Database(is_behind_for=frozenset({tenant.account.organization_id}))
    accept = database.accepting()
    with pytest.raises(Problem) as refused:
        await accept(tenant.submission())
    assert refused.value.code == "overloaded"
    answers = started([accept(tenant.submission(a_cancel(IntentId(new_id())))), accept(other.submission())])
    await database.let_go()
    assert all(answer.done() for answer in answers)


async def test_what_finds_no_room_is_refused_at_once_and_cancels_go_first() -> None:
    database = Database()
    accept, tenant = database.accepting(), a_tenant()
    full = started([accept(each) for each in submissions(2 * SET_MAX)])
    await settled()
    waiting = started([accept(each) for each in submissions(WAITING_MAX)])
    await settled()
    with pytest.raises(Problem) as refused:
        await accept(tenant.submission())
    assert refused.value.code == "overloaded"
    organization_id = tenant.account.organization_id
    assert accept.is_crowded(tenant.account.id)
    with pytest.raises(Problem):
        accept.require_room(organization_id, cancels=False)
    accept.require_room(organization_id, cancels=True)
    cancel = tenant.submission(a_cancel(IntentId(new_id())))
    canceled = started([accept(cancel)])
    await database.let_go()
    assert database.sets[2][0] is cancel
    assert all(answer.done() for answer in [*full, *waiting, *canceled])
    accept.require_room(organization_id, cancels=False)


async def test_one_who_leaves_takes_nothing_from_the_others() -> None:
    database = Database()
    accept = database.accepting()
    leaving, staying = started([accept(each) for each in submissions(2)])
    await settled()
    leaving.cancel()
    await database.let_go()
    assert (await staying).status is AcceptStatus.ACCEPTED
