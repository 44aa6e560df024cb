"""Lists and statistics: pages never skip or repeat, whoever writes, and no read grows with the history."""

import asyncio
import itertools
import logging
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import asyncpg
import structlog

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.devtools.local_services import LocalServices
from openbell_server.domain.identifiers import IntentId
from openbell_server.domain.orders.intents import Command
from proof.figures import Figures
from proof.long_history import compare_histories, rest_database
from support.builders.tenant import Tenant, a_cancel, a_market_create, a_tenant, accept, an_account
from support.rest.rest_api import RestApi
from support.tenancy.statements import Owner

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
PAUSE_SECONDS = 0.05
SECONDS_MAX = 580


def prove(figures: Figures) -> None:
    # The application runs in this process; a line per request would hide the figures.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with LocalServices() as services:
        asyncio.run(asyncio.wait_for(_prove(figures, services), SECONDS_MAX))


async def _prove(figures: Figures, services: LocalServices) -> None:
    size = SIZES[figures.size]
    async with rest_database(services, "paging", "head") as (pool, api):
        await _read_while_writing(figures, services.postgres.url("paging"), pool, api, size)
    await compare_histories(figures, services, size["few"], size["many"], size["pairs"])


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
    owner = await asyncpg.connect(owner_url, timeout=60, server_settings={"search_path": "openbell, pg_catalog"})
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
    for fault in ("skipped", "repeated", "out of order", "that no client requested"):
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
            "that no client requested": len(set(reader.seen) - place.keys()),
        }
    )
