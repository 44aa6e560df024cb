"""Migrations: from empty to current, any number of times, by any number at once, online or by hand."""

import asyncio
import contextlib
import io
import sys

import asyncpg
import pytest

from openbell_server.adapters.postgres.connection import Role, open_pool
from openbell_server.adapters.postgres.migrate import MIGRATION_LOCK, is_current, migrate, print_sql
from openbell_server.adapters.postgres.schema import OLDEST, require_schema
from openbell_server.devtools.local_services import LocalServices
from openbell_server.domain.errors import OperatorError
from support.brokers.paper_broker import until
from support.tenancy.statements import FILES, broken_statements

CATALOGUE = {
    "columns": "select table_schema, table_name, column_name, data_type, is_nullable, column_default, is_identity "
    "from information_schema.columns where table_schema in ('openbell', 'public') order by 1, 2, 3",
    "constraints": "select conrelid::regclass::text, conname, pg_get_constraintdef(oid) from pg_constraint "
    "where connamespace in ('openbell'::regnamespace, 'public'::regnamespace) order by 1, 2, 3",
    "indexes": "select schemaname, indexname, indexdef from pg_indexes where schemaname in ('openbell', 'public') "
    "order by 1, 2",
    "functions": "select proname, md5(pg_get_functiondef(oid)) from pg_proc "
    "where pronamespace = 'openbell'::regnamespace order by 1, 2",
    "triggers": "select tgrelid::regclass::text, tgname, pg_get_triggerdef(oid) from pg_trigger "
    "where not tgisinternal order by 1, 2",
    "policies": "select tablename, policyname, roles, cmd, qual from pg_policies order by 1, 2",
    "privileges": "select relname, relrowsecurity, relforcerowsecurity, relacl from pg_class "
    "where relnamespace = 'openbell'::regnamespace order by 1",
    "storage": "select relname, reloptions from pg_class where relnamespace = 'openbell'::regnamespace order by 1",
    "revision": "select version_num from public.alembic_version",
}

# What revision 0002 adds: the relay prunes nothing, and statistics are answered with 503, until the database has it.
NEEDS_NEWEST = {"event_pruning", "intent_statistics"}


async def catalogue(url: str) -> dict[str, list[tuple[object, ...]]]:
    connection = await asyncpg.connect(url, timeout=60)
    try:
        return {name: [tuple(row) for row in await connection.fetch(query)] for name, query in CATALOGUE.items()}
    finally:
        await connection.close()


async def run_script(url: str, script: str) -> None:
    connection = await asyncpg.connect(url, timeout=60)
    try:
        await connection.execute(script, timeout=60)
    finally:
        await connection.close()


async def test_a_database_is_current_exactly_after_it_was_migrated(empty: str) -> None:
    assert not await asyncio.to_thread(is_current, empty)
    await asyncio.to_thread(migrate, empty)
    assert await asyncio.to_thread(is_current, empty)


async def test_migrating_twice_changes_nothing(empty: str) -> None:
    await asyncio.to_thread(migrate, empty)
    before = await catalogue(empty)
    assert all(before.values())
    await run_script(
        empty,
        "insert into openbell.organizations (organization_id, external_id, provider, name) "
        "values ('00000000-0000-7000-8000-000000000001', 'x', 'dev', 'Acme')",
    )
    await asyncio.to_thread(migrate, empty)
    assert await catalogue(empty) == before
    assert await asyncio.to_thread(is_current, empty)


async def test_a_database_at_an_older_revision_is_not_current(empty: str) -> None:
    await asyncio.to_thread(migrate, empty, OLDEST)
    assert not await asyncio.to_thread(is_current, empty)


async def test_the_printed_schema_applied_by_hand_is_the_migrated_one(empty: str, database: str) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        print_sql()
    await run_script(empty, printed.getvalue())
    assert await catalogue(empty) == await catalogue(database)
    assert await asyncio.to_thread(is_current, empty)


async def start_migrators(url: str) -> list[asyncio.subprocess.Process]:
    code = "import sys; from openbell_server.adapters.postgres.migrate import migrate; migrate(sys.argv[1])"
    return [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, url, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        for _ in range(3)
    ]


async def test_migrators_at_once_wait_for_each_other(empty: str, database: str) -> None:
    holder = await asyncpg.connect(empty, timeout=60)
    await holder.execute(f"select pg_advisory_lock({MIGRATION_LOCK})")
    migrators = await start_migrators(empty)

    async def all_wait() -> bool:
        connected = "select count(*) from pg_stat_activity where datname = current_database() and pid <> $1"
        return bool(await holder.fetchval(connected, holder.get_server_pid()) == len(migrators))

    try:
        await until(all_wait, 60)
        assert await holder.fetchval("select to_regnamespace('openbell')") is None
    finally:
        await holder.close()
        outputs = await asyncio.gather(*(migrator.communicate() for migrator in migrators))
    assert [migrator.returncode for migrator in migrators] == [0, 0, 0], outputs
    assert await catalogue(empty) == await catalogue(database)


async def test_a_baseline_that_fails_leaves_nothing_behind(empty: str) -> None:
    await run_script(empty, "create schema openbell; create table openbell.intent_actions (x int)")
    with pytest.raises(Exception, match="intent_actions"):
        await asyncio.to_thread(migrate, empty)
    await run_script(empty, "drop table openbell.intent_actions; drop schema openbell")
    await asyncio.to_thread(migrate, empty)
    assert await asyncio.to_thread(is_current, empty)


async def test_a_migration_that_fails_leaves_the_revisions_before_it_and_its_parts_can_run_again(
    empty: str, database: str
) -> None:
    await asyncio.to_thread(migrate, empty, OLDEST)
    # The last part of the revision fails, after the others were committed.
    await run_script(empty, "create table openbell.counted_intents (x int)")
    with pytest.raises(Exception, match="counted_intents"):
        await asyncio.to_thread(migrate, empty)
    assert (await catalogue(empty))["revision"] == [(OLDEST,)]
    async with await open_pool(empty) as pool:
        await require_schema(pool)
    await run_script(empty, "drop table openbell.counted_intents")
    await asyncio.to_thread(migrate, empty)
    assert await catalogue(empty) == await catalogue(database)
    await run_script(empty, f"update public.alembic_version set version_num = '{OLDEST}'")
    await asyncio.to_thread(migrate, empty)
    assert await catalogue(empty) == await catalogue(database)


async def test_a_login_that_may_create_roles_and_owns_the_database_can_migrate_it(
    services: LocalServices, empty: str
) -> None:
    name = empty.rpartition("/")[2]
    await run_script(empty, f"create role a_migrator login createrole; alter database {name} owner to a_migrator")
    # Roles belong to the whole server: this one may grant those that others have made.
    await run_script(empty, f"grant {', '.join(Role)}, openbell_writer to a_migrator with admin option")
    try:
        url = services.postgres.url(name, "a_migrator")
        await run_script(empty, "grant create on schema public to a_migrator")
        await asyncio.to_thread(migrate, url, OLDEST)
        await asyncio.to_thread(migrate, url)
        assert await asyncio.to_thread(is_current, url)
    finally:
        await run_script(empty, "drop owned by a_migrator cascade")
        await run_script(empty, f"alter database {name} owner to openbell; drop role a_migrator")


async def test_every_statement_can_run_on_the_oldest_schema_that_the_code_is_started_on(empty: str) -> None:
    await asyncio.to_thread(migrate, empty, OLDEST)
    async with await open_pool(empty) as pool:
        await require_schema(pool)
        assert [
            broken for file in FILES if file not in NEEDS_NEWEST for broken in await broken_statements(pool, file)
        ] == []


@pytest.mark.parametrize(
    ("revision", "message"), [("0000_before", "run `openbell-server migrate`"), ("9999_later", "start a newer one")]
)
async def test_a_process_refuses_a_schema_it_does_not_know(empty: str, revision: str, message: str) -> None:
    await asyncio.to_thread(migrate, empty)
    await run_script(empty, f"update public.alembic_version set version_num = '{revision}'")
    async with await open_pool(empty) as pool:
        with pytest.raises(OperatorError, match=message):
            await require_schema(pool)


async def test_a_process_on_an_empty_database_ends_with_a_sentence(empty: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "openbell_server", "relay"),
        env={"OPENBELL_DATABASE_URL": empty},
        stderr=asyncio.subprocess.PIPE,
    )
    _, printed = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 2
    assert printed.decode().splitlines()[-1].endswith("run `openbell-server migrate`.")
    assert "Traceback" not in printed.decode()


async def test_an_index_is_built_beside_a_migrator_that_waits_and_one_that_was_left_half_built_is_replaced(
    empty: str, database: str
) -> None:
    await asyncio.to_thread(migrate, empty, OLDEST)
    await run_script(empty, "create index executions_recorded on openbell.executions (quantity)")
    migrators = await start_migrators(empty)
    outputs = await asyncio.gather(*(asyncio.wait_for(migrator.communicate(), 60) for migrator in migrators))
    assert [migrator.returncode for migrator in migrators] == [0, 0, 0], outputs
    assert await catalogue(empty) == await catalogue(database)


async def test_a_migration_gives_way_to_those_who_use_its_tables_and_comes_back(empty: str, database: str) -> None:
    await asyncio.to_thread(migrate, empty, OLDEST)
    # The lock that every insert takes.
    write = "lock table openbell.account_events in row exclusive mode"
    user = await asyncpg.connect(empty, timeout=60)
    bystander = await asyncpg.connect(empty, timeout=60)
    try:
        await user.execute(f"begin; {write}")
        migrating = asyncio.ensure_future(asyncio.to_thread(migrate, empty))

        async def it_waits() -> bool:
            waiting = (
                "select count(*) from pg_locks where relation = 'openbell.account_events'::regclass and not granted"
            )
            return bool(await bystander.fetchval(waiting))

        for _ in range(2):
            await until(it_waits, 60)
            # Whoever comes behind the migration waits no longer than it does.
            await bystander.execute(f"begin; {write}; commit", timeout=60)
        await user.execute("commit")
        await asyncio.wait_for(migrating, 60)
    finally:
        await user.close()
        await bystander.close()
    assert await catalogue(empty) == await catalogue(database)
