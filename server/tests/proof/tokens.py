"""Bad access tokens and bad API keys against every operation: none is let in, and all bad keys take the same steps."""

import asyncio
import contextlib
import hmac
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from time import monotonic

import asyncpg

from openbell_server.adapters.postgres.connection import Pool, open_pool
from openbell_server.adapters.postgres.migrate import migrate
from openbell_server.devtools.background_services import create_databases
from openbell_server.devtools.local_services import LocalServices
from openbell_server.domain.access.principals import PERMISSIONS
from openbell_server.telemetry.logs import configure_logging
from proof.figures import Figures
from support.authorization.callers import PAPER
from support.authorization.calls import Calls, Door, Reply, Target, open_door
from support.authorization.expected_answers import Cell, all_cells, expected
from support.authorization.table import ENTITLEMENT_SETS, Object
from support.authorization.world import Members, Place, World
from support.environment.logins import TEST_LOGIN, allow_every_login
from support.identity.bad_keys import BAD_KEYS, Headers, Ring, an_unknown_key
from support.identity.bad_tokens import BAD_TOKENS

AT_ONCE = 16
# A machine may be so busy that a statement has no time.
UNAVAILABLE_SECONDS = 60.0
SHOWN_MAX = 20
# At the gate each bad credential is tried on so many operations, on others each time.
OPERATIONS_AT_GATE = 3
EVERYTHING = ENTITLEMENT_SETS[-1]


def prove(figures: Figures) -> None:
    configure_logging("proof", "ERROR")
    with LocalServices() as services:
        create_databases(services.postgres.url())
        owner_url = services.postgres.url("openbell")
        migrate(owner_url)
        allow_every_login(owner_url)
        asyncio.run(_prove(figures, owner_url, services.postgres.url("openbell", TEST_LOGIN)))


async def _prove(figures: Figures, owner_url: str, login_url: str) -> None:
    owner = await asyncpg.connect(owner_url, timeout=60, server_settings={"search_path": "openbell, pg_catalog"})
    members = Members()
    try:
        async with (
            await open_pool(login_url) as pool,
            await open_pool(login_url, connections_max=1) as lone,
            open_door(pool, members) as door,
        ):
            world = World(pool, owner, members)
            await world.open()
            targets = {cell.row.name: await Calls(world, door).target(cell) for cell in let_in()}
            place = await world.place_of(let_in()[0])
            ring = await a_ring(world, place)
            await _try_all(figures, door, targets, ring)
            await _compare_steps(figures, world, place, lone, targets)
    finally:
        await owner.close()


def let_in() -> list[Cell]:
    """Of each operation a call that only its caller could spoil."""
    found: dict[str, Cell] = {}
    for cell in all_cells():
        whole = cell.object is Object.OWN and cell.entitlements == EVERYTHING and not expected(cell).refused
        if whole:
            found.setdefault(cell.row.name, cell)
    return list(found.values())


async def a_ring(world: World, place: Place) -> Ring:
    """Keys that may do everything, of which some are no longer good."""

    async def key(change: str | None = None, environment: str = PAPER) -> str:
        key_id, text = await world.a_key(place, environment, PERMISSIONS)
        if change:
            await world.owner.execute(f"{change} where api_key_id = $1", key_id)
        return text

    return Ring(
        good=await key(),
        other=await key(),
        live=await key(environment="live"),
        revoked=await key("update api_keys set revoked_at = clock_timestamp()"),
        expired=await key("update api_keys set expires_at = clock_timestamp() - interval '1 second'"),
        deleted=await key("delete from api_keys"),
    )


@dataclass
class Tries:
    """What came of the calls."""

    ends: Counter[str] = field(default_factory=Counter)
    accepted: list[str] = field(default_factory=list)

    async def run(self, door: Door, calls: list[tuple[str, str, Target, Headers]]) -> None:
        waiting = iter(calls)

        async def work() -> None:
            for kind, name, target, headers in waiting:
                try:
                    reply = await _answer(door, target, headers)
                except ValueError:
                    # What gRPC cannot send comes to nobody.
                    self.ends[f"{kind} that cannot be sent"] += 1
                    continue
                # The stream takes 8 KiB of metadata, and says of more that it is too much.
                if reply.status in {400, 401} or (reply.status == 429 and target.method.startswith("trading.")):
                    self.ends[f"{kind} refused"] += 1
                else:
                    self.accepted.append(f"{kind} {name} on {target.method} {target.path}: {reply.status}")

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))


async def _answer(door: Door, target: Target, headers: Headers) -> Reply:
    """Of a platform that is unavailable for a moment, the answer after it."""
    deadline = monotonic() + UNAVAILABLE_SECONDS
    while True:
        reply = await door.send(target, headers)
        if reply.status != 503 or monotonic() > deadline:
            return reply
        await asyncio.sleep(0.5)


async def _try_all(figures: Figures, door: Door, targets: dict[str, Target], ring: Ring) -> None:
    names = list(targets)
    calls = []
    for number, (kind, name, headers) in enumerate(_credentials(ring)):
        some = range(OPERATIONS_AT_GATE) if figures.size == "gate" else range(len(names))
        for step in some:
            operation = names[(number * OPERATIONS_AT_GATE + step) % len(names)]
            calls.append((kind, name, targets[operation], headers))
    tries = Tries()
    await tries.run(door, calls)
    for line in tries.accepted[:SHOWN_MAX]:
        print(line)
    figures.at_least("bad tokens", len(BAD_TOKENS), 60)
    figures.at_least("bad keys", len(BAD_KEYS), 40)
    figures.shown("operations", len(names))
    figures.exactly("calls with a bad token or key", tries.ends.total() + len(tries.accepted), len(calls))
    for end in sorted(tries.ends):
        figures.shown(f"calls with {end}", tries.ends[end])
    figures.exactly("calls with a bad token or key that were accepted", len(tries.accepted), 0)


def _credentials(ring: Ring) -> Iterator[tuple[str, str, Headers]]:
    for token in BAD_TOKENS:
        # Between the scheme and its token there may be any number of spaces: this one is good, once it is in a header.
        if token.name == "space before":
            continue
        yield "a bad token", token.name, [("authorization", f"Bearer {token.make()}")]
    for key in BAD_KEYS:
        yield "a bad key", key.name, key.make(ring)


@dataclass
class Steps:
    """What one call made the platform do."""

    statements: list[str] = field(default_factory=list)
    compared: int = 0


@contextlib.asynccontextmanager
async def watched(pool: Pool) -> AsyncIterator[Steps]:
    """Every statement on the pool's one connection, and every comparison in constant time."""
    steps, compare = Steps(), hmac.compare_digest

    def note(record: asyncpg.connection.LoggedQuery) -> None:
        steps.statements.append(record.query)

    def counted(one: bytes, other: bytes) -> bool:
        steps.compared += 1
        return compare(one, other)

    async with pool.acquire() as connection:
        connection.add_query_logger(note)
    hmac.compare_digest = counted  # type: ignore[assignment]
    try:
        yield steps
    finally:
        hmac.compare_digest = compare
        async with pool.acquire() as connection:
            connection.remove_query_logger(note)


async def _compare_steps(figures: Figures, world: World, place: Place, lone: Pool, targets: dict[str, Target]) -> None:
    """Keys that are looked up run the same statements and one comparison, whatever is wrong with them."""
    some = list(targets.items())
    if figures.size == "gate":
        some = some[:1] + some[-OPERATIONS_AT_GATE:]
    uneven, blind, tried = 0, 0, 0
    compared: Counter[int] = Counter()
    async with open_door(lone, world.members) as door:
        # What is done once for all keys is done before the first.
        await door.send(some[0][1], [("x-api-key", an_unknown_key())])
        for _, target in some:
            ways = set()
            for key in (key for key in BAD_KEYS if key.known):
                # New ones each time: nothing is remembered of them.
                steps = await _steps(lone, door, target, key.make(await a_ring(world, place)))
                ways.add(tuple(steps.statements))
                compared[steps.compared] += 1
            uneven += len(ways) != 1
        ring = await a_ring(world, place)
        for key in BAD_KEYS:
            headers = key.make(ring)
            if not key.known and [name for name, _ in headers] == ["x-api-key"]:
                steps = await _steps(lone, door, some[0][1], headers)
                blind += len(steps.statements) + steps.compared
                tried += 1
    figures.shown("operations on which the steps of bad keys were watched", len(some))
    figures.exactly("operations on which one bad key runs other statements than the next", uneven, 0)
    figures.exactly("well-formed bad keys that were not compared exactly once", compared.total() - compared[1], 0)
    figures.shown("malformed keys watched", tried)
    figures.exactly("statements and comparisons for malformed keys", blind, 0)


async def _steps(lone: Pool, door: Door, target: Target, headers: Headers) -> Steps:
    async with watched(lone) as steps:
        reply = await door.send(target, headers)
    assert reply.status == 401, reply
    return steps
