"""Credentials change while executors run: each is signed in anew, and nothing is sent with one that was replaced."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.recovery import PostgresRecoveryStore
from openbell_server.application.execution.broker_sign_ins import RETRY_SECONDS_MAX
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.credentials import CredentialStatus, SignedIn, SignInRefused
from openbell_server.domain.orders.broker_reports import ReportStatus
from support.brokers.scripted_broker import Harness, ScriptedBroker, until_so
from support.brokers.sign_ins import Executor, Vault, a_harness, a_vault, an_executor, hangs, remove, says, standing_of
from support.builders.tenant import a_cancel, a_report, a_tenant

REFUSED = SignInRefused("E1", "never heard of it")
EXPIRED = SignInRefused("E2", "too old", expired=True)


@pytest.fixture(scope="session")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Vault:
    return a_vault(Path(tmp_path_factory.mktemp("vault")))


@pytest.fixture
async def executor(pool: Pool, vault: Vault) -> AsyncIterator[Executor]:
    executor = await an_executor(pool, vault)
    yield executor
    await executor.sessions.close()


@pytest.fixture
async def harness(executor: Executor) -> Harness:
    return await a_harness(executor)


async def in_the_same_slot(executor: Executor, harness: Harness) -> Harness:
    other = await a_harness(executor)
    await executor.pool.execute(
        "update accounts set slot = $1 where account_id = $2", harness.account.slot, other.account.account_id
    )
    account = other.tenant.account
    object.__setattr__(account, "slot", harness.account.slot)
    return other


async def told(pool: Pool) -> list[tuple[str, ...]]:
    """What is on record of the brokers' answers: events, audited operations."""
    events = [json.loads(row["body"]) for row in await pool.fetch("select body from account_events where kind = 3")]
    audited = await pool.fetch("select operation from audit_log where principal_type = 'SYSTEM'")
    # Until it is answered a credential is unverified.
    answered = [body["credential_status"] for body in events if body["changed"] != ["credential", "credential_status"]]
    return [*(("event", status) for status in answered), *(("audit", row["operation"]) for row in audited)]


async def test_a_new_credential_is_signed_in_and_its_answer_is_on_record(executor: Executor, harness: Harness) -> None:
    await executor.vault.put(harness.tenant, harness.pool, "first")
    await executor.refresh(harness.account)
    assert executor.broker.sign_ins == [(harness.account.account_id, "first")]
    standing = await standing_of(harness.pool, harness.account.account_id)
    assert (standing["status"], standing["answered"], standing["verified"]) == ("VALID", True, True)
    assert await told(harness.pool) == [
        ("event", "VALID"),
        ("audit", "credentials answer"),
    ]
    queued = await harness.pool.fetch("select event_type from account_outbox order by outbox_id")
    assert [row["event_type"] for row in queued] == ["credential.created", "credential.updated"]
    await harness.accept()
    await harness.work()
    assert [write.key_id for write in executor.broker.writes] == ["first"]


@pytest.mark.parametrize(("answer", "status"), [(REFUSED, "INVALID"), (EXPIRED, "EXPIRED")])
async def test_a_refused_credential_lets_nothing_new_pass_and_a_cancel_waits(
    executor: Executor, harness: Harness, answer: SignInRefused, status: str
) -> None:
    await executor.vault.put(harness.tenant, harness.pool, "first")
    await executor.refresh(harness.account)
    intent, _ = await harness.working()
    await harness.accept()
    await harness.accept(a_cancel(intent))
    says(executor.broker, answer)
    await executor.vault.put(harness.tenant, harness.pool, "second")
    await executor.refresh(harness.account)
    assert (await standing_of(harness.pool, harness.account.account_id))["status"] == status
    assert await harness.work() == []
    assert await harness.states() == [
        ("CREATE", "ACKED", None),
        ("CREATE", "SKIPPED", "ACCOUNT_NOT_READY"),
        ("CANCEL", "QUEUED", None),
    ]
    says(executor.broker, SignedIn())
    await executor.vault.put(harness.tenant, harness.pool, "third")
    await executor.refresh(harness.account)
    await harness.work()
    assert (await harness.states())[2] == ("CANCEL", "ACKED", None)
    assert [write.key_id for write in executor.broker.writes] == ["first", "third"]


async def test_no_door_opens_while_signed_in_with_another_version(executor: Executor, harness: Harness) -> None:
    await executor.vault.put(harness.tenant, harness.pool, "first")
    await executor.refresh(harness.account)
    gate = hangs(executor.broker, "second")
    await executor.vault.put(harness.tenant, harness.pool, "second")
    await harness.accept()
    # Nobody said that it changed: the door finds out.
    assert await harness.work() == []
    assert await harness.work() == []
    await until_so(lambda: len(executor.broker.sign_ins) == 2)
    gate.set()
    await until_so(lambda: len(executor.heard) == 2)
    await harness.work()
    assert [write.key_id for write in executor.broker.writes] == ["second"]
    assert len(executor.broker.sign_ins) == 2


async def test_what_a_removed_credential_opened_is_closed_before_a_door_opens(
    executor: Executor, harness: Harness
) -> None:
    await executor.vault.put(harness.tenant, harness.pool, "first")
    await executor.refresh(harness.account)
    await remove(harness.tenant, harness.pool)
    await harness.accept()
    assert await harness.work() == []
    await until_so(lambda: len(executor.heard) == 2)
    await harness.work()
    assert [write.key_id for write in executor.broker.writes] == [None]


async def test_nothing_new_passes_without_a_credential_that_the_broker_requires(
    executor: Executor, harness: Harness
) -> None:
    await executor.vault.put(harness.tenant, harness.pool, "first")
    await executor.refresh(harness.account)
    await remove(harness.tenant, harness.pool, CredentialStatus.MISSING)
    await harness.accept()
    assert await harness.work() == []
    assert await harness.states() == [("CREATE", "SKIPPED", "ACCOUNT_NOT_READY")]


async def test_an_answer_for_a_version_that_was_replaced_changes_nothing(executor: Executor, harness: Harness) -> None:
    asked = asyncio.Event()
    gate = asyncio.Event()

    async def refuses_the_first_late(key_id: str) -> SignedIn | SignInRefused:
        if key_id != "first":
            return SignedIn()
        asked.set()
        await gate.wait()
        return REFUSED

    executor.broker.admit = refuses_the_first_late
    await executor.vault.put(harness.tenant, harness.pool, "first")
    executor.sessions.notify(harness.account)
    await asked.wait()
    await executor.vault.put(harness.tenant, harness.pool, "second")
    gate.set()
    await until_so(lambda: len(executor.heard) == 2)
    assert (await standing_of(harness.pool, harness.account.account_id))["status"] == "VALID"
    assert [fact for fact in await told(harness.pool) if fact[0] == "event"] == [("event", "VALID")]


async def test_a_broker_out_of_reach_says_nothing_and_is_asked_again_ever_more_slowly(
    executor: Executor, harness: Harness
) -> None:
    async def is_away(key_id: str) -> SignedIn | SignInRefused:
        raise ConnectionError(key_id)

    executor.broker.admit = is_away
    await executor.vault.put(harness.tenant, harness.pool, "first")
    await executor.refresh(harness.account)
    assert (await standing_of(harness.pool, harness.account.account_id))["status"] == "UNVERIFIED"
    assert executor.sessions.failures == [(harness.account.account_id, "ConnectionError")]
    waits = []
    for tries in range(2, 10):
        waited = 0.0
        while len(executor.broker.sign_ins) < tries:
            await executor.sessions.sweep()
            await until_so(lambda: not executor.sessions._running)
            waited += 0.25
            executor.clock.seconds += 0.25
            executor.slots._valid_until = executor.clock.seconds + 1
        waits.append(waited)
    assert waits == sorted(waits)
    assert RETRY_SECONDS_MAX <= waits[-1] <= RETRY_SECONDS_MAX + 1
    # A change is tried at once, however long the last one was waited for.
    says(executor.broker, SignedIn())
    await executor.refresh(harness.account)
    assert (await standing_of(harness.pool, harness.account.account_id))["status"] == "VALID"


async def test_the_account_at_the_broker_is_taken_over_once_and_another_is_refused(
    executor: Executor, harness: Harness
) -> None:
    runs_out = datetime(2099, 1, 1, tzinfo=UTC)
    says(executor.broker, SignedIn("DU77", runs_out))
    await executor.vault.put(harness.tenant, harness.pool, "first")
    await executor.refresh(harness.account)
    standing = await standing_of(harness.pool, harness.account.account_id)
    assert (standing["status"], standing["external_account_id"], standing["expires_at"]) == ("VALID", "DU77", runs_out)
    says(executor.broker, SignedIn("DU78"))
    await executor.vault.put(harness.tenant, harness.pool, "second")
    await executor.refresh(harness.account)
    standing = await standing_of(harness.pool, harness.account.account_id)
    assert (standing["status"], standing["external_account_id"]) == ("INVALID", "DU77")
    assert standing["refusal_code"] == "EXTERNAL_ACCOUNT_MISMATCH"
    assert executor.broker.keys == {}


async def test_a_time_that_ran_out_by_our_record_is_past_whatever_the_broker_says(
    executor: Executor, harness: Harness
) -> None:
    await executor.vault.put(harness.tenant, harness.pool, "first")
    await harness.pool.execute("update credentials set expires_at = clock_timestamp()")
    await executor.refresh(harness.account)
    assert (await standing_of(harness.pool, harness.account.account_id))["status"] == "EXPIRED"


async def test_a_question_that_no_message_announced_is_found(executor: Executor, harness: Harness) -> None:
    await executor.vault.put(harness.tenant, harness.pool, "first")
    await executor.sessions.sweep()
    await until_so(lambda: bool(executor.heard))
    assert (await standing_of(harness.pool, harness.account.account_id))["status"] == "VALID"
    await executor.sessions.sweep()
    assert len(executor.broker.sign_ins) == 1


async def test_to_verify_asks_the_broker_again_and_changes_the_account_only_if_it_says_otherwise(
    executor: Executor, harness: Harness
) -> None:
    await executor.vault.put(harness.tenant, harness.pool, "first")
    await executor.refresh(harness.account)
    before = await standing_of(harness.pool, harness.account.account_id)
    for answer, version in ((SignedIn(), before["version"]), (REFUSED, before["version"] + 1)):  # type: ignore[operator]
        says(executor.broker, answer)
        await harness.pool.execute("update credentials set asked_at = clock_timestamp()")
        await executor.refresh(harness.account)
        standing = await standing_of(harness.pool, harness.account.account_id)
        assert (standing["answered"], standing["version"]) == (True, version)
    assert [fact for fact in await told(harness.pool) if fact[0] == "event"] == [
        ("event", "VALID"),
        ("event", "INVALID"),
    ]


async def test_who_takes_a_slot_over_signs_its_accounts_in_and_writes_nothing_new(
    executor: Executor, harness: Harness, vault: Vault
) -> None:
    await executor.vault.put(harness.tenant, harness.pool, "first")
    await executor.refresh(harness.account)
    _, order_id = await harness.working()
    before = await told(harness.pool)
    await executor.slots.release()
    heir = await an_executor(harness.pool, vault, ScriptedBroker(requires_key=True))
    heir.broker.book[order_id] = a_report(ReportStatus.WORKING, client_order_id=order_id)
    taken = Harness(
        harness.pool,
        harness.tenant,
        heir.broker,
        clock=heir.clock,
        hints=heir.hints,
        fence=heir.sessions,
        sign_ins=heir.sessions,
    )
    async with taken.following(heir.slots) as follow:
        await until_so(lambda: follow.ready(taken.account))
    assert heir.broker.keys == {harness.account.account_id: "first"}
    assert {account_id for account_id, _ in heir.broker.listed} == {harness.account.account_id}
    assert await told(harness.pool) == before
    await heir.sessions.close()


async def test_an_account_that_is_silent_at_its_broker_holds_up_no_other_of_its_slot(
    executor: Executor, harness: Harness
) -> None:
    silent = await in_the_same_slot(executor, harness)
    orders = {}
    for each, key_id in ((harness, "quick"), (silent, "silent")):
        await executor.vault.put(each.tenant, harness.pool, key_id)
        await executor.refresh(each.account)
        _, orders[key_id] = await each.working()
        executor.broker.book[orders[key_id]] = a_report(ReportStatus.WORKING, client_order_id=orders[key_id])
        await executor.sessions._sign_out(each.account)
    executor.broker.requires_key = True
    gate = hangs(executor.broker, "silent")
    async with harness.following(executor.slots) as follow:
        await until_so(lambda: follow.ready(harness.account))
        assert not follow.ready(silent.account)
        assert {account_id for account_id, _ in executor.broker.listed} == {harness.account.account_id}
        gate.set()
        await until_so(lambda: follow.ready(silent.account))
        assert silent.account.account_id in {account_id for account_id, _ in executor.broker.listed}


async def test_an_account_whose_orders_the_broker_does_not_show_holds_up_no_other_of_its_slot(
    executor: Executor, harness: Harness
) -> None:
    removed = await in_the_same_slot(executor, harness)
    await executor.vault.put(removed.tenant, harness.pool, "first")
    await executor.refresh(removed.account)
    _, order_id = await removed.working()
    await remove(removed.tenant, harness.pool, CredentialStatus.MISSING)
    await executor.refresh(removed.account)
    executor.broker.requires_key = True
    async with harness.following(executor.slots) as follow:
        await until_so(lambda: follow.ready(harness.account))
        assert not follow.ready(removed.account)
        # As far as the broker allows: once it shows the order again, it is followed.
        executor.broker.requires_key = False
        executor.broker.book[order_id] = a_report(ReportStatus.WORKING, client_order_id=order_id)
        await until_so(lambda: follow.ready(removed.account))


async def test_an_account_is_signed_in_where_it_trades(executor: Executor, harness: Harness) -> None:
    live = replace(harness, tenant=await a_tenant(harness.pool, environment=Environment.LIVE))
    for each in (harness, live):
        await executor.vault.put(each.tenant, harness.pool, "first")
        await executor.refresh(each.account)
    assert executor.broker.environments == {
        harness.account.account_id: Environment.PAPER,
        live.account.account_id: Environment.LIVE,
    }


async def test_who_loses_a_slot_lets_go_of_the_secrets_of_its_accounts(
    executor: Executor, harness: Harness, vault: Vault
) -> None:
    tenants = [await a_harness(executor) for _ in range(8)]
    for each in tenants:
        await executor.vault.put(each.tenant, harness.pool, "first")
        await executor.refresh(each.account)
    other = await an_executor(harness.pool, vault)
    await executor.slots.renew()
    await other.slots.renew()
    await executor.sessions.sweep()
    held = executor.slots.held()
    assert 0 < len(held) < 64
    kept = {each.account.account_id for each in tenants if each.account.slot in held}
    await until_so(lambda: {*executor.broker.keys} == kept)


async def test_after_a_restore_everybody_is_signed_in_anew(executor: Executor, harness: Harness) -> None:
    await executor.vault.put(harness.tenant, harness.pool, "first")
    await executor.refresh(harness.account)
    await harness.accept()
    await harness.work()
    recovery = PostgresRecoveryStore(harness.pool)
    await recovery.hold()
    # The same number in another life, which another key may have got.
    await harness.pool.execute("update account_counters set recovered_epoch = (select epoch from incarnation)")
    await harness.accept()
    assert await harness.work() == []
    await until_so(lambda: len(executor.broker.sign_ins) == 2)
    await until_so(lambda: len(executor.heard) == 2)
    assert len(await harness.work()) == 1
