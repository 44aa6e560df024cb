"""The page of the database's tables, views and functions by feature, made of the SQL files that create them."""

import re
from collections.abc import Iterator, Mapping

INTRODUCTION = (
    "# The schema\n\n"
    "On this page you find what each table contains, which tables it refers to, and which file creates it. "
    "`make generate` makes this page from the SQL of the migrations; change the SQL, not the page.\n\n"
    "Every table with an `organization_id` calls `protect_tenant_table`: PostgreSQL itself shows a transaction only "
    "the rows of the organization that it names ([decision 10](adr/0010-a-transaction-is-one-organizations.md)). "
    "These tables are marked *per organization*.\n"
)
FOLDER = "../server/src/openbell_server/adapters/postgres/migrations/"
COMMENT = r"((?:^--[^\n]*\n)*)^"
TABLE = re.compile(r"^create (?:table) (\w+) \(\n(.*?)\n\)[^\n]*;\n", re.MULTILINE | re.DOTALL)
HOLDS = re.compile(r"^comment on table (\w+) is\s+'((?:[^']|'')*)';", re.MULTILINE)
OTHER = re.compile(COMMENT + r"create (?:or replace )?(view|function|procedure) (\w+)", re.MULTILINE)
PRIMARY = re.compile(r"^    primary key \(([^)]+)\)", re.MULTILINE)
PRIMARY_COLUMN = re.compile(r"^    (\w+) [^\n]*primary key", re.MULTILINE)
FOREIGN = re.compile(r"^    foreign key \([^)]+\) references (\w+)", re.MULTILINE)
FOREIGN_COLUMN = re.compile(r"^    \w+ [^\n]*references (\w+)", re.MULTILINE)


def schema_page(files: Mapping[str, str]) -> str:
    """docs/schema.md, of the text of each file by its path in the folder of the migrations."""
    return INTRODUCTION + "".join(_section(path, sql) for path, sql in files.items())


def _section(path: str, sql: str) -> str:
    sql = sql.removeprefix("-- outside a transaction\n")
    lines = sql.splitlines()
    end = next(number for number, line in enumerate(lines) if not line.startswith("--"))
    title, _, about = _text("\n".join(lines[:end])).partition(": ")
    parts = [f"\n## {title}\n\n{about[:1].upper()}{about[1:]} Created by [{path}]({FOLDER}{path}).\n"]
    if tables := list(_tables(sql)):
        parts.append("\n| Table | What it holds | Primary key | Refers to |\n|---|---|---|---|\n" + "".join(tables))
    if others := list(_others("\n".join(lines[end:]))):
        parts.append("\n" + "".join(others))
    return "".join(parts)


def _tables(sql: str) -> Iterator[str]:
    holds = {name: text.replace("''", "'") for name, text in HOLDS.findall(sql)}
    for name, body in TABLE.findall(sql):
        if name not in holds:
            raise ValueError(f"table {name} has no `comment on table`")
        key = PRIMARY.findall(body) or PRIMARY_COLUMN.findall(body)
        refers = sorted({*FOREIGN.findall(body), *FOREIGN_COLUMN.findall(body)})
        whose = " *Per organization.*" if f"call protect_tenant_table('{name}')" in sql else ""
        yield f"| `{name}` | {holds[name]}{whose} | {_codes(key[0].split(', '))} | {_codes(refers)} |\n"


def _others(sql: str) -> Iterator[str]:
    for comment, kind, name in OTHER.findall(sql):
        text = _text(comment.removeprefix("-- apart\n"))
        if not text:
            raise ValueError(f"{kind} {name} has no comment before it")
        yield f"- {kind} `{name}`: {text}\n"


def _text(comment: str) -> str:
    return " ".join(line.removeprefix("--").strip() for line in comment.splitlines())


def _codes(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
