"""A promise of heartbeats that is missed halts its scope once, for good, and never loosens what somebody set."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from openbell_server.adapters.postgres.connection import Pool, Role, transaction
from openbell_server.adapters.postgres.controls.control_rules import PostgresRuleStore
from openbell_server.adapters.postgres.controls.heartbeats import ExecutorHeartbeatStore, PostgresHeartbeatStore
from openbell_server.adapters.postgres.execution.sweeps import PostgresSweepStore
from openbell_server.application.controls.expire_heartbeats import ExpireHeartbeats
from openbell_server.application.execution.sweeps import Sweep
from openbell_server.domain.access.principals import Principal, PrincipalKind
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.heartbeats import SCOPES, Heartbeat, HeartbeatStatus, HeartbeatTerms
from openbell_server.domain.controls.rules import SWITCH, Override, RuleTerms, StoredRule
from openbell_server.domain.errors import Problem
from openbell_server.domain.events.account_events import EventKind
from support.brokers.scripted_broker import Harness
from support.builders.tenant import a_key, a_limit_create, a_tenant
from support.tenancy.halts import ALL_SLOTS, Switchboard, switch_terms

TERMS = HeartbeatTerms(timeout_seconds=30, cancel_working=True)
SOFT = HeartbeatTerms(timeout_seconds=30, cancel_working=False)
STORES = [PostgresHeartbeatStore, ExecutorHeartbeatStore]


@dataclass(frozen=True, slots=True)
class Promises:
    """Promises of one tenant, and the switches of the same scopes."""

    board: Switchboard
    pool: Pool

    @property
    def store(self) -> PostgresHeartbeatStore:
        return PostgresHeartbeatStore(self.pool)

    @property
    def key(self) -> Principal:
        return self.board.harness.tenant.principal

    @property
    def admin(self) -> Principal:
        return replace(self.key, kind=PrincipalKind.USER, id="user_1", environment=None, permissions=frozenset())

    async def beat(
        self, scope: Scope = Scope.KEY, terms: HeartbeatTerms = TERMS, who: Principal | None = None
    ) -> Heartbeat:
        return await self.store.beat(self.board.address(scope), terms, who or self.key)

    async def pass_time(self, seconds: float = 31) -> None:
        """As if the last heartbeats had come so much earlier."""
        back = timedelta(seconds=seconds)
        await self.pool.execute(
            "update heartbeats set expires_at = expires_at - $1::interval, last_beat_at = last_beat_at - $1::interval",
            back,
        )

    async def sweep(self, kind: type[PostgresHeartbeatStore] = ExecutorHeartbeatStore) -> None:
        await ExpireHeartbeats(kind(self.pool), self.board.harness.hints).sweep()

    async def switch(self, scope: Scope = Scope.KEY) -> StoredRule | None:
        return await PostgresRuleStore(self.pool).find_rule(self.board.address(scope), SWITCH)

    async def in_force(self, scope: Scope = Scope.KEY) -> Mapping[str, Any] | None:
        switch = await self.switch(scope)
        terms = None if switch is None else switch.in_force(datetime.now(UTC))
        return None if terms is None else terms.parameters

    async def row(self) -> asyncpg.Record:
        row = await self.pool.fetchrow("select * from heartbeats")
        assert row is not None
        return row


@pytest.fixture
async def promises(pool: Pool) -> Promises:
    return Promises(Switchboard(Harness(pool, await a_tenant(pool))), pool)


HALTED, CANCELLING = ({"status": "HALTED", "cancel_working": each} for each in (False, True))


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("scope", SCOPES)
async def test_a_missed_heartbeat_halts_its_scope_as_the_system_and_names_the_reason(
    promises: Promises, scope: Scope, kind: type[PostgresHeartbeatStore]
) -> None:
    armed = await promises.beat(scope)
    assert armed.expires_at - armed.last_beat_at == timedelta(seconds=30)
    await promises.sweep(kind)
    assert await promises.switch(scope) is None
    await promises.pass_time()
    await promises.sweep(kind)
    switch = await promises.switch(scope)
    assert switch is not None
    assert switch.terms == RuleTerms(parameters=CANCELLING)
    assert (switch.principal, switch.version, switch.override) == (("SYSTEM", "heartbeat"), 1, None)
    assert str(switch.reason).startswith("HEARTBEAT_LOST: no heartbeat for 30 s; the last came at 2")
    assert (await promises.row())["status"] == "EXPIRED"
    rows = await promises.pool.fetch(
        "select operation, principal_type, principal_id from audit_log where operation <> 'heartbeats arm'"
    )
    assert [tuple(row) for row in rows] == [
        ("controls rule", "SYSTEM", "heartbeat"),
        ("heartbeats expire", "SYSTEM", "heartbeat"),
    ]


@pytest.mark.parametrize("scope", SCOPES)
async def test_the_halt_of_a_missed_heartbeat_cancels_working_orders_as_promised(
    promises: Promises, scope: Scope
) -> None:
    intent, _ = await promises.board.harness.working()
    await promises.beat(scope)
    await promises.pass_time()
    await promises.sweep()
    await promises.board.sweep()
    (cancel,) = await promises.board.cancels()
    assert (cancel["intent_id"], cancel["principal_id"]) == (intent, "halt")


@pytest.mark.parametrize("scope", SCOPES)
async def test_no_door_opens_after_a_missed_heartbeat_was_noticed(promises: Promises, scope: Scope) -> None:
    await promises.board.harness.accept(a_limit_create())
    await promises.beat(scope)
    await promises.pass_time()
    await promises.sweep()
    await promises.board.harness.work()
    (state,) = await promises.pool.fetch("select state, reason_code from action_states")
    assert tuple(state) == ("SKIPPED", "HALTED")
    assert promises.board.harness.broker.writes == []


async def test_a_heartbeat_in_time_renews_and_halts_nothing(promises: Promises) -> None:
    await promises.beat()
    for _ in range(3):
        await promises.pass_time(29)
        renewed = await promises.beat()
        assert renewed.expires_at - renewed.last_beat_at == timedelta(seconds=30)
        await promises.sweep()
    assert await promises.switch() is None
    # Only a change of the terms is a change for the audit log.
    assert await promises.pool.fetchval("select count(*) from audit_log where operation = 'heartbeats arm'") == 1


@pytest.mark.parametrize("scope", SCOPES)
async def test_a_late_heartbeat_halts_at_once_and_is_refused_until_the_halt_is_lifted(
    promises: Promises, scope: Scope
) -> None:
    await promises.beat(scope)
    await promises.pass_time()
    for call in (promises.beat(scope), promises.beat(scope), promises.beat(scope, SOFT)):
        with pytest.raises(Problem, match=r"so the (key|account) is halted") as refused:
            await call
        assert refused.value.code == "heartbeat_missed"
    assert await promises.in_force(scope) == CANCELLING
    await promises.sweep()
    switch = await promises.switch(scope)
    assert switch is not None
    assert switch.version == 1
    await promises.board.resume(scope)
    await promises.sweep()
    assert (await promises.beat(scope)).status is HeartbeatStatus.ARMED


async def test_who_disarms_too_late_is_halted_too(promises: Promises) -> None:
    await promises.beat()
    await promises.pass_time()
    with pytest.raises(Problem) as refused:
        await promises.store.disarm(promises.board.address(Scope.KEY), promises.key)
    assert refused.value.code == "heartbeat_missed"
    assert await promises.in_force() == CANCELLING


async def test_a_promise_that_was_disarmed_halts_nothing(promises: Promises) -> None:
    address = promises.board.address(Scope.KEY)
    assert not await promises.store.disarm(address, promises.key)
    await promises.beat()
    assert await promises.store.disarm(address, promises.key)
    await promises.pass_time()
    await promises.sweep()
    assert await promises.switch() is None


@pytest.mark.parametrize(
    ("before", "terms", "after", "version"),
    [
        (switch_terms("ACTIVE"), TERMS, CANCELLING, 2),
        (switch_terms("REDUCE_ONLY"), SOFT, HALTED, 2),
        # What was to be cancelled is still cancelled.
        (switch_terms("REDUCE_ONLY", cancel_working=True), SOFT, CANCELLING, 2),
        (switch_terms("HALTED"), TERMS, CANCELLING, 2),
        # These stop as much already.
        (switch_terms("HALTED"), SOFT, HALTED, 1),
        (switch_terms("HALTED", cancel_working=True), SOFT, CANCELLING, 1),
        (switch_terms("HALTED", cancel_working=True), TERMS, CANCELLING, 1),
    ],
)
async def test_a_switch_that_somebody_set_becomes_no_looser_and_an_equal_one_stays_as_it_is(
    promises: Promises, before: RuleTerms, terms: HeartbeatTerms, after: Mapping[str, Any], version: int
) -> None:
    was = await promises.board.set(promises.board.address(Scope.KEY), before)
    await promises.beat(terms=terms)
    await promises.pass_time()
    await promises.sweep()
    switch = await promises.switch()
    assert switch is not None
    assert (await promises.in_force(), switch.version) == (after, version)
    assert (await promises.row())["status"] == "EXPIRED"
    if version == 1:
        assert switch == was


@pytest.mark.parametrize("state", ["ACTIVE", "REDUCE_ONLY", "HALTED"])
@pytest.mark.parametrize("permanent", ["ACTIVE", "HALTED", None])
async def test_an_override_that_expires_does_not_resume_after_a_missed_heartbeat(
    promises: Promises, state: str, permanent: str | None
) -> None:
    address = promises.board.address(Scope.KEY)
    if permanent is not None:
        await promises.board.set(address, switch_terms(permanent))
    override = Override(terms=switch_terms(state), expires_at=datetime.now(UTC) + timedelta(hours=1))
    await promises.board.set(address, override)
    await promises.beat()
    await promises.pass_time()
    await promises.sweep()
    switch = await promises.switch()
    assert switch is not None
    assert (switch.terms, switch.override) == (RuleTerms(parameters=CANCELLING), None)


async def test_many_processes_that_sweep_at_once_change_the_switch_once(promises: Promises) -> None:
    await promises.beat(Scope.ACCOUNT)
    await promises.pass_time()
    await asyncio.gather(*(promises.sweep(STORES[each % 2]) for each in range(6)))
    switch = await promises.switch(Scope.ACCOUNT)
    assert switch is not None
    assert switch.version == 1
    for table in ("control_changes", f"account_events where kind = {EventKind.CONTROL_CHANGED:d}"):
        assert await promises.pool.fetchval(f"select count(*) from {table}") == 1


async def test_a_sweep_does_not_expire_what_is_renewed_at_the_same_time(promises: Promises) -> None:
    await promises.beat()
    await promises.pass_time(29.9)
    address = promises.board.address(Scope.KEY)
    async with transaction(promises.pool, Role.TENANT, address.organization_id) as connection:
        await connection.execute("update heartbeats set expires_at = expires_at + interval '30 seconds'")
        assert not await ExecutorHeartbeatStore(promises.pool).expire(address)
    await promises.sweep()
    assert await promises.switch() is None


async def test_the_sweep_that_finds_work_finds_missed_heartbeats(promises: Promises) -> None:
    async def found() -> frozenset[Sweep]:
        return await PostgresSweepStore(promises.pool).sweeps_with_work_across_organizations(ALL_SLOTS)

    await promises.beat()
    assert await found() == frozenset()
    await promises.pass_time()
    assert await found() == {Sweep.HEARTBEATS}
    await promises.sweep()
    assert Sweep.HEARTBEATS not in await found()


def refused_to_loosen(error: pytest.ExceptionInfo[Problem]) -> bool:
    return error.value.code == "permission_denied" and "control:loosen" in error.value.detail


async def test_a_key_changes_and_disarms_what_it_promised_itself(promises: Promises) -> None:
    key = replace(promises.key, permissions=frozenset({"intent:edit"}))
    await promises.beat(who=key)
    longer = await promises.beat(terms=HeartbeatTerms(timeout_seconds=300, cancel_working=False), who=key)
    assert (longer.terms.timeout_seconds, longer.required) == (300, False)
    assert await promises.store.disarm(promises.board.address(Scope.KEY), key)


@pytest.mark.parametrize("is_key_first", [True, False])
async def test_a_key_renews_what_an_admin_requires_and_neither_loosens_nor_disarms_it(
    promises: Promises, *, is_key_first: bool
) -> None:
    key, address = replace(promises.key, permissions=frozenset({"intent:edit"})), promises.board.address(Scope.KEY)
    if is_key_first:
        assert not (await promises.beat(who=key)).required
    assert (await promises.beat(who=promises.admin)).required
    assert (await promises.beat(who=key)).required
    shorter = HeartbeatTerms(timeout_seconds=20, cancel_working=True)
    assert (await promises.beat(terms=shorter, who=key)).required
    # What the key made stricter itself stays, too.
    for looser in (TERMS, HeartbeatTerms(timeout_seconds=20, cancel_working=False)):
        with pytest.raises(Problem) as error:
            await promises.beat(terms=looser, who=key)
        assert refused_to_loosen(error)
    with pytest.raises(Problem) as error:
        await promises.store.disarm(address, key)
    assert refused_to_loosen(error)
    # After a missed one, too.
    await promises.pass_time()
    await promises.sweep()
    await promises.board.resume(Scope.KEY)
    for call in (promises.beat(terms=TERMS, who=key), promises.store.disarm(address, key)):
        with pytest.raises(Problem) as error:
            await call
        assert refused_to_loosen(error)
    assert (await promises.beat(terms=shorter, who=key)).required
    assert await promises.store.disarm(address, promises.admin)


async def test_a_key_does_not_disarm_the_promise_of_an_account(promises: Promises) -> None:
    other, _ = await a_key(promises.pool, promises.key.organization_id, permissions=frozenset({"control:edit:paper"}))
    assert (await promises.beat(Scope.ACCOUNT, who=other)).required
    with pytest.raises(Problem) as error:
        await promises.store.disarm(promises.board.address(Scope.ACCOUNT), other)
    assert refused_to_loosen(error)


async def test_two_callers_that_arm_at_once_leave_what_the_admin_requires(promises: Promises) -> None:
    key = replace(promises.key, permissions=frozenset({"intent:edit"}))
    loose = HeartbeatTerms(timeout_seconds=300, cancel_working=False)
    for _ in range(20):
        await promises.pool.execute("delete from heartbeats")
        await asyncio.gather(
            *(promises.beat(terms=loose, who=key) for _ in range(3)),
            promises.beat(who=promises.admin),
            return_exceptions=True,
        )
        row = await promises.row()
        if row["required"]:
            assert (row["timeout_seconds"], row["cancel_working"]) == (30, True)
        else:
            assert row["principal_type"] == "API_KEY"


async def test_an_executor_writes_no_other_rule_than_such_a_halt(promises: Promises) -> None:
    """An executor that was taken over neither resumes nor sets limits."""
    await promises.board.halt(Scope.ACCOUNT)
    address = promises.board.address(Scope.ACCOUNT)
    update = "update control_rules set principal_type = 'SYSTEM', principal_id = 'heartbeat', terms = $1"
    for statement, terms in (
        (update, '{"mode": "HARD", "parameters": {"status": "ACTIVE"}}'),
        (update + ", code = 'QTY_MAX'", '{"mode": "HARD", "parameters": {"status": "HALTED"}}'),
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with transaction(promises.pool, Role.EXECUTION, address.organization_id) as connection:
                await connection.execute(statement, terms)
