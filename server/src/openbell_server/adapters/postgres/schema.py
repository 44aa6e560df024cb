"""Which schemas this code runs on: the newest, and those before it that a running platform may still have."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import asyncpg

from openbell_server.adapters.postgres import migrations, named_queries
from openbell_server.adapters.postgres.connection import UNREACHABLE, Pool, open_pool, plainly
from openbell_server.domain.errors import OperatorError

# New code is started on this schema first, everywhere; then the database is migrated under it.
OLDEST: Final = "0023_limit_resting"
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


@asynccontextmanager
async def operators_pool(url: str, connections_max: int, *, not_allowed: str, then: str) -> AsyncIterator[Pool]:
    """For an operator's command, on the newest schema; what an operator can mend is said in a sentence."""
    try:
        async with await open_pool(url, connections_max=connections_max) as pool:
            await require_schema(pool, NEWEST)
            yield pool
    except asyncpg.InsufficientPrivilegeError as error:
        raise OperatorError(not_allowed) from error
    except UNREACHABLE as error:
        raise OperatorError(
            f"The database did not answer ({plainly(error)}): check OPENBELL_DATABASE_URL and that the server runs,"
            f" {then}"
        ) from error
