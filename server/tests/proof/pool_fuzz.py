"""Tasks of several organizations on one small pool, cancelled at any await: does anything of one reach another?"""

import asyncio
import contextlib
import itertools
import os
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import asyncpg

from openbell_server.adapters.postgres.access.organizations import PostgresOrganizationStore
from openbell_server.adapters.postgres.connection import UNAVAILABLE, Connection, Pool, Role, open_pool, transaction
from openbell_server.adapters.postgres.events.events import PostgresEventStore
from openbell_server.adapters.postgres.execution.execution import PostgresExecutionStore
from openbell_server.adapters.postgres.intents.intents import PostgresIntentStore
from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.domain.events.account_events import EventKind
from openbell_server.domain.events.outbox import Queue
from proof.figures import Figures
from support.builders.tenant import accept
from support.environment.logins import TEST_LOGIN
from support.tenancy.outbox_queues import relay_store
from support.tenancy.populated_tenant import PopulatedTenant, populated_tenant
from support.tenancy.statements import Owner

ORGANIZATIONS = 4
CONNECTIONS = 6
WORKERS = 16
AWAITS_MAX = 12
CUT_SECONDS_MAX = 0.03
# Shorter than the ten seconds after which the server itself ends a transaction that stands still.
SETTLE_SECONDS = 60
HANG_SECONDS = 400
READ = 20


class Broken(Exception):
    """What a task throws inside its transaction."""


@dataclass(frozen=True, slots=True)
class CancelledAt:
    """Awaits a coroutine and cancels the task at the coroutine's n-th await, if there are so many."""

    coroutine: Coroutine[Any, Any, None]
    number: int

    def __await__(self) -> Generator[Any, None, None]:
        inner = self.coroutine.__await__()
        resume: Callable[[], Any] = partial(next, inner)
        for number in itertools.count(1):
            try:
                waited = resume()
            except StopIteration:
                return
            if number == self.number:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            try:
                yield waited
                resume = partial(next, inner)
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is the coroutine's
                resume = partial(inner.throw, error)


@dataclass
class Fuzz:
    """Picks what is done for whom, and how it ends."""

    pool: Pool
    neighbours: list[PopulatedTenant]
    chance: random.Random
    ends: Counter[str] = field(default_factory=Counter)
    leaks: int = 0
    foreign: int = 0
    unexpected: list[BaseException] = field(default_factory=list)

    async def one_task(self) -> None:
        """One task to whatever end, then a look at the connection that is next."""
        neighbour, other = self.chance.sample(self.neighbours, 2)
        operation = self.chance.choice(
            [self._look_around, self._read_intents, self._read_events, self._execute, self._accept, self._cross]
        )
        try:
            await self._cut(operation(neighbour, other))
            self.ends["all committed"] += 1
        except asyncio.CancelledError:
            self.ends["cancelled"] += 1
        except TimeoutError:
            self.ends["timed out"] += 1
        except (Broken, asyncpg.DivisionByZeroError):
            self.ends["broken by an error"] += 1
        except UNAVAILABLE:
            self.ends["refused by a busy database"] += 1
        except Exception as error:  # noqa: BLE001 - counted, and none is expected
            self.unexpected.append(error)
        async with self.pool.acquire() as connection:
            await self._look_at(connection)

    async def look_at_all(self) -> None:
        """Every connection of the pool, all held at once so that none is looked at twice."""
        async with contextlib.AsyncExitStack() as held:
            for connection in [await held.enter_async_context(self.pool.acquire()) for _ in range(CONNECTIONS)]:
                await self._look_at(connection)

    async def _cut(self, work: Coroutine[Any, Any, None]) -> None:
        kind = self.chance.randrange(6)
        seconds = self.chance.uniform(0, CUT_SECONDS_MAX)
        if kind == 0:
            await asyncio.create_task(_await(CancelledAt(work, self.chance.randint(1, AWAITS_MAX))))
        elif kind == 1:
            task = asyncio.create_task(work)
            asyncio.get_running_loop().call_later(seconds, task.cancel)
            await task
        elif kind == 2:
            async with asyncio.timeout(seconds):
                await work
        else:
            await work

    async def _look_at(self, connection: Connection) -> None:
        """Whoever takes a connection finds the login's own role, no organization and no transaction."""
        left_open = connection.is_in_transaction()
        row = await connection.fetchrow(
            "select current_user, coalesce(current_setting('openbell.organization_id', true), '')"
        )
        self.leaks += left_open or row is None or tuple(row) != (TEST_LOGIN, "")

    def notify(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """The driver rolls back what comes back to the pool open, and says so here; the rest are cut connects."""
        self.leaks += "active transaction" in context["message"]

    async def _look_around(self, neighbour: PopulatedTenant, _: PopulatedTenant) -> None:
        """No condition but row security's."""
        async with transaction(self.pool, Role.TENANT, neighbour.organization_id) as connection:
            row = await connection.fetchrow("select current_user, current_setting('openbell.organization_id')::uuid")
            self.leaks += row is None or tuple(row) != (Role.TENANT, neighbour.organization_id)
            for table in ("organizations", "api_keys", "accounts", "tracked_actions", "account_events"):
                seen = await connection.fetch(f"select distinct organization_id from {table}")
                self.foreign += sum(row[0] != neighbour.organization_id for row in seen)
            if self.chance.random() < 0.2:
                await connection.fetch("select 1 / 0")

    async def _read_intents(self, neighbour: PopulatedTenant, other: PopulatedTenant) -> None:
        own, intents = neighbour.organization_id, PostgresIntentStore(self.pool)
        organizations = PostgresOrganizationStore(self.pool)
        account = await organizations.find_account(own, neighbour.tenant.account.id)
        self.foreign += account is None or account.organization_id != own
        self.foreign += await organizations.find_account(own, other.tenant.account.id) is not None
        recorded = await intents.list_actions(own, neighbour.tenant.account.id, 0, READ)
        self.foreign += sum(row.action.organization_id != own for row in recorded)
        self.foreign += len(await intents.list_actions(own, other.tenant.account.id, 0, READ))
        self.foreign += await intents.find_execution(own, other.tenant.account.id, other.waiting) is not None

    async def _read_events(self, neighbour: PopulatedTenant, other: PopulatedTenant) -> None:
        events, own = PostgresEventStore(self.pool), neighbour.organization_id
        seen = await events.read_after(own, neighbour.tenant.account.id, 0, READ)
        self.foreign += [event.number for event in seen] != list(range(1, len(seen) + 1))
        self.foreign += len(await events.read_after(own, other.tenant.account.id, 0, READ))

    async def _execute(self, neighbour: PopulatedTenant, other: PopulatedTenant) -> None:
        account = BrokerAccount(neighbour.organization_id, neighbour.tenant.account.id, "paper", 0)
        async with PostgresExecutionStore(self.pool).account_transaction(account) as working:
            found = await working.of_intents([neighbour.waiting, other.waiting])
            self.foreign += {action.intent_id for action in found} != {neighbour.waiting}
            working.append_event(EventKind.BROKER_ORDER, neighbour.waiting, 1, "{}")
            if self.chance.random() < 0.3:
                raise Broken

    async def _accept(self, neighbour: PopulatedTenant, other: PopulatedTenant) -> None:
        submissions = neighbour.tenant.submission(), other.tenant.submission()
        assert {answer.status for answer in await accept(self.pool, *submissions)} == {"ACCEPTED"}

    async def _cross(self, neighbour: PopulatedTenant, _: PopulatedTenant) -> None:
        """The roles that see all organizations, on the connections that tenants use."""
        execution, slot = PostgresExecutionStore(self.pool), neighbour.tenant.account.slot
        found = await execution.find_account_across_organizations(neighbour.tenant.account.id)
        self.foreign += found is None or found.organization_id != neighbour.organization_id
        await execution.accounts_waiting_across_organizations([slot], 0)
        async with relay_store(self.pool, Queue.INTENTS) as queue:
            await queue.claim_across_organizations(1)
        await PostgresOrganizationStore(self.pool).find_keys_across_organizations(["0" * 12])


async def _await(work: Awaitable[None]) -> None:
    await work


async def fuzz(figures: Figures, owner: Owner, url: str, tasks: int) -> None:
    seed = int.from_bytes(os.urandom(4))
    figures.shown("seed of the cancellations", seed)
    async with await open_pool(url, connections_max=CONNECTIONS) as pool:
        neighbours = [await populated_tenant(pool) for _ in range(ORGANIZATIONS)]
        run = Fuzz(pool, neighbours, random.Random(seed))
        asyncio.get_running_loop().set_exception_handler(run.notify)
        numbers = iter(range(tasks))

        async def work() -> None:
            for _ in numbers:
                await run.one_task()

        # A pool that lost a connection would wait for ever.
        async with asyncio.timeout(HANG_SECONDS):
            await asyncio.gather(*(work() for _ in range(WORKERS)))
            await run.look_at_all()
        left = await _left_in_transaction(owner)
    figures.exactly("tasks of one to five transactions that came to some end", run.ends.total(), tasks)
    for end in ("all committed", "cancelled", "timed out", "broken by an error", "refused by a busy database"):
        figures.shown(f"tasks {end}", run.ends[end])
    figures.exactly("tasks that met an error nobody meant", len(run.unexpected), 0)
    figures.exactly("rows of others seen", run.foreign, 0)
    figures.exactly("connections with a role, an organization or a transaction left on them", run.leaks, 0)
    figures.exactly("connections left in a transaction", left, 0)


async def _left_in_transaction(owner: Owner) -> int:
    left = -1
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SETTLE_SECONDS):
            while left != 0:
                left = await owner.fetchval(
                    "select count(*) from pg_stat_activity where usename = $1 and xact_start is not null", TEST_LOGIN
                )
                await asyncio.sleep(0.05)
    return left
