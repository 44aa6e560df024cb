"""Brings a database to the newest schema; each revision is a .sql file, forward only, beside a platform that runs."""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Final

import asyncpg
from alembic import command, context, op
from alembic.config import Config
from alembic.util.exc import DatabaseNotAtHead

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import CONNECT_SECONDS, PROCESS_ROLES, Role

# Shorter than PostgreSQL's deadlock_timeout: where a revision and a request wait for each other, the revision gives
# way, and no request waits long behind it.
LOCK_TIMEOUT: Final = "500ms"
# Nobody waits behind an index that is built beside the writers, so it may wait longer for those who came before it.
BUILD_LOCK_TIMEOUT: Final = "30s"
TRIES_MAX: Final = 60
OUTSIDE: Final = "-- outside a transaction\n"
# Any number will do, as long as every migrator takes the same one.
MIGRATION_LOCK: Final = 0x0B_E1_1
# Asked again and again: whoever waits inside a statement holds a snapshot, and an index is built once those are gone.
ASK_FOR_TURN: Final = f"select pg_try_advisory_lock({MIGRATION_LOCK})"
LOGIN_SECONDS: Final = 60.0
TURN_SECONDS: Final = 0.1
TURNS_MAX: Final = 36_000
_queries = named_queries.load("schema")


def run_sql_beside(revision_file: str) -> None:
    """Run the .sql file of a revision as it stands: many statements, one transaction."""
    op.execute(f"set local lock_timeout = '{LOCK_TIMEOUT}'")
    _run(Path(revision_file).with_suffix(".sql").read_text())


def run_parts_beside(revision_file: str) -> None:
    """Run the parts of the .sql file each in a transaction of its own, each tried again by itself.

    For changes that lock several tables in use. A part must bear to be run twice: a later one may fail for good. One
    that says that it is outside a transaction is run statement by statement: indexes that are built beside the writers,
    and procedures that commit as they go.
    """
    settings = f"set local lock_timeout = '{LOCK_TIMEOUT}'; set local search_path = openbell, pg_catalog;"
    with op.get_context().autocommit_block():
        for part in Path(revision_file).with_suffix(".sql").read_text().split("-- apart\n"):
            if part.startswith(OUTSIDE) and not context.is_offline_mode():
                _until_unlocked(partial(_run_outside, part))
            else:
                # By hand it is for an empty database, where an index has nobody to wait for.
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
    """A table in use is tried again, for a minute or so."""
    for tries in range(1, TRIES_MAX + 1):
        try:
            apply()
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            if tries == TRIES_MAX:
                raise
            time.sleep(random.uniform(0.2, 1.0))  # noqa: S311 - only spreads the tries
        else:
            return


def _config(url: str) -> Config:
    config = Config()
    config.set_main_option("script_location", "openbell_server.adapters.postgres:migrations")
    config.set_main_option("path_separator", "os")
    config.attributes["url"] = url.replace("postgresql://", "postgresql+asyncpg://", 1)
    return config


def migrate(url: str, revision: str = "head") -> None:
    """Apply every revision the database lacks, up to one."""
    _until_unlocked(lambda: command.upgrade(_config(url), revision))


def allow_login(url: str, login: str, roles: Collection[Role] = PROCESS_ROLES) -> None:
    """Make a login for processes, unless it is there, and let it act in these roles and no other of ours, only so."""
    name = '"' + login.replace('"', '""') + '"'

    async def allow() -> None:
        connection = await asyncpg.connect(url, timeout=CONNECT_SECONDS, command_timeout=LOGIN_SECONDS)
        try:
            for _ in range(TURNS_MAX):
                if await connection.fetchval(ASK_FOR_TURN):
                    break
                await asyncio.sleep(TURN_SECONDS)
            else:
                raise TimeoutError("a migration has not ended")
            with contextlib.suppress(asyncpg.DuplicateObjectError):
                await connection.execute(f"create role {name} login")
            # The schema may be an older one that lacks some; the revision that makes a role gives it to the logins.
            made = [row["rolname"] async for row in _queries.existing_roles(connection, role_names=list(Role))]
            ours, given = ", ".join(made), ", ".join(role for role in made if role in roles)
            # One that was there may inherit, and since PostgreSQL 16 a grant keeps what it was made with: grant anew.
            await connection.execute(f"alter role {name} noinherit; revoke {ours} from {name}; grant {given} to {name}")
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
    """Print what would be run on an empty database, for those who apply it by hand."""
    command.upgrade(_config("postgresql://"), "head", sql=True)
