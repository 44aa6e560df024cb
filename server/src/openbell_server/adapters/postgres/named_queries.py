"""Loads the named statements of a .sql file; file names are unique across the feature folders."""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import aiosql
import asyncpg
from aiosql.adapters.asyncpg import AsyncPGAdapter

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record] | asyncpg.Pool[asyncpg.Record]
Parameters = dict[str, Any]
_FOLDER: Final = Path(__file__).parent
FILES: Final = {path.stem: path for path in [*_FOLDER.glob("*.sql"), *_FOLDER.glob("*/*.sql")]}
# A text that several statements of a file contain: `-- part: <name>`, then the text up to an empty line.
_PART: Final = re.compile(r"^-- part: (\w+)\n(.+?)\n\n", re.DOTALL | re.MULTILINE)


class _PlainAdapter(AsyncPGAdapter):
    """Calls connection and pool alike.

    The library's adapter inspects all attributes of a connection before every statement, to distinguish it from a pool,
    which is its largest cost. A pool has the same methods.
    """

    def _in_order(self, query_name: str, parameters: Parameters) -> Sequence[Any]:
        # The library's method has no types.
        ordered: Sequence[Any] = self.maybe_order_params(query_name, parameters)  # type: ignore[no-untyped-call]
        return ordered

    async def select(
        self,
        conn: "Connection",
        query_name: str,
        sql: str,
        parameters: Parameters,
        _: object = None,
    ) -> AsyncIterator[asyncpg.Record]:
        for record in await conn.fetch(sql, *self._in_order(query_name, parameters)):
            yield record

    async def select_one(
        self,
        conn: "Connection",
        query_name: str,
        sql: str,
        parameters: Parameters,
        _: object = None,
    ) -> asyncpg.Record | None:
        return await conn.fetchrow(sql, *self._in_order(query_name, parameters))

    async def select_value(self, conn: "Connection", query_name: str, sql: str, parameters: Parameters) -> object:
        found: object = await conn.fetchval(sql, *self._in_order(query_name, parameters))
        return found

    async def insert_update_delete(self, conn: "Connection", query_name: str, sql: str, parameters: Parameters) -> str:
        return await conn.execute(sql, *self._in_order(query_name, parameters))


def load(name: str, replacements: Mapping[str, str] | None = None) -> Any:  # noqa: ANN401 - stores annotate results
    """The statements of `<name>.sql` as methods that take a connection.

    Each `{key}` is replaced by its value, and each `{part}` by the text of the file's part.
    """
    text = FILES[name].read_text()
    parts = dict(_PART.findall(text))
    for key, value in {**parts, **(replacements or {})}.items():
        text = text.replace("{" + key + "}", value)
    # The signatures are narrower than the library's: no record class is used here.
    return aiosql.from_str(text, _PlainAdapter)  # type: ignore[arg-type]
