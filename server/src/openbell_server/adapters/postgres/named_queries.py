"""Loads the named statements of a .sql file that lies beside the store that runs them."""

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiosql
import asyncpg
from aiosql.adapters.asyncpg import AsyncPGAdapter

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record] | asyncpg.Pool[asyncpg.Record]
Parameters = dict[str, Any]


class _PlainAdapter(AsyncPGAdapter):
    """The library's own looks through all names of a connection before every statement, to tell it from a pool.

    That costs more than anything else it does, and a pool answers these calls itself.
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
        """Rows, all of them in memory."""
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
        """The first row."""
        return await conn.fetchrow(sql, *self._in_order(query_name, parameters))

    async def select_value(self, conn: "Connection", query_name: str, sql: str, parameters: Parameters) -> object:
        """The first value of the first row."""
        found: object = await conn.fetchval(sql, *self._in_order(query_name, parameters))
        return found

    async def insert_update_delete(self, conn: "Connection", query_name: str, sql: str, parameters: Parameters) -> str:
        """What the server says it did."""
        return await conn.execute(sql, *self._in_order(query_name, parameters))


def load(name: str, words: Mapping[str, str] | None = None) -> Any:  # noqa: ANN401 - each store states the types of its own
    """The statements of `<name>.sql`, as methods that take a connection; words in braces stand for what differs."""
    text = Path(__file__).with_name(f"{name}.sql").read_text()
    for word, meaning in (words or {}).items():
        text = text.replace("{" + word + "}", meaning)
    # Its signatures are narrower than the library's: no record class is ever given here.
    return aiosql.from_str(text, _PlainAdapter)  # type: ignore[arg-type]
