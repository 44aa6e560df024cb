"""Every cell of the authorization table, called: who may do what to whose things, and what a refusal leaves behind."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import asyncpg

from openbell_server.adapters.postgres.connection import open_pool
from openbell_server.adapters.postgres.migrate import migrate
from openbell_server.devtools.background_services import create_databases
from openbell_server.devtools.local_services import LocalServices
from openbell_server.telemetry.logs import configure_logging
from proof.figures import Figures
from support.authorization.calls import Calls, Reply, fits, open_door
from support.authorization.expected_answers import Cell, all_cells, expected
from support.authorization.table import Object
from support.authorization.world import Members, World
from support.environment.logins import TEST_LOGIN, allow_every_login
from support.tenancy.statements import Owner

AT_ONCE = 16
SHOWN_MAX = 20
# A foreign thing and a missing one, which nobody may tell apart.
ALIKE = ((Object.FOREIGN, Object.MISSING), (Object.FOREIGN_INTENT, Object.MISSING_INTENT))
_PARTNERS = {each: pair for pair in ALIKE for each in pair}


def prove(figures: Figures) -> None:
    with migrated() as (owner_url, login_url):
        asyncio.run(_prove(figures, owner_url, login_url))


@contextlib.contextmanager
def migrated() -> Iterator[tuple[str, str]]:
    """A database with the schema: as its owner and as a login of the tests."""
    # A line for every call would take longer than the calls.
    configure_logging("proof", "ERROR")
    with LocalServices() as services:
        create_databases(services.postgres.url())
        owner_url = services.postgres.url("openbell")
        migrate(owner_url)
        allow_every_login(owner_url)
        yield owner_url, services.postgres.url("openbell", TEST_LOGIN)


async def _prove(figures: Figures, owner_url: str, login_url: str) -> None:
    owner = await connected(owner_url)
    try:
        members = Members()
        async with await open_pool(login_url) as pool, open_door(pool, members) as door:
            world = World(pool, owner, members)
            await world.open()
            await call_cells(figures, list(all_cells()), Run(Calls(world, door), owner))
    finally:
        await owner.close()


async def connected(owner_url: str) -> Owner:
    return await asyncpg.connect(owner_url, timeout=60, server_settings={"search_path": "openbell, pg_catalog"})


async def call_cells(figures: Figures, cells: list[Cell], run: "Run") -> None:
    chosen = cells if figures.size == "full" else sample(cells)
    for block in blocks(chosen):
        await run.block(block)
    for line in run.wrong[:SHOWN_MAX]:
        print(line)
    how = "cells called" if figures.size == "full" else f"cells called, a fixed sample of {len(cells)}"
    figures.exactly(how, run.ends.total(), len(chosen))
    for end in ("accepted", "refused"):
        figures.shown(f"cells {end}", run.ends[end])
    figures.exactly("cells answered otherwise than in the table", len(run.wrong), 0)
    figures.shown("pairs of a foreign and a missing thing", run.pairs)
    figures.exactly("pairs whose answers differ in any byte", run.told_apart, 0)
    figures.exactly("blocks of refused calls after which any row differs", run.left_behind, 0)


def sample(cells: list[Cell]) -> list[Cell]:
    """Of each caller and operation one cell in turn, of each operation each answer about each object one."""
    chosen: dict[str, None] = {}
    seen: set[object] = set()
    by_pair: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        if cell.object not in _PARTNERS:
            by_pair.setdefault((cell.caller.name, cell.row.name), []).append(cell)
        answered = cell.row.name, cell.object, expected(cell)
        if answered not in seen:
            seen.add(answered)
            chosen[cell.name] = None
    for number, group in enumerate(by_pair.values()):
        chosen[group[number * 7 % len(group)].name] = None
    # A foreign thing is always asked for together with a missing one.
    partnered = {(partner, *_rest(cell)) for cell in cells if cell.name in chosen for partner in _partners(cell)}
    return [cell for cell in cells if cell.name in chosen or (cell.object, *_rest(cell)) in partnered]


def _partners(cell: Cell) -> tuple[Object, ...]:
    return _PARTNERS.get(cell.object, ())


def _rest(cell: Cell) -> tuple[str, str, frozenset[str]]:
    return cell.caller.name, cell.row.name, cell.entitlements


def blocks(cells: Iterable[Cell]) -> list[list[Cell]]:
    """The cells of one caller together."""
    grouped: dict[str, list[Cell]] = {}
    for cell in cells:
        grouped.setdefault(cell.caller.name, []).append(cell)
    return list(grouped.values())


@dataclass
class Run:
    """What came of the calls."""

    calls: Calls
    owner: Owner
    fits: Callable[[Cell, Reply], bool] = fits
    ends: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    pairs: int = 0
    told_apart: int = 0
    left_behind: int = 0

    async def block(self, cells: list[Cell]) -> None:
        """First what is refused, between two looks at every row there is; then what is let in."""
        refused = [cell for cell in cells if expected(cell).refused]
        let_in = [cell for cell in cells if not expected(cell).refused]
        for cell in cells:
            # What a call needs is there before the first look.
            await self.calls.world.headers_of(await self.calls.world.place_of(cell), cell)
        before = await every_row(self.owner)
        replies = await self._call(refused)
        after = await every_row(self.owner)
        if before != after:
            self.left_behind += 1
            tables = [table for table in before if before[table] != after.get(table)]
            self.wrong.append(f"rows differ in {', '.join(tables)} after {cells[0].caller.name} was refused")
        self._compare(replies)
        await self._call(let_in)

    async def _call(self, cells: list[Cell]) -> dict[Cell, Reply]:
        replies: dict[Cell, Reply] = {}
        waiting = iter(cells)

        async def work() -> None:
            for cell in waiting:
                reply = await self.calls.call(cell)
                replies[cell] = reply
                self.ends["refused" if reply.status >= 400 else "accepted"] += 1
                if not self.fits(cell, reply):
                    answer = expected(cell)
                    told = reply.body[-200:].decode(errors="replace")
                    self.wrong.append(f"{cell.name}: {answer.status} {answer.code}, but {reply.status} {told}")

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))
        return replies

    def _compare(self, replies: dict[Cell, Reply]) -> None:
        found = {(cell.object, *_rest(cell)): reply for cell, reply in replies.items()}
        for foreign, missing in ALIKE:
            for place, reply in found.items():
                other = found.get((missing, *place[1:]))
                if place[0] is foreign and other is not None:
                    self.pairs += 1
                    self.told_apart += reply != other


async def every_row(owner: Owner) -> dict[str, tuple[int, int]]:
    """How many rows each table has, and a sum over what is in them.

    When a key was last used may change, and so may the numbers of open streams, which are renewed all the time.
    """
    tables = await owner.fetch(
        "select relname from pg_class where relnamespace = 'openbell'::regnamespace and relkind = 'r'"
        " and relname not in ('stream_counts', 'api_key_uses') order by 1"
    )
    parts = [
        f"select '{row['relname']}', count(*), "
        "coalesce(sum(hashtextextended((to_jsonb(t) - 'last_used_at')::text, 0)::numeric), 0)::text "
        f"from {row['relname']} t"
        for row in tables
    ]
    return {row[0]: (row[1], row[2]) for row in await owner.fetch(" union all ".join(parts))}
