"""Alembic's connection to the database: asyncpg, one transaction per revision, one migrator at a time."""

import asyncio
import time

import asyncpg
from alembic import context
from asyncpg.connect_utils import SessionAttribute
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from openbell_server.adapters.postgres.connection import CONNECT_SECONDS
from openbell_server.adapters.postgres.migrate import TRY_MIGRATION_LOCK, TURN_SECONDS, TURNS_MAX


def _migrate(connection: Connection) -> None:
    context.configure(connection=connection, transaction_per_migration=True, version_table_schema="public")
    _take_turn(connection)
    with context.begin_transaction():
        context.run_migrations()


def _take_turn(connection: Connection) -> None:
    for _ in range(TURNS_MAX):
        is_ours = connection.scalar(text(TRY_MIGRATION_LOCK))
        connection.commit()
        if is_ours:
            return
        time.sleep(TURN_SECONDS)
    raise TimeoutError("another migration has not ended")


async def _migrate_online() -> None:
    # The driver reads the address, as in the processes, so that it may name several hosts or a Unix socket.
    url = context.config.attributes["url"]
    engine = create_async_engine(
        "postgresql+asyncpg://",
        async_creator=lambda: asyncpg.connect(
            url, timeout=CONNECT_SECONDS, target_session_attrs=SessionAttribute.read_write
        ),
        poolclass=NullPool,
    )
    async with engine.connect() as connection:
        await connection.run_sync(_migrate)
    await engine.dispose()


if context.is_offline_mode():
    context.configure(dialect_name="postgresql", transaction_per_migration=True, version_table_schema="public")
    with context.begin_transaction():
        context.run_migrations()
else:
    asyncio.run(_migrate_online())
