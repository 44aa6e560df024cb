"""An account with a long history and one with a short one: what is asked of them must take the same time."""

import asyncio
import itertools
import statistics
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import asyncpg
import httpx

from openbell_server.adapters.postgres.connection import Pool, open_pool
from openbell_server.adapters.postgres.migrate import migrate
from openbell_server.adapters.postgres.schema import OLDEST
from openbell_server.devtools.local_services import LocalServices
from openbell_server.domain.events.cursors import seal
from openbell_server.domain.orders.intent_statistics import TimeWindow
from proof.figures import Figures
from proof.organization_lists import an_organization_with_orders
from support.builders.tenant import Tenant, a_tenant, accept
from support.environment.logins import TEST_LOGIN, allow_every_login
from support.environment.statistics_check import miscounted
from support.rest.rest_api import CURSOR_KEY, RestApi, create_body, rest_api

UNSETTLED = 50
ROUNDS_PER_PAIR = 5
RATIO_MAX = 1.5
Ask = Callable[[], Coroutine[None, None, httpx.Response]]
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
    # The triggers that count are off while the history is written.
    f"""insert into intent_counts (organization_id, account_id, span, starts_at, dimension, value, count)
    select f.organization_id, f.account_id, s.span, s.starts_at, f.dimension, f.value, count(*)
    from (
        select p.*, 'ACTION' as dimension, concat_ws(' ', symbol, 'BUY', 'CREATE') as value from ({_PAST}) p
        union all
        select p.*, 'OUTCOME', outcome_value('ACKED', p.created_at, a.send_started_at)
        from ({_PAST}) p join action_states a on a.account_id = p.account_id and a.action_id = p.action_id
    ) f
    cross join lateral spans_of(f.created_at) s
    group by 1, 2, 3, 4, 5, 6""",
    """insert into intent_counted (organization_id, account_id, actions_to)
    select organization_id, account_id, $3 from account_counters
    where organization_id = $1 and account_id = $2 and slot = $4""",
)


@asynccontextmanager
async def rest_database(services: LocalServices, name: str, revision: str) -> AsyncIterator[tuple[Pool, RestApi]]:
    """A database, the login of the processes on it, and the REST application of that login."""
    administrator = await asyncpg.connect(services.postgres.url(), timeout=60)
    await administrator.execute(f"create database {name}")
    await administrator.close()
    await asyncio.to_thread(migrate, services.postgres.url(name), revision)
    await asyncio.to_thread(allow_every_login, services.postgres.url(name))
    async with (
        await open_pool(services.postgres.url(name, TEST_LOGIN), connections_max=16) as pool,
        await open_pool(services.postgres.url(name, TEST_LOGIN), connections_max=16) as api_pool,
        rest_api(api_pool) as api,
    ):
        yield pool, api


async def compare_histories(figures: Figures, services: LocalServices, few: int, many: int, pairs: int) -> None:
    """What a caller waits for with a few actions in an account, and with many."""
    async with (
        rest_database(services, "few", OLDEST) as (few_pool, few_api),
        rest_database(services, "many", OLDEST) as (many_pool, many_api),
    ):
        short = await _grow(services.postgres.url("few"), few_pool, few)
        begun = time.monotonic()
        long = await _grow(services.postgres.url("many"), many_pool, many)
        figures.shown("seconds to write, index and count the long history", round(time.monotonic() - begun, 1))
        for url in ("few", "many"):
            async with await open_pool(services.postgres.url(url)) as owner:
                figures.exactly(f"miscounted after the migration, {url}", len(await miscounted(owner)), 0)
        histories = (_History(few_api, short, few), _History(many_api, long, many))
        for what, ask in _HISTORIES_ASKED.items():
            await _compare(figures, what, (few, many), [ask(each) for each in histories], pairs)
        lists = [
            await an_organization_with_orders(services.postgres.url(name), pool, api, orders)
            for name, pool, api, orders in (("few", few_pool, few_api, few), ("many", many_pool, many_api, many))
        ]
        for (what, query), (_, same) in zip(*(each.queries() for each in lists), strict=True):
            name = " ".join(
                [what, *(f"{each}={value}" if each != "account_id" else each for each, value in query.items())]
            )
            asks = [[partial(each.read, what, asked)] * 8 for each, asked in zip(lists, (query, same), strict=True)]
            await _compare(figures, f"newest {name}", (few, many), asks, pairs)


async def _grow(owner_url: str, pool: Pool, actions: int) -> Tenant:
    """An account with a month's history, then the schema migrated over it, then some actions that wait."""
    tenant = await a_tenant(pool)
    await write_history(owner_url, tenant, actions)
    await asyncio.to_thread(migrate, owner_url)
    # What a server does by itself within minutes; which plan a statement keeps must not depend on when it did.
    owner = await asyncpg.connect(owner_url, timeout=60)
    await owner.execute("analyze", timeout=300)
    await owner.close()
    await accept(pool, *(tenant.submission() for _ in range(UNSETTLED)))
    return tenant


async def write_history(owner_url: str, tenant: Tenant, actions: int) -> None:
    """A month of settled orders in an account that has none."""
    account = tenant.account
    await write_settled_orders(owner_url, [(account.organization_id, account.id, account.slot)], actions)


async def write_settled_orders(owner_url: str, accounts: Sequence[Sequence[object]], actions: int) -> None:
    """The same for accounts given by organization, id and slot; at least twenty for each."""
    owner = await asyncpg.connect(owner_url, timeout=60, server_settings={"search_path": "openbell, pg_catalog"})
    # Row by row the foreign keys would be asked for what is so by construction.
    await owner.execute("set session_replication_role = replica")
    for organization_id, account_id, slot in accounts:
        # One transaction, so that now() is the same in every table.
        async with owner.transaction():
            for statement in _MONTH:
                await owner.execute(statement, organization_id, account_id, actions, slot, timeout=300)
    await owner.execute("vacuum analyze", timeout=300)
    await owner.close()


@dataclass(frozen=True)
class _History:
    """An account with many or few actions, and how it is asked."""

    api: RestApi
    tenant: Tenant
    actions: int
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def lists(self) -> list[Ask]:
        """The first page, one deep in the history, the last, and some by filter."""
        account = self.tenant.account
        scope = f"intents {account.organization_id} {account.id}"
        deep = (self.actions // 2, self.actions - 60)
        queries: list[dict[str, str]] = [
            {},
            *({"next_cursor": seal(CURSOR_KEY, scope, number)} for number in deep),
            {"symbol": "RARE"},
            {"symbol": "AAPL"},
            {"client_reference_id": "rare"},
            {"action_type": "CREATE"},
            {"since": "2001-01-01T00:00:00Z", "symbol": "MSFT"},
        ]
        return [self._read("", **query) for query in queries]

    def statistics(self) -> list[Ask]:
        return [self._read("/stats", time_window=window) for window in TimeWindow]

    def latest(self) -> list[Ask]:
        """Of intents old and young."""
        numbers = (self.actions * tenth // 10 for tenth in range(1, 10))
        return [
            self._read(f"/0190{number >> 16:04x}-{number & 0xFFFF:04x}-7000-8000-000000000002") for number in numbers
        ]

    def submits(self) -> list[Ask]:
        async def submit() -> httpx.Response:
            return await self.api.submit(self.tenant, create_body(), key=f"again-{next(self._numbers)}")

        return [submit] * 8

    def _read(self, below: str, **query: str) -> Ask:
        return lambda: self.api.read(self.tenant, below, **query)


_HISTORIES_ASKED: Final[Mapping[str, Callable[[_History], list[Ask]]]] = {
    "submit": _History.submits,
    "list": _History.lists,
    "latest": _History.latest,
    "stats": _History.statistics,
}


async def _compare(
    figures: Figures, what: str, sizes: tuple[int, int], asks: Sequence[Sequence[Ask]], pairs: int
) -> None:
    """Both histories in turn, so that whatever else the machine does meets both."""
    ratios, medians = [], []
    for number in range(pairs + 1):
        took: tuple[list[float], list[float]] = ([], [])
        for _ in range(ROUNDS_PER_PAIR):
            for both in zip(*asks, strict=True):
                for ask, times in zip(both, took, strict=True):
                    times.append(await _seconds(ask))
        # The first pair warms both up.
        if number:
            medians.append([statistics.median(times) * 1000 for times in took])
            ratios.append(medians[-1][1] / medians[-1][0])
    for actions, those in zip(sizes, zip(*medians, strict=True), strict=True):
        figures.shown(f"{what} p50 at {actions} actions, ms", round(statistics.median(those), 2))
    figure = f"{what} p50, the long history's against the short one's, median of {pairs} pairs"
    ratio = round(statistics.median(ratios), 2)
    if figures.size == "full":
        figures.at_most(figure, ratio, RATIO_MAX)
    else:
        figures.shown(figure, ratio)


async def _seconds(ask: Ask) -> float:
    begun = time.perf_counter()
    answer = await ask()
    took = time.perf_counter() - begun
    assert answer.is_success, answer.text
    return took
