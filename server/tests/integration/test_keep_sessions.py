"""Credentials change while executors run: each is signed in anew, and nothing is sent with one that was replaced."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from signing_in import Executor, Vault, a_desk, a_vault, an_executor, hangs, remove, says, standing_of

from builders import a_cancel, a_report, a_tenant, new_id
from openbell_server.adapters.postgres.connection import DatabaseClock, Pool, open_pool
from openbell_server.adapters.postgres.execution import PostgresExecutionStore
from openbell_server.adapters.postgres.migrate import migrate
from openbell_server.adapters.postgres.recovery import PostgresRecoveryStore
from openbell_server.adapters.postgres.schema import OLDEST
from openbell_server.adapters.postgres.sessions import PostgresSessionStore
from openbell_server.application.keep_sessions import RETRY_SECONDS_MAX
from openbell_server.application.ports.execution import BrokerAccount
from openbell_server.domain.accounts import Environment
from openbell_server.domain.broker_orders import ReportStatus
from openbell_server.domain.credentials import CredentialStatus, SignedIn, SignInRefused
from scripted_broker import Desk, ScriptedBroker, until_so

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
async def desk(executor: Executor) -> Desk:
    return await a_desk(executor)


async def in_the_same_slot(executor: Executor, desk: Desk) -> Desk:
    other = await a_desk(executor)
    await executor.pool.execute(
        "update accounts set slot = $1 where account_id = $2", desk.account.slot, other.account.account_id
    )
    account = other.tenant.account
    object.__setattr__(account, "slot", desk.account.slot)
    return other


async def told(pool: Pool) -> list[tuple[str, ...]]:
    """What is on record of the brokers' answers: events, audited operations."""
    events = [json.loads(row["body"]) for row in await pool.fetch("select body from account_events where kind = 3")]
    audited = await pool.fetch("select operation from audit_log where principal_type = 'SYSTEM'")
    # Until it is answered a credential is unverified.
    answered = [body["credential_status"] for body in events if body["changed"] != ["credential", "credential_status"]]
    return [*(("event", status) for status in answered), *(("audit", row["operation"]) for row in audited)]


async def test_a_new_credential_is_signed_in_and_its_answer_is_on_record(executor: Executor, desk: Desk) -> None:
    await executor.vault.put(desk.tenant, desk.pool, "first")
    await executor.refresh(desk.account)
    assert executor.broker.sign_ins == [(desk.account.account_id, "first")]
    standing = await standing_of(desk.pool, desk.account.account_id)
    assert (standing["status"], standing["answered"], standing["verified"]) == ("valid", True, True)
    assert await told(desk.pool) == [
        ("event", "valid"),
        ("audit", "credentials answer"),
    ]
    queued = await desk.pool.fetch("select event_type from account_outbox order by outbox_id")
    assert [row["event_type"] for row in queued] == ["credential.created", "credential.updated"]
    await desk.accept()
    await desk.work()
    assert [write.key_id for write in executor.broker.writes] == ["first"]


@pytest.mark.parametrize(("answer", "status"), [(REFUSED, "invalid"), (EXPIRED, "expired")])
async def test_a_refused_credential_lets_nothing_new_pass_and_a_cancel_waits(
    executor: Executor, desk: Desk, answer: SignInRefused, status: str
) -> None:
    await executor.vault.put(desk.tenant, desk.pool, "first")
    await executor.refresh(desk.account)
    intent, _ = await desk.working()
    await desk.accept()
    await desk.accept(a_cancel(intent))
    says(executor.broker, answer)
    await executor.vault.put(desk.tenant, desk.pool, "second")
    await executor.refresh(desk.account)
    assert (await standing_of(desk.pool, desk.account.account_id))["status"] == status
    assert await desk.work() == []
    assert await desk.states() == [
        ("CREATE", "ACKED", None),
        ("CREATE", "SKIPPED", "ACCOUNT_NOT_READY"),
        ("CANCEL", "QUEUED", None),
    ]
    says(executor.broker, SignedIn())
    await executor.vault.put(desk.tenant, desk.pool, "third")
    await executor.refresh(desk.account)
    await desk.work()
    assert (await desk.states())[2] == ("CANCEL", "ACKED", None)
    assert [write.key_id for write in executor.broker.writes] == ["first", "third"]


async def test_no_door_opens_while_signed_in_with_another_version(executor: Executor, desk: Desk) -> None:
    await executor.vault.put(desk.tenant, desk.pool, "first")
    await executor.refresh(desk.account)
    gate = hangs(executor.broker, "second")
    await executor.vault.put(desk.tenant, desk.pool, "second")
    await desk.accept()
    # Nobody said that it changed: the door finds out.
    assert await desk.work() == []
    assert await desk.work() == []
    await until_so(lambda: len(executor.broker.sign_ins) == 2)
    gate.set()
    await until_so(lambda: len(executor.heard) == 2)
    await desk.work()
    assert [write.key_id for write in executor.broker.writes] == ["second"]
    assert len(executor.broker.sign_ins) == 2


async def test_what_a_removed_credential_opened_is_closed_before_a_door_opens(executor: Executor, desk: Desk) -> None:
    await executor.vault.put(desk.tenant, desk.pool, "first")
    await executor.refresh(desk.account)
    await remove(desk.tenant, desk.pool)
    await desk.accept()
    assert await desk.work() == []
    await until_so(lambda: len(executor.heard) == 2)
    await desk.work()
    assert [write.key_id for write in executor.broker.writes] == [None]


async def test_nothing_new_passes_without_a_credential_that_the_broker_requires(executor: Executor, desk: Desk) -> None:
    await executor.vault.put(desk.tenant, desk.pool, "first")
    await executor.refresh(desk.account)
    await remove(desk.tenant, desk.pool, CredentialStatus.MISSING)
    await desk.accept()
    assert await desk.work() == []
    assert await desk.states() == [("CREATE", "SKIPPED", "ACCOUNT_NOT_READY")]


async def test_an_answer_for_a_version_that_was_replaced_changes_nothing(executor: Executor, desk: Desk) -> None:
    asked = asyncio.Event()
    gate = asyncio.Event()

    async def refuses_the_first_late(key_id: str) -> SignedIn | SignInRefused:
        if key_id != "first":
            return SignedIn()
        asked.set()
        await gate.wait()
        return REFUSED

    executor.broker.admit = refuses_the_first_late
    await executor.vault.put(desk.tenant, desk.pool, "first")
    executor.sessions.hear(desk.account)
    await asked.wait()
    await executor.vault.put(desk.tenant, desk.pool, "second")
    gate.set()
    await until_so(lambda: len(executor.heard) == 2)
    assert (await standing_of(desk.pool, desk.account.account_id))["status"] == "valid"
    assert [fact for fact in await told(desk.pool) if fact[0] == "event"] == [("event", "valid")]


async def test_a_broker_out_of_reach_says_nothing_and_is_asked_again_ever_more_slowly(
    executor: Executor, desk: Desk
) -> None:
    async def is_away(key_id: str) -> SignedIn | SignInRefused:
        raise ConnectionError(key_id)

    executor.broker.admit = is_away
    await executor.vault.put(desk.tenant, desk.pool, "first")
    await executor.refresh(desk.account)
    assert (await standing_of(desk.pool, desk.account.account_id))["status"] == "unverified"
    assert executor.sessions.failures == [(desk.account.account_id, "ConnectionError")]
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
    await executor.refresh(desk.account)
    assert (await standing_of(desk.pool, desk.account.account_id))["status"] == "valid"


async def test_the_account_at_the_broker_is_taken_over_once_and_another_is_refused(
    executor: Executor, desk: Desk
) -> None:
    runs_out = datetime(2099, 1, 1, tzinfo=UTC)
    says(executor.broker, SignedIn("DU77", runs_out))
    await executor.vault.put(desk.tenant, desk.pool, "first")
    await executor.refresh(desk.account)
    standing = await standing_of(desk.pool, desk.account.account_id)
    assert (standing["status"], standing["external_account_id"], standing["expires_at"]) == ("valid", "DU77", runs_out)
    says(executor.broker, SignedIn("DU78"))
    await executor.vault.put(desk.tenant, desk.pool, "second")
    await executor.refresh(desk.account)
    standing = await standing_of(desk.pool, desk.account.account_id)
    assert (standing["status"], standing["external_account_id"]) == ("invalid", "DU77")
    assert standing["refusal_code"] == "EXTERNAL_ACCOUNT_MISMATCH"
    assert executor.broker.keys == {}


async def test_a_time_that_ran_out_by_our_record_is_past_whatever_the_broker_says(
    executor: Executor, desk: Desk
) -> None:
    await executor.vault.put(desk.tenant, desk.pool, "first")
    await desk.pool.execute("update credentials set expires_at = clock_timestamp()")
    await executor.refresh(desk.account)
    assert (await standing_of(desk.pool, desk.account.account_id))["status"] == "expired"


async def test_a_question_that_no_message_announced_is_found(executor: Executor, desk: Desk) -> None:
    await executor.vault.put(desk.tenant, desk.pool, "first")
    await executor.sessions.sweep()
    await until_so(lambda: bool(executor.heard))
    assert (await standing_of(desk.pool, desk.account.account_id))["status"] == "valid"
    await executor.sessions.sweep()
    assert len(executor.broker.sign_ins) == 1


async def test_to_verify_asks_the_broker_again_and_changes_the_account_only_if_it_says_otherwise(
    executor: Executor, desk: Desk
) -> None:
    await executor.vault.put(desk.tenant, desk.pool, "first")
    await executor.refresh(desk.account)
    before = await standing_of(desk.pool, desk.account.account_id)
    for answer, version in ((SignedIn(), before["version"]), (REFUSED, before["version"] + 1)):  # type: ignore[operator]
        says(executor.broker, answer)
        await desk.pool.execute("update credentials set asked_at = clock_timestamp()")
        await executor.refresh(desk.account)
        standing = await standing_of(desk.pool, desk.account.account_id)
        assert (standing["answered"], standing["version"]) == (True, version)
    assert [fact for fact in await told(desk.pool) if fact[0] == "event"] == [("event", "valid"), ("event", "invalid")]


async def test_who_takes_a_slot_over_signs_its_accounts_in_and_writes_nothing_new(
    executor: Executor, desk: Desk, vault: Vault
) -> None:
    await executor.vault.put(desk.tenant, desk.pool, "first")
    await executor.refresh(desk.account)
    _, order_id = await desk.working()
    before = await told(desk.pool)
    await executor.slots.release()
    heir = await an_executor(desk.pool, vault, ScriptedBroker(requires_key=True))
    heir.broker.book[order_id] = a_report(ReportStatus.WORKING, client_order_id=order_id)
    taken = Desk(
        desk.pool,
        desk.tenant,
        heir.broker,
        clock=heir.clock,
        hints=heir.hints,
        fence=heir.sessions,
        sign_ins=heir.sessions,
    )
    async with taken.following(heir.slots) as follow:
        await until_so(lambda: follow.ready(taken.account))
    assert heir.broker.keys == {desk.account.account_id: "first"}
    assert {account_id for account_id, _ in heir.broker.listed} == {desk.account.account_id}
    assert await told(desk.pool) == before
    await heir.sessions.close()


async def test_an_account_that_is_silent_at_its_broker_holds_up_no_other_of_its_slot(
    executor: Executor, desk: Desk
) -> None:
    silent = await in_the_same_slot(executor, desk)
    orders = {}
    for each, key_id in ((desk, "quick"), (silent, "silent")):
        await executor.vault.put(each.tenant, desk.pool, key_id)
        await executor.refresh(each.account)
        _, orders[key_id] = await each.working()
        executor.broker.book[orders[key_id]] = a_report(ReportStatus.WORKING, client_order_id=orders[key_id])
        await executor.sessions._sign_out(each.account)
    executor.broker.requires_key = True
    gate = hangs(executor.broker, "silent")
    async with desk.following(executor.slots) as follow:
        await until_so(lambda: follow.ready(desk.account))
        assert not follow.ready(silent.account)
        assert {account_id for account_id, _ in executor.broker.listed} == {desk.account.account_id}
        gate.set()
        await until_so(lambda: follow.ready(silent.account))
        assert silent.account.account_id in {account_id for account_id, _ in executor.broker.listed}


async def test_an_account_whose_orders_the_broker_does_not_show_holds_up_no_other_of_its_slot(
    executor: Executor, desk: Desk
) -> None:
    removed = await in_the_same_slot(executor, desk)
    await executor.vault.put(removed.tenant, desk.pool, "first")
    await executor.refresh(removed.account)
    _, order_id = await removed.working()
    await remove(removed.tenant, desk.pool, CredentialStatus.MISSING)
    await executor.refresh(removed.account)
    executor.broker.requires_key = True
    async with desk.following(executor.slots) as follow:
        await until_so(lambda: follow.ready(desk.account))
        assert not follow.ready(removed.account)
        # As far as the broker allows: once it shows the order again, it is followed.
        executor.broker.requires_key = False
        executor.broker.book[order_id] = a_report(ReportStatus.WORKING, client_order_id=order_id)
        await until_so(lambda: follow.ready(removed.account))


async def test_an_account_is_signed_in_where_it_trades(executor: Executor, desk: Desk) -> None:
    live = replace(desk, tenant=await a_tenant(desk.pool, environment=Environment.LIVE))
    for each in (desk, live):
        await executor.vault.put(each.tenant, desk.pool, "first")
        await executor.refresh(each.account)
    assert executor.broker.environments == {
        desk.account.account_id: Environment.PAPER,
        live.account.account_id: Environment.LIVE,
    }


async def test_who_loses_a_slot_lets_go_of_the_secrets_of_its_accounts(
    executor: Executor, desk: Desk, vault: Vault
) -> None:
    tenants = [await a_desk(executor) for _ in range(8)]
    for each in tenants:
        await executor.vault.put(each.tenant, desk.pool, "first")
        await executor.refresh(each.account)
    other = await an_executor(desk.pool, vault)
    await executor.slots.renew()
    await other.slots.renew()
    await executor.sessions.sweep()
    held = executor.slots.held()
    assert 0 < len(held) < 64
    kept = {each.account.account_id for each in tenants if each.account.slot in held}
    await until_so(lambda: {*executor.broker.keys} == kept)


async def test_after_a_restore_everybody_is_signed_in_anew(executor: Executor, desk: Desk) -> None:
    await executor.vault.put(desk.tenant, desk.pool, "first")
    await executor.refresh(desk.account)
    await desk.accept()
    await desk.work()
    recovery = PostgresRecoveryStore(desk.pool)
    await recovery.hold()
    # The same number in another life, which another key may have got.
    await desk.pool.execute("update account_counters set recovered_epoch = (select epoch from incarnation)")
    await desk.accept()
    assert await desk.work() == []
    await until_so(lambda: len(executor.broker.sign_ins) == 2)
    await until_so(lambda: len(executor.heard) == 2)
    assert len(await desk.work()) == 1


async def test_on_a_schema_without_credentials_everything_is_sent_and_nothing_is_asked(empty: str) -> None:
    await asyncio.to_thread(migrate, empty, OLDEST)
    async with await open_pool(empty) as pool:
        store = PostgresSessionStore(pool, DatabaseClock(pool))
        tenant = await a_tenant(pool)
        account = BrokerAccount(tenant.account.organization_id, tenant.account.id, "paper", tenant.account.slot)
        assert await store.credential_of(account) is None
        assert await store.accounts_asked_across_organizations(range(64)) == []
        assert await store.accounts_with_credentials_across_organizations("paper", range(64)) == []
        await store.tell_feed(new_id(), "paper", connected=True, compared=[1], signing_in=[])
        async with PostgresExecutionStore(pool).account_transaction(account) as transaction:
            standing = await transaction.standing()
        assert (standing.credential_version, standing.credential_status) == (None, "not_required")
