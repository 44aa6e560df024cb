"""Brings a database to the newest schema; each revision is a .sql file, forward only, under a lock timeout."""

from pathlib import Path
from typing import Final

from alembic import command, context, op
from alembic.config import Config
from alembic.util.exc import DatabaseNotAtHead

LOCK_TIMEOUT: Final = "5s"


def run_sql_beside(revision_file: str) -> None:
    """Run the .sql file of a revision as it stands: many statements, one transaction."""
    sql = Path(revision_file).with_suffix(".sql").read_text()
    op.execute(f"set local lock_timeout = '{LOCK_TIMEOUT}'")
    if context.is_offline_mode():
        op.get_context().impl.static_output(sql)
        return
    connection = op.get_bind().connection.dbapi_connection
    assert connection is not None
    # The simple protocol: the statement text is not parsed for parameters and may hold several statements.
    connection.run_async(lambda driver: driver.execute(sql))


def _config(url: str) -> Config:
    config = Config()
    config.set_main_option("script_location", "openbell_server.adapters.postgres:migrations")
    config.set_main_option("path_separator", "os")
    config.attributes["url"] = url.replace("postgresql://", "postgresql+asyncpg://", 1)
    return config


def migrate(url: str) -> None:
    """Apply every revision the database lacks."""
    command.upgrade(_config(url), "head")


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
