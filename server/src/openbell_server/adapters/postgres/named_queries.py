"""Loads the named statements of a .sql file; file names are unique across the feature folders."""

import re
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
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
_STATEMENT: Final = re.compile(r"^-- name: (\w+)\(.*\n([^;]+);", re.MULTILINE)
_COMMENT: Final = re.compile(r"^ *--(?! name:).*\n", re.MULTILINE)
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


def array_of_numbers(numbers: Collection[int]) -> str:
    """A PostgreSQL array as text, for a parameter like :slots::text::smallint[].

    Of an array the driver inspects each element three times, which costs more than the rest of a short statement.
    """
    return "{" + ",".join(map(str, numbers)) + "}"


def statements(name: str) -> dict[str, str]:
    """The text of each statement of `<name>.sql` without its comments, to be used as a part of another one."""
    return dict(_STATEMENT.findall(_COMMENT.sub("", _text(name, {}))))


def load(name: str, replacements: Mapping[str, str] | None = None) -> Any:  # noqa: ANN401 - stores annotate results
    """The statements of `<name>.sql` as methods that take a connection.

    Each `{key}` is replaced by its value, and each `{part}` by the text of the file's part.
    """
    # The signatures are narrower than the library's: no record class is used here.
    return aiosql.from_str(_text(name, replacements or {}), _PlainAdapter)  # type: ignore[arg-type]


def _text(name: str, replacements: Mapping[str, str]) -> str:
    text = FILES[name].read_text()
    parts = dict(_PART.findall(text))
    for key, value in {**parts, **replacements}.items():
        text = text.replace("{" + key + "}", value)
    return text
