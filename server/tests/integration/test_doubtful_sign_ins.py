"""Nothing is sent while nobody knows for sure what an account is signed in with, and no account holds up another."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.application.execution.broker_sign_ins import RETRY_SECONDS_MAX
from openbell_server.application.execution.slot_leases import SlotLeases
from openbell_server.domain.access.credentials import SignedIn
from openbell_server.domain.identifiers import AccountId
from support.brokers.paper_broker import until
from support.brokers.scripted_broker import Harness, ScriptedBroker, until_so
from support.brokers.sign_ins import Executor, a_harness, a_vault, an_executor, hangs, remove, says


@pytest.fixture
async def executor(pool: Pool, tmp_path: Path) -> AsyncIterator[Executor]:
    executor = await an_executor(pool, a_vault(tmp_path))
    yield executor
    await executor.sessions.close()


@pytest.fixture
async def harness(executor: Executor) -> Harness:
    return await a_harness(executor)


def _somebody_waits(pool: Pool) -> Callable[[], Awaitable[bool]]:
    async def waits() -> bool:
        waiting = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
        return await pool.fetchval(waiting) is not None

    return waits


async def test_a_key_that_is_for_another_account_at_the_broker_sends_nothing_before_that_is_on_record(
    executor: Executor, harness: Harness
) -> None:
    await executor.vault.put(harness.tenant, harness.pool, "first")
    await harness.pool.execute("update accounts set external_account_id = 'ours'")
    says(executor.broker, SignedIn("theirs"))
    await harness.accept()
    async with harness.pool.acquire() as connection, connection.transaction():
        await connection.fetch("select 1 from account_counters for no key update")
        # It has the account's lock before whoever writes down what the broker says.
        door = asyncio.ensure_future(harness.work())
        await until(_somebody_waits(harness.pool), 60)
        executor.sessions.notify(harness.account)
        await until_so(lambda: harness.account.account_id in executor.broker.keys)
    await door
    await until_so(lambda: executor.heard != [])
    await harness.work()
    assert executor.broker.writes == []


async def test_a_key_that_was_removed_while_the_broker_was_asked_sends_nothing(
    executor: Executor, harness: Harness
) -> None:
    gate = hangs(executor.broker, "first")
    await executor.vault.put(harness.tenant, harness.pool, "first")
    executor.sessions.notify(harness.account)
    await until_so(lambda: executor.broker.sign_ins != [])
    await remove(harness.tenant, harness.pool)
    await harness.accept()
    # The broker may let it in at any moment from now on.
    assert await harness.work() == []
    gate.set()
    await until_so(lambda: len(executor.heard) == 2)
    await harness.work()
    assert [write.key_id for write in executor.broker.writes] == [None]


async def test_a_broker_that_does_not_let_go_of_one_account_holds_up_no_other(
    executor: Executor, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = await a_harness(executor)
    await executor.vault.put(lost.tenant, harness.pool, "lost")
    await executor.refresh(lost.account)
    ours = executor.slots.held() - {lost.account.slot}
    monkeypatch.setattr(SlotLeases, "held", lambda _: ours)

    async def is_away(_: ScriptedBroker, account_id: AccountId) -> None:
        raise ConnectionError(account_id)

    monkeypatch.setattr(ScriptedBroker, "sign_out", is_away)
    other = await a_harness(executor)
    while other.account.slot not in ours:
        other = await a_harness(executor)
    await executor.vault.put(other.tenant, harness.pool, "other")
    await executor.sessions.sweep()
    await until_so(lambda: (other.account.account_id, "other") in executor.broker.sign_ins)
    await until_so(lambda: (lost.account.account_id, "ConnectionError") in executor.sessions.failures)
    monkeypatch.undo()
    monkeypatch.setattr(SlotLeases, "held", lambda _: ours)
    executor.clock.seconds += RETRY_SECONDS_MAX
    await executor.sessions.sweep()
    await until_so(lambda: {*executor.broker.keys} == {other.account.account_id})


async def test_who_cannot_open_the_vault_says_which_accounts_are_not_signed_in(
    executor: Executor, harness: Harness
) -> None:
    await executor.vault.put(harness.tenant, harness.pool, "first")
    executor.sessions.opener = None
    await executor.sessions.begin("paper", executor.slots.held())
    await until_so(lambda: executor.heard != [])
    assert executor.sessions.signing_in() == {harness.account.account_id}
    executor.sessions.opener = executor.vault.opener
    await executor.refresh(harness.account)
    assert executor.sessions.signing_in() == frozenset()
