"""One statement finds which sweeps have work: exactly those whose own statements find something."""

import asyncio

import pytest

from openbell_server.adapters.postgres.connection import DatabaseClock, Pool
from openbell_server.adapters.postgres.execution.execution import PostgresExecutionStore
from openbell_server.adapters.postgres.execution.sign_ins import PostgresSessionStore
from openbell_server.adapters.postgres.execution.sweeps import PostgresSweepStore
from openbell_server.application.execution.account_dispatcher import SWEEP_SECONDS
from openbell_server.application.execution.sweeps import Sweep
from openbell_server.processes.executor import _sweeps_due
from support.brokers.scripted_broker import Harness
from support.builders.tenant import a_limit_create, a_tenant
from support.tenancy.halts import ALL_SLOTS, Switchboard


@pytest.fixture
async def board(pool: Pool) -> Switchboard:
    return Switchboard(Harness(pool, await a_tenant(pool)))


async def found(pool: Pool) -> set[Sweep]:
    return {*await PostgresSweepStore(pool).sweeps_with_work_across_organizations(ALL_SLOTS)}


async def test_without_work_no_sweep_is_found(board: Switchboard, pool: Pool) -> None:
    await board.harness.working()
    assert await found(pool) == set()


async def test_a_halt_is_found_until_it_was_enacted(board: Switchboard, pool: Pool) -> None:
    await board.halt(cancel_working=False)
    assert await found(pool) == {Sweep.HALTS}
    await board.sweep()
    await pool.execute("update account_halts set compared_at = now()")
    assert await found(pool) == set()


async def test_a_queued_action_is_found_once_it_has_waited(board: Switchboard, pool: Pool) -> None:
    await board.harness.accept(a_limit_create())
    await pool.execute("update action_states set queued_at = now() - interval '1 minute'")
    store = PostgresExecutionStore(pool)
    assert len(await store.accounts_waiting_across_organizations(ALL_SLOTS, SWEEP_SECONDS)) == 1
    assert await found(pool) == {Sweep.WORK}
    assert await PostgresSweepStore(pool).sweeps_with_work_across_organizations(frozenset()) == frozenset()


async def test_if_the_database_does_not_answer_every_sweep_runs(pool: Pool) -> None:
    class Fails(PostgresSweepStore):
        async def sweeps_with_work_across_organizations(self, slots: object) -> frozenset[Sweep]:
            raise OSError

    assert await _sweeps_due(Fails(pool), ALL_SLOTS) == {*Sweep}


async def test_brokers_that_are_looked_up_together_share_one_statement(board: Switchboard, pool: Pool) -> None:
    store = PostgresSessionStore(pool, DatabaseClock(pool))
    broker = board.harness.account.broker
    looks = [store.has_accounts_across_organizations(name) for name in (broker, "nobody", broker)]
    assert await asyncio.gather(*looks) == [True, False, True]
