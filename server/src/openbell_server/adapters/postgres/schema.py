"""Lists the schema revisions that this version supports, and checks that the database has one of them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import asyncpg

from openbell_server.adapters.postgres import migrations, named_queries
from openbell_server.adapters.postgres.connection import UNREACHABLE, Pool, describe_error, open_pool
from openbell_server.domain.errors import OperatorError

# In an upgrade, all processes are replaced while the database still has this schema; then it is migrated.
OLDEST: Final = "0001_baseline"
_ALL: Final = sorted(path.stem for path in Path(migrations.__path__[0], "versions").glob("0*.py"))
REVISIONS: Final = tuple(_ALL[_ALL.index(OLDEST) :])
NEWEST: Final = REVISIONS[-1]
_queries = named_queries.load("schema")


async def require_schema(pool: Pool, oldest: str = OLDEST) -> None:
    """Raise OperatorError if the schema is older than `oldest`, or unknown to this version."""
    try:
        revision = await _queries.schema_revision(pool)
    except (asyncpg.UndefinedTableError, asyncpg.InsufficientPrivilegeError):
        revision = None
    if revision is None or revision < oldest:
        raise OperatorError("The database has no schema that this version can use: run `openbell-server migrate`.")
    if revision not in REVISIONS:
        raise OperatorError(
            f"The database has the schema {revision}, newer than this version supports: start a newer one."
        )


@asynccontextmanager
async def operators_pool(url: str, connections_max: int, *, not_allowed: str, then: str) -> AsyncIterator[Pool]:
    """A pool for an operator's command. Raises OperatorError if the database is unreachable or not fully migrated."""
    try:
        async with await open_pool(url, connections_max=connections_max) as pool:
            await require_schema(pool, NEWEST)
            yield pool
    except asyncpg.InsufficientPrivilegeError as error:
        raise OperatorError(not_allowed) from error
    except UNREACHABLE as error:
        raise OperatorError(
            f"The database did not answer ({describe_error(error)}): check OPENBELL_DATABASE_URL and that the"
            f" server runs, {then}"
        ) from error
