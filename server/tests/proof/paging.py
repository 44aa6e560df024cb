"""Lists and statistics: pages never skip or repeat, whoever writes, and no read grows with the history."""

import asyncio
import itertools
import logging
import random
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import asyncpg
import structlog

from builders import Tenant, a_cancel, a_market_create, a_tenant, accept, an_account
from openbell_server.adapters.postgres.connection import Pool, open_pool
from openbell_server.adapters.postgres.migrate import allow_login, migrate
from openbell_server.domain.cursors import seal
from openbell_server.domain.identifiers import IntentId
from openbell_server.domain.intent_statistics import TimeWindow
from openbell_server.domain.intents import Command
from openbell_server.processes.local_services import LocalServices
from openbell_server.processes.stack import APP_LOGIN
from proof.figures import Figures
from rest_api import CURSOR_KEY, RestApi, rest_api
from roll_ups import miscounted
from tenancy import Owner

SIZES = {
    "full": {"writers": 16, "accounts": 4, "actions": 30_000, "few": 10_000, "many": 1_000_000, "pairs": 9},
    "gate": {"writers": 4, "accounts": 2, "actions": 400, "few": 100, "many": 1_000, "pairs": 1},
}
SYMBOLS = ("AAPL", "MSFT", "SPY", "BRK.B")
# Each is followed by a reader of its own, with pages of random lengths.
FOLLOWED: tuple[dict[str, str], ...] = (
    {},
    {},
    {"symbol": "msft"},
    {"action_type": "CANCEL"},
    {"action_type": "CREATE", "symbol": "SPY"},
    {"client_reference_id": "every-tenth"},
)
SET_MAX = 32
# The schema before the counts: the long history is counted afterwards, as it is when a platform is upgraded.
UNCOUNTED = "0011_replace_orders"
UNSETTLED = 50
ROUNDS_PER_PAIR = 5
PAUSE_SECONDS = 0.05
SECONDS_MAX = 580


def prove(figures: Figures) -> None:
    # The application runs in this process; a line per request would hide the figures.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with LocalServices() as services:
        asyncio.run(asyncio.wait_for(_prove(figures, services), SECONDS_MAX))


async def _prove(figures: Figures, services: LocalServices) -> None:
    size = SIZES[figures.size]
    async with _database(services, "paging", "head") as (pool, api):
        await _read_while_writing(figures, services.postgres.url("paging"), pool, api, size)
    async with (
        _database(services, "few", UNCOUNTED) as (few_pool, few_api),
        _database(services, "many", UNCOUNTED) as (many_pool, many_api),
    ):
        few = await _grow(services.postgres.url("few"), few_pool, size["few"])
        begun = time.monotonic()
        many = await _grow(services.postgres.url("many"), many_pool, size["many"])
        figures.shown("seconds to write, index and count the long history", round(time.monotonic() - begun, 1))
        for url in ("few", "many"):
            async with await open_pool(services.postgres.url(url)) as owner:
                figures.exactly(f"miscounted after the migration, {url}", len(await miscounted(owner)), 0)
        histories = (_History(few_api, few, size["few"]), _History(many_api, many, size["many"]))
        await _compare(figures, histories, size["pairs"])


@asynccontextmanager
async def _database(services: LocalServices, name: str, revision: str) -> AsyncIterator[tuple[Pool, RestApi]]:
    """A database, the login of the processes on it, and the REST application of that login."""
    administrator = await asyncpg.connect(services.postgres.url(), timeout=10)
    await administrator.execute(f"create database {name}")
    await administrator.close()
    await asyncio.to_thread(migrate, services.postgres.url(name), revision)
    await asyncio.to_thread(allow_login, services.postgres.url(name), APP_LOGIN)
    async with (
        await open_pool(services.postgres.url(name, APP_LOGIN), connections_max=16) as pool,
        await open_pool(services.postgres.url(name, APP_LOGIN), connections_max=16) as api_pool,
        rest_api(api_pool) as api,
    ):
        yield pool, api


@dataclass
class _Reader:
    """Reads one list while it is written, page by page."""

    tenant: Tenant
    query: dict[str, str]
    seen: list[UUID] = field(default_factory=list)
    pages: int = 0

    async def read(self, api: RestApi, cursor: dict[str, str]) -> dict[str, Any]:
        answer = await api.read(self.tenant, limit=random.randint(1, 100), **self.query, **cursor)
        assert answer.status_code == 200, answer.text
        page: dict[str, Any] = answer.json()
        self.seen += [UUID(action["id"]) for action in page["data"]]
        self.pages += 1
        return page

    async def follow(self, api: RestApi, written: asyncio.Event) -> None:
        """By last_cursor, from the end of the list on with what came since."""
        cursor: dict[str, str] = {}
        while True:  # ends with the list, once all is written
            is_all_written = written.is_set()
            page = await self.read(api, cursor)
            if page["last_cursor"] is not None:
                cursor = {"next_cursor": page["last_cursor"]}
            if page["next_cursor"] is None:
                if is_all_written:
                    return
                await asyncio.sleep(PAUSE_SECONDS)

    async def walk(self, api: RestApi, written: asyncio.Event) -> None:
        """From the first page to the last, by next_cursor alone, until all is written, and then once more."""
        while True:
            is_all_written = written.is_set()
            self.seen.clear()
            cursor: dict[str, str] = {}
            while True:
                page = await self.read(api, cursor)
                if page["next_cursor"] is None:
                    break
                cursor = {"next_cursor": page["next_cursor"]}
            if is_all_written:
                return


async def _read_while_writing(figures: Figures, owner_url: str, pool: Pool, api: RestApi, size: dict[str, int]) -> None:
    first = await a_tenant(pool)
    organization = first.account.organization_id
    accounts = [first.account, *[await an_account(pool, organization) for _ in range(size["accounts"] - 1)]]
    tenants = [Tenant(account, first.principal, first.key) for account in accounts]
    followers = [_Reader(tenant, query) for tenant in tenants for query in FOLLOWED]
    walkers = [_Reader(tenant, {}) for tenant in tenants]
    written = asyncio.Event()
    reading = asyncio.gather(
        *(reader.follow(api, written) for reader in followers), *(reader.walk(api, written) for reader in walkers)
    )
    owner = await asyncpg.connect(owner_url, timeout=10, server_settings={"search_path": "openbell, pg_catalog"})
    numbers = itertools.count()
    begun = time.monotonic()
    writing = asyncio.gather(
        *(_write(pool, tenants[n % len(tenants)], numbers, size["actions"]) for n in range(size["writers"]))
    )
    while not writing.done():
        # As autovacuum does within a minute: plans made for an empty table do not fit a full one.
        await owner.execute("analyze")
        await asyncio.wait([writing], timeout=1)
    accepted = await writing
    figures.shown("writers", size["writers"])
    figures.shown("actions written per second while reading", round(sum(accepted) / (time.monotonic() - begun)))
    written.set()
    await reading
    figures.exactly("actions written", sum(accepted), size["actions"])
    figures.shown("pages read", sum(reader.pages for reader in (*followers, *walkers)))
    figures.shown("actions read", sum(len(reader.seen) for reader in (*followers, *walkers)))
    faults: Counter[str] = Counter()
    for reader in (*followers, *walkers):
        faults.update(await _faults(owner, reader))
    await owner.close()
    for fault in ("skipped", "repeated", "out of order", "not asked for"):
        figures.exactly(f"actions {fault}", faults[fault], 0)


async def _write(pool: Pool, tenant: Tenant, numbers: "itertools.count[int]", actions: int) -> int:
    """Sets of creates, and every tenth time a cancel of what this writer created before."""
    created: list[IntentId] = []
    done = 0
    while turn := [n for n in itertools.islice(numbers, random.randint(1, SET_MAX)) if n < actions]:
        submissions = [tenant.submission(_asked(number, created)) for number in turn]
        accepted = await accept(pool, *submissions)
        assert {one.status for one in accepted} == {"ACCEPTED"}, accepted
        done += len(accepted)
        created += [one.intent_id for one, number in zip(submissions, turn, strict=True) if number % 10 == 7]
    return done


def _asked(number: int, created: list[IntentId]) -> Command:
    if number % 10 == 3 and created:
        return a_cancel(created.pop())
    return a_market_create(symbol=SYMBOLS[number % 3], reference="every-tenth" if number % 10 == 0 else None)


# The rows that the accept step and the executor leave, table by table, evenly over thirty days. Twenty are rare.
_PAST = """
select n, $1::uuid as organization_id, $2::uuid as account_id,
    ('0190' || lpad(to_hex(n), 8, '0') || '70008000' || repeat('0', 11) || '1')::uuid as action_id,
    ('0190' || lpad(to_hex(n), 8, '0') || '70008000' || repeat('0', 11) || '2')::uuid as intent_id,
    ('0190' || lpad(to_hex(n), 8, '0') || '70008000' || repeat('0', 11) || '3')::uuid as receipt_id,
    case n % ($3 / 20) when 7 then 'RARE' else (array['AAPL', 'MSFT', 'SPY', 'BRK.B'])[1 + n % 4] end as symbol,
    case n % ($3 / 20) when 7 then 'rare' else 'r' || n end as reference,
    now() - ($3 + 1 - n) * interval '30 days' / ($3 + 1) as created_at, $4::smallint as slot
from generate_series(1, $3::bigint) n
"""
_MONTH = (
    f"""insert into orders (
        organization_id, account_id, order_id, symbol, order_side, order_type, route_strategy, quantity, time_in_force,
        client_reference_id, filled_quantity, filled_value, standing, close_reason, pending, created_at, updated_at
    )
    select organization_id, account_id, intent_id, symbol, 'BUY', 'MARKET', 'SMART', 10, 'DAY', reference, 10, 10,
        'CLOSED', 'FILLED', 'NONE', created_at, created_at from ({_PAST}) p""",
    f"""insert into intent_actions (
        organization_id, account_id, intent_id, seq, action_id, action_no, chained_from, action_type, symbol,
        order_side, order_type, route_strategy, quantity, time_in_force, client_reference_id, principal_type,
        principal_id, receipt_id, created_at, hash
    )
    select organization_id, account_id, intent_id, 1, action_id, n, n, 'CREATE', symbol, 'BUY', 'MARKET', 'SMART', 10,
        'DAY', reference, 'API_KEY', 'past', receipt_id, created_at, sha256(n::text::bytea) from ({_PAST}) p""",
    f"""insert into action_states (
        organization_id, account_id, action_id, intent_id, seq, action_no, action_type, slot, state, attempt_id,
        send_started_at, queued_at, updated_at, settled_at
    )
    select organization_id, account_id, action_id, intent_id, 1, n, 'CREATE', slot, 'ACKED', action_id,
        created_at + random() * interval '50 milliseconds', created_at, created_at, created_at from ({_PAST}) p""",
    f"""insert into receipts (
        organization_id, account_id, receipt_id, intent_id, seq, verdict, body, hash, created_at
    )
    select organization_id, account_id, receipt_id, intent_id, 1, 'PASSED', '{{}}', sha256('{{}}'), created_at
    from ({_PAST}) p""",
    f"""insert into account_events (organization_id, account_id, event_no, kind, intent_id, seq, occurred_at)
    select organization_id, account_id, n, 1, intent_id, 1, created_at from ({_PAST}) p""",
    """update account_counters set action_no = $3, event_no = $3
    where organization_id = $1 and account_id = $2 and slot = $4""",
)
_ASKED_FOR = """
select action_id from intent_actions
where account_id = $1 and ($2::text is null or symbol = upper($2)) and ($3::text is null or action_type = $3)
    and ($4::text is null or client_reference_id = $4)
order by action_no
"""


async def _faults(owner: Owner, reader: _Reader) -> Counter[str]:
    wanted = (reader.query.get(name) for name in ("symbol", "action_type", "client_reference_id"))
    rows = await owner.fetch(_ASKED_FOR, reader.tenant.account.id, *wanted)
    place = {row["action_id"]: number for number, row in enumerate(rows)}
    places = [place[action] for action in reader.seen if action in place]
    return Counter(
        {
            "skipped": len(place.keys() - set(reader.seen)),
            "repeated": len(reader.seen) - len(set(reader.seen)),
            "out of order": sum(later < earlier for earlier, later in itertools.pairwise(places)),
            "not asked for": len(set(reader.seen) - place.keys()),
        }
    )


async def _grow(owner_url: str, pool: Pool, actions: int) -> Tenant:
    """An account with a month's history, then the schema migrated over it, then some actions that wait."""
    tenant = await a_tenant(pool)
    owner = await asyncpg.connect(owner_url, timeout=10, server_settings={"search_path": "openbell, pg_catalog"})
    # Row by row the foreign keys would be asked for what is so by construction.
    await owner.execute("set session_replication_role = replica")
    for statement in _MONTH:
        await owner.execute(
            statement, tenant.account.organization_id, tenant.account.id, actions, tenant.account.slot, timeout=300
        )
    await owner.execute("vacuum analyze", timeout=300)
    await owner.close()
    await asyncio.to_thread(migrate, owner_url)
    await accept(pool, *(tenant.submission() for _ in range(UNSETTLED)))
    return tenant


@dataclass(frozen=True)
class _History:
    """An account with many or few actions, and how long its reads take."""

    api: RestApi
    tenant: Tenant
    actions: int

    def lists(self) -> list[dict[str, str]]:
        """The first page, one deep in the history, the last, and some by filter."""
        account = self.tenant.account
        scope = f"intents {account.organization_id} {account.id}"
        deep = (self.actions // 2, self.actions - 60)
        return [
            {},
            *({"next_cursor": seal(CURSOR_KEY, scope, number)} for number in deep),
            {"symbol": "RARE"},
            {"symbol": "AAPL"},
            {"client_reference_id": "rare"},
            {"action_type": "CREATE"},
            {"created_after": "2001-01-01T00:00:00Z", "symbol": "MSFT"},
        ]

    async def seconds(self, below: str, query: dict[str, str]) -> float:
        begun = time.perf_counter()
        answer = await self.api.read(self.tenant, below, **query)
        took = time.perf_counter() - begun
        assert answer.status_code == 200, answer.text
        return took


async def _compare(figures: Figures, histories: tuple[_History, _History], pairs: int) -> None:
    """Reads of both histories in turn, so that whatever else the machine does meets both."""
    few, many = histories
    stats = [{"time_window": window} for window in TimeWindow]
    for what, below, queries in (
        ("list", "", [few.lists(), many.lists()]),
        ("stats", "/stats", [stats, stats]),
    ):
        ratios, medians = [], []
        for number in range(pairs + 1):
            took: tuple[list[float], list[float]] = ([], [])
            for _ in range(ROUNDS_PER_PAIR):
                for both in zip(*queries, strict=True):
                    for history, query, times in zip(histories, both, took, strict=True):
                        times.append(await history.seconds(below, query))
            # The first pair warms both up.
            if number:
                medians.append([statistics.median(times) * 1000 for times in took])
                ratios.append(medians[-1][1] / medians[-1][0])
        for history, those in zip(histories, zip(*medians, strict=True), strict=True):
            figures.shown(f"{what} p50 at {history.actions} actions, ms", round(statistics.median(those), 2))
        figure = f"{what} p50, the long history's against the short one's, median of {pairs} pairs"
        ratio = round(statistics.median(ratios), 2)
        if figures.size == "full":
            figures.at_most(figure, ratio, 2)
        else:
            figures.shown(figure, ratio)
