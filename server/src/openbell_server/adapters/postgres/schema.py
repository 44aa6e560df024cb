"""Which schemas this code runs on: the newest, and those before it that a running platform may still have."""

from pathlib import Path
from typing import Final

import asyncpg

from openbell_server.adapters.postgres import migrations, named_queries
from openbell_server.adapters.postgres.connection import Pool
from openbell_server.domain.errors import OperatorError

# New code is started on this schema first, everywhere; then the database is migrated under it.
OLDEST: Final = "0008_create_audit_log"
_ALL: Final = sorted(path.stem for path in Path(migrations.__path__[0], "versions").glob("*.sql"))
REVISIONS: Final = tuple(_ALL[_ALL.index(OLDEST) :])
NEWEST: Final = REVISIONS[-1]
_queries = named_queries.load("schema")


async def require_schema(pool: Pool, oldest: str = OLDEST) -> None:
    """Refuse to run on a schema we do not know, or one before the oldest that will do."""
    try:
        revision = await _queries.schema_revision(pool)
    except (asyncpg.UndefinedTableError, asyncpg.InsufficientPrivilegeError):
        revision = None
    if revision is None or revision < oldest:
        raise OperatorError("The database has no schema that this version can use: run `openbell-server migrate`.")
    if revision not in REVISIONS:
        raise OperatorError(f"The database has the schema {revision}, newer than this version: start a newer one.")
