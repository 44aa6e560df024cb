"""Which statements PostgreSQL ran, by the names that they have in the product's .sql files."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import openbell_server
from openbell_server.devtools.local_postgres import find_postgres

LIBRARY: Final = "pg_stat_statements"
# What is counted is not set here: a setting of the command line could not be changed while the server runs.
OPTIONS: Final = {
    "shared_preload_libraries": LIBRARY,
    f"{LIBRARY}.track_utility": "on",
    f"{LIBRARY}.max": "5000",
}
# What the platform ran, not what its functions ran inside, nor what the meter did.
READ: Final = """
select d.datname as database, s.query, s.calls, s.total_exec_time as millis
from pg_stat_statements s join pg_database d on d.oid = s.dbid join pg_roles r on r.oid = s.userid
where s.toplevel and (d.datname = 'openbell_paper' or d.datname = 'openbell' and r.rolname <> 'openbell')
"""
_NAME: Final = re.compile(r"(?m)^-- name: ")
_QUERY_SHOWN: Final = 90


@dataclass(frozen=True, slots=True)
class Statement:
    """How often a statement ran for an intent, and how long it took."""

    database: str
    name: str
    calls: float
    millis: float


@cache
def is_countable() -> bool:
    """Whether the PostgreSQL that is used here can count statements."""
    return any((find_postgres().parent / "lib").rglob(f"{LIBRARY}.*"))


def name_of(query: str) -> str:
    """The name in the .sql file, or how the statement begins."""
    return _names().get(_skeleton(query)) or re.sub(r"\s+", " ", query)[:_QUERY_SHOWN]


def merged(statements: Iterable[Statement]) -> list[Statement]:
    """One of each name, the slowest first."""
    sums: dict[tuple[str, str], tuple[float, float]] = {}
    for each in statements:
        calls, millis = sums.get((each.database, each.name), (0.0, 0.0))
        sums[each.database, each.name] = (calls + each.calls, millis + each.millis)
    found = [Statement(database, name, *sum_) for (database, name), sum_ in sums.items()]
    return sorted(found, key=lambda each: -each.millis)


@cache
def _names() -> dict[str, str]:
    found = {}
    for file in Path(openbell_server.__file__).parent.rglob("*.sql"):
        for part in _NAME.split(file.read_text())[1:]:
            name, _, statement = part.partition("\n")
            found[_skeleton(statement)] = f"{file.stem}.{name.partition('(')[0].strip().rstrip('^$!<*#')}"
    return found


def _skeleton(statement: str) -> str:
    """The statement without comments, values and spaces."""
    for pattern, instead in (
        (r"--[^\n]*", ""),
        (r"'[^']*'", "?"),
        (r"(?<!:):[a-z_]+", "?"),
        (r"\$\d+", "?"),
        (r"\b\d+\b", "?"),
        (r"\s+", ""),
    ):
        statement = re.sub(pattern, instead, statement)
    return statement.rstrip(";").lower()
