"""Migrates a database to the newest schema, forward only, while the platform runs."""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import asyncpg
from alembic import command, context, op
from alembic.config import Config
from alembic.util.exc import DatabaseNotAtHead

from openbell_server.adapters.postgres.connection import CONNECT_SECONDS, LOGIN_ROLES, Role

# Shorter than PostgreSQL's deadlock_timeout (1 s): if a revision and a request wait for each other, the revision times
# out first and is retried, and no request waits longer behind it.
LOCK_TIMEOUT: Final = "500ms"
# A concurrent index build blocks no request, so it may wait longer for the transactions that were there before it.
BUILD_LOCK_TIMEOUT: Final = "30s"
TRIES_MAX: Final = 60
OUTSIDE: Final = "-- outside a transaction\n"
# An arbitrary number that every migrator uses.
MIGRATION_LOCK: Final = 0x0B_E1_1
# Polled: a statement that waits holds a snapshot, and a concurrent index build waits for all snapshots to end.
TRY_MIGRATION_LOCK: Final = f"select pg_try_advisory_lock({MIGRATION_LOCK})"
LOGIN_SECONDS: Final = 60.0
TURN_SECONDS: Final = 0.1
TURNS_MAX: Final = 36_000


def run_sql(sql: str) -> None:
    """Run many statements in the transaction of the revision."""
    op.execute(f"set local lock_timeout = '{LOCK_TIMEOUT}'")
    _run(sql)


def run_parts_beside(revision_file: str) -> None:
    """Run the parts of the .sql file, separated by `-- apart`, each in its own transaction with its own retries.

    For revisions that lock several tables in use. Every part must be safe to run twice, because a later part may fail
    and the whole revision is then run again. A part that starts with `-- outside a transaction` runs statement by
    statement, for concurrent index builds and for procedures that commit.
    """
    settings = f"set local lock_timeout = '{LOCK_TIMEOUT}'; set local search_path = openbell, pg_catalog;"
    with op.get_context().autocommit_block():
        for part in Path(revision_file).with_suffix(".sql").read_text().split("-- apart\n"):
            if part.startswith(OUTSIDE) and not context.is_offline_mode():
                _until_unlocked(partial(_run_outside, part))
            else:
                # Printed SQL is for an empty database, where an index need not be built concurrently.
                whole = part.replace(" concurrently", "")
                _until_unlocked(partial(_run_alone, f"begin; {settings}\n{whole}\ncommit;"))


def _run_outside(part: str) -> None:
    _run(f"set lock_timeout = '{BUILD_LOCK_TIMEOUT}'")
    try:
        for statement in part.strip().split(";\n"):
            _run(statement)
    finally:
        _run("reset lock_timeout")


def _run_alone(sql: str) -> None:
    try:
        _run(sql)
    except Exception:
        _run("rollback")
        raise


def _run(sql: str) -> None:
    if context.is_offline_mode():
        op.get_context().impl.static_output(sql)
        return
    connection = op.get_bind().connection.dbapi_connection
    assert connection is not None
    # The simple protocol: the statement text is not parsed for parameters and may hold several statements.
    connection.run_async(lambda driver: driver.execute(sql))


def _until_unlocked(apply: Callable[[], None]) -> None:
    """Retry after a lock timeout or a deadlock, for about a minute."""
    for tries in range(1, TRIES_MAX + 1):
        try:
            apply()
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            if tries == TRIES_MAX:
                raise
            time.sleep(random.uniform(0.2, 1.0))  # noqa: S311 - jitter
        else:
            return


def _config(url: str) -> Config:
    config = Config()
    config.set_main_option("script_location", "openbell_server.adapters.postgres:migrations")
    config.set_main_option("path_separator", "os")
    config.attributes["url"] = url
    return config


def migrate(url: str, revision: str = "head") -> None:
    """Apply every revision that the database lacks, up to this one."""
    _until_unlocked(lambda: command.upgrade(_config(url), revision))


def logins_of(prefix: str) -> dict[str, tuple[Role, ...]]:
    """The login of each process and of operators by name, with its roles."""
    return {f"{prefix}_{process}": roles for process, roles in LOGIN_ROLES.items()}


def allow_logins(url: str, logins: Mapping[str, Collection[Role]]) -> None:
    """Create the logins that are missing, each with exactly these of Openbell's roles and without inheritance."""

    async def allow() -> None:
        connection = await asyncpg.connect(url, timeout=CONNECT_SECONDS, command_timeout=LOGIN_SECONDS)
        try:
            for _ in range(TURNS_MAX):
                if await connection.fetchval(TRY_MIGRATION_LOCK):
                    break
                await asyncio.sleep(TURN_SECONDS)
            else:
                raise TimeoutError(f"Another migration has not ended after {TURNS_MAX * TURN_SECONDS:.0f} seconds.")
            for login, roles in logins.items():
                name = '"' + login.replace('"', '""') + '"'
                with contextlib.suppress(asyncpg.DuplicateObjectError):
                    await connection.execute(f"create role {name} login")
                # An existing login may inherit, and since PostgreSQL 16 a grant keeps its options: revoke, then grant.
                await connection.execute(
                    f"alter role {name} noinherit; revoke {', '.join(Role)} from {name};"
                    f" grant {', '.join(roles)} to {name}"
                )
        finally:
            await connection.close(timeout=CONNECT_SECONDS)

    asyncio.run(allow())


def is_current(url: str) -> bool:
    """Whether the database has the newest schema."""
    try:
        command.current(_config(url), check_heads=True)
    except DatabaseNotAtHead:
        return False
    return True


def print_sql() -> None:
    """Print the statements for an empty database, to be applied by hand."""
    command.upgrade(_config("postgresql://"), "head", sql=True)
