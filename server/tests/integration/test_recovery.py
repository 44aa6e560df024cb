"""A database that was restored: noticed, held, and filled from the broker before anything is sent again."""

import asyncio
import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import asyncpg
import pytest
from typer.testing import CliRunner

from openbell_server.adapters.postgres.connection import Pool, open_pool
from openbell_server.adapters.postgres.execution.execution import PostgresExecutionStore
from openbell_server.adapters.postgres.migrate import migrate
from openbell_server.adapters.postgres.recovery import PostgresRecoveryStore
from openbell_server.application.execution.recover_account import RecoverAccount
from openbell_server.brokers.paper.profiles import PAPER
from openbell_server.cli import app
from openbell_server.devtools.local_services import LocalServices
from openbell_server.domain.identifiers import AccountId, ActionId, client_order_id
from openbell_server.domain.orders.broker_reports import OrderReport, ReportStatus
from openbell_server.domain.orders.intents import CreateIntent
from openbell_server.domain.orders.order_terms import OrderType
from support.brokers.paper_broker import until
from support.brokers.scripted_broker import Harness
from support.builders.tenant import (
    Tenant,
    a_limit_create,
    a_market_create,
    a_report,
    a_tenant,
    accept,
    an_execution,
    described,
)


async def restored(pool: Pool) -> None:
    """Leave the row as a dump does: written by another transaction than the one it names."""
    await pool.execute("update incarnation set alive_at = alive_at")


async def recover(harness: Harness, settle_seconds: float = 0) -> bool:
    capabilities = replace(PAPER.capabilities, settle_seconds=settle_seconds)
    return await RecoverAccount(PostgresExecutionStore(harness.pool), harness.track)(
        harness.account, harness.broker, capabilities
    )


def at_broker(harness: Harness, action_id: ActionId, status: ReportStatus = ReportStatus.FILLED) -> str:
    """Put the order of an action into the broker's book."""
    name = client_order_id(action_id)
    fills = [an_execution(1, 10)] if status is ReportStatus.FILLED else []
    harness.broker.book[name] = a_report(status, fills, client_order_id=name)
    return name


async def forget(harness: Harness, key: str, command: CreateIntent | None = None) -> ActionId:
    """The id of a keyed command that was sent, in a part of the past that the database lost."""
    return harness.tenant.submission(command or a_market_create(), key).action_id


async def retry(harness: Harness, key: str, command: CreateIntent | None = None) -> None:
    (answer,) = await accept(harness.pool, harness.tenant.submission(command or a_market_create(), key))
    assert answer.status == "ACCEPTED"


async def test_a_database_nobody_restored_is_left_alone(harness: Harness) -> None:
    store = PostgresRecoveryStore(harness.pool)
    for _ in range(3):
        assert not await store.notice_restore()
        await harness.pool.execute("vacuum (freeze) incarnation")
        # Long enough ago to be written again.
        await harness.pool.execute(
            "update incarnation set alive_at = alive_at - interval '1 hour', written_in = pg_current_xact_id()::xid"
        )
    await harness.accept()
    assert len(await harness.work()) == 1


async def test_no_door_opens_in_a_restored_database_even_before_anyone_noticed(harness: Harness) -> None:
    await harness.accept()
    await restored(harness.pool)
    assert await harness.work() == []
    assert not await recover(harness)
    assert await PostgresRecoveryStore(harness.pool).notice_restore()
    assert not await PostgresRecoveryStore(harness.pool).notice_restore()
    assert await harness.work() == []
    assert await recover(harness)
    assert len(await harness.work()) == 1
    assert [write.command for write in harness.broker.writes] == ["submit"]


async def test_an_account_is_not_freed_while_an_order_of_the_lost_past_may_be_on_its_way(
    harness: Harness,
) -> None:
    await restored(harness.pool)
    await PostgresRecoveryStore(harness.pool).notice_restore()
    assert not await recover(harness, settle_seconds=60)
    await harness.accept()
    assert await harness.work() == []


async def test_an_account_whose_broker_cannot_list_its_orders_stays_held(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await restored(harness.pool)
    await PostgresRecoveryStore(harness.pool).notice_restore()

    async def broken(_: AccountId, __: datetime) -> list[OrderReport]:
        raise ConnectionError("no list")

    monkeypatch.setattr(type(harness.broker), "orders_since", lambda self, a, s: broken(a, s))
    with pytest.raises(ConnectionError):
        await recover(harness)
    await harness.accept()
    assert await harness.work() == []


async def test_a_door_that_the_copy_forgot_is_remembered_from_the_broker(harness: Harness) -> None:
    intent = await harness.accept()
    at_broker(harness, await harness.pool.fetchval("select action_id from action_states"))
    await restored(harness.pool)
    await PostgresRecoveryStore(harness.pool).notice_restore()
    assert await recover(harness)
    assert await harness.work() == []
    assert harness.broker.writes == []
    assert await harness.states() == [("CREATE", "ACKED", None)]
    order = await harness.order(intent)
    assert (order["standing"], order["close_reason"], order["filled_quantity"]) == ("CLOSED", "FILLED", 10)


async def test_a_command_that_comes_again_gets_the_order_the_broker_has(harness: Harness) -> None:
    lost = await forget(harness, "k")
    name = at_broker(harness, lost)
    await restored(harness.pool)
    await PostgresRecoveryStore(harness.pool).notice_restore()
    # One comes before the comparison, as clients do not wait for it.
    await retry(harness, "k")
    assert await recover(harness)
    assert await harness.work() == []
    assert await harness.states() == [("CREATE", "UNKNOWN", "FORGOTTEN")]
    await harness.settle(0)
    assert harness.broker.asked == [name]
    assert harness.broker.writes == []
    assert await harness.states() == [("CREATE", "ACKED", None)]
    assert await harness.pool.fetchval("select filled_quantity from orders") == 10
    assert await harness.pool.fetchval("select quantity from positions") == 10
    standing = await PostgresRecoveryStore(harness.pool).standing()
    assert (standing.accounts_held, list(standing.forgotten_orders)) == (0, [])


async def test_a_forgotten_order_counts_at_once_and_once_when_its_command_comes_again(harness: Harness) -> None:
    name = at_broker(harness, await forget(harness, "k"))
    harness.broker.book[name] = described(harness.broker.book[name], kind=OrderType.MARKET)
    await restored(harness.pool)
    await PostgresRecoveryStore(harness.pool).notice_restore()
    assert await recover(harness)
    assert await harness.position() == 10
    await harness.reconcile()
    kept = "select client_order_id, status, filled_quantity from external_orders"
    assert [tuple(row) for row in await harness.pool.fetch(kept)] == [(name, "FILLED", 10)]
    assert await harness.pool.fetchval("select halt_code from account_counters") is None
    await retry(harness, "k")
    await harness.work()
    await harness.settle(0)
    await harness.reconcile()
    assert await harness.states() == [("CREATE", "ACKED", None)]
    assert await harness.position() == 10
    assert [tuple(row) for row in await harness.pool.fetch(kept)] == [(name, "ADOPTED", 0)]


async def test_reports_about_an_adopted_order_reach_its_intent(harness: Harness) -> None:
    lost = await forget(harness, "k", a_limit_create())
    name = at_broker(harness, lost, ReportStatus.WORKING)
    await restored(harness.pool)
    await PostgresRecoveryStore(harness.pool).notice_restore()
    assert await recover(harness)
    await retry(harness, "k", a_limit_create())
    await harness.work()
    await harness.settle(0)
    assert await harness.pool.fetchval("select standing from orders") == "WORKING"
    async with PostgresExecutionStore(harness.pool).account_transaction(harness.account) as transaction:
        assert [action.order_name.client_order_id for action in await transaction.open_orders()] == [name]
    await harness.report(a_report(ReportStatus.FILLED, [an_execution(1, 10)], client_order_id=name))
    assert await harness.pool.fetchval("select close_reason from orders") == "FILLED"


@pytest.mark.parametrize("difference", ["key", "command", "account"])
async def test_another_command_is_sent_although_the_broker_has_a_forgotten_order(
    harness: Harness, difference: str
) -> None:
    at_broker(harness, await forget(harness, "k"))
    other = Harness(harness.pool, await a_tenant(harness.pool)) if difference == "account" else harness
    await restored(harness.pool)
    await PostgresRecoveryStore(harness.pool).notice_restore()
    assert await recover(harness)
    assert await recover(other)
    await retry(
        other, "other" if difference == "key" else "k", a_market_create("11") if difference == "command" else None
    )
    assert len(await other.work()) == 1
    standing = await PostgresRecoveryStore(harness.pool).standing()
    assert [account for account, _ in standing.forgotten_orders] == [harness.account.account_id]


async def test_a_forgotten_order_is_adopted_once(harness: Harness) -> None:
    at_broker(harness, await forget(harness, "k"))
    await restored(harness.pool)
    await PostgresRecoveryStore(harness.pool).notice_restore()
    assert await recover(harness)
    await retry(harness, "k")
    await harness.work()
    # A second action with the same digest cannot come through the accept step: its key is known again.
    (answer,) = await accept(harness.pool, harness.tenant.submission(a_market_create(), "k"))
    assert answer.status == "REPLAYED"
    assert await harness.work() == []


async def test_a_restore_during_a_recovery_looks_back_as_far_as_the_first(harness: Harness) -> None:
    store = PostgresRecoveryStore(harness.pool)
    await harness.pool.execute("update incarnation set alive_at = alive_at - interval '3 days'")
    assert await store.notice_restore()
    first = (await store.standing()).look_back_to
    await restored(harness.pool)
    assert await store.notice_restore()
    again = await store.standing()
    assert (again.epoch, again.look_back_to, again.accounts_held) == (3, first, 1)


async def test_an_operator_can_begin_a_hold_and_a_new_account_is_not_held(harness: Harness) -> None:
    store = PostgresRecoveryStore(harness.pool)
    await store.hold()
    assert (await store.standing()).accounts_held == 1
    newcomer: Tenant = await a_tenant(harness.pool)
    await accept(harness.pool, newcomer.submission())
    assert len(await Harness(harness.pool, newcomer).work()) == 1
    assert (await store.standing()).accounts_held == 1


async def test_the_command_line_tells_how_far_a_recovery_has_come(harness: Harness, database: str) -> None:
    async def say(*words: str) -> str:
        environment = {"OPENBELL_DATABASE_URL": database}
        said = await asyncio.to_thread(CliRunner().invoke, app, ["recovery", *words], env=environment)
        assert said.exit_code == 0, said.output
        return said.output

    assert await say("status") == "This database was never restored.\n"
    lost = at_broker(harness, await forget(harness, "k"))
    await say("hold")
    report = json.loads(await say("status", "--json"))
    assert (report["accounts_held"], report["forgotten_orders"]) == (1, [])
    assert await recover(harness)
    report = json.loads(await say("status", "--json"))
    order = {"account_id": str(harness.account.account_id), "client_order_id": lost}
    assert (report["accounts_held"], report["forgotten_orders"]) == (0, [order])
    assert lost in await say("status")


async def is_promoted(url: str) -> bool:
    connection = await asyncpg.connect(url, timeout=60)
    try:
        return not await connection.fetchval("select pg_is_in_recovery()")
    finally:
        await connection.close()


async def test_a_server_that_was_recovered_to_another_timeline_is_noticed() -> None:
    # With this command an archive recovery ends where the server's own log does.
    with LocalServices({"restore_command": "false"}) as services:
        url = services.postgres.url()
        await asyncio.to_thread(migrate, url)
        async with await open_pool(url) as pool:
            assert not await PostgresRecoveryStore(pool).notice_restore()
            data = Path(await pool.fetchval("show data_directory"))
        services.postgres.stop()
        (data / "recovery.signal").touch()
        services.postgres.start()
        await until(lambda: is_promoted(url))
        async with await open_pool(url) as pool:
            assert await pool.fetchval("select server_timeline()") == 2
            assert await PostgresRecoveryStore(pool).notice_restore()
            assert not await PostgresRecoveryStore(pool).notice_restore()


async def test_a_server_that_was_killed_is_the_same_afterwards() -> None:
    with LocalServices() as services:
        url = services.postgres.url()
        await asyncio.to_thread(migrate, url)
        services.postgres.kill()
        services.postgres.start()
        async with await open_pool(url) as pool:
            assert not await PostgresRecoveryStore(pool).notice_restore()
