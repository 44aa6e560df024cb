"""Migrating under load, and a restore from an older copy: no request fails, and no order is sent twice."""

import asyncio
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import asyncpg
import httpx

from openbell import Action, AsyncClient, Market, OpenbellError
from openbell_server.adapters.postgres.connection import Pool, open_pool
from openbell_server.adapters.postgres.recovery import PostgresRecoveryStore
from openbell_server.adapters.postgres.schema import OLDEST
from openbell_server.devtools.demo.ledgers import FAULTS, Books, compare
from openbell_server.devtools.demo.read_ledgers import read_books
from openbell_server.devtools.local_platform import LocalPlatform
from openbell_server.devtools.local_postgres import find_postgres
from openbell_server.devtools.stack import LOGINS, PROCESSES
from openbell_server.domain.identifiers import action_of
from proof.books import until_settled
from proof.figures import Figures
from proof.load import SYMBOLS, clients
from support.brokers.paper_broker import until
from support.builders.tenant import a_tenant, accept, new_id

# What pauses leave of a client's load is enough to migrate under, and leaves the migration a processor.
SIZES = {
    "full": {
        "accounts": 20,
        "actions": 10_000,
        "clients": 16,
        "pause_millis": 0,
        "before": 200,
        "after": 500,
        "moving": 200,
    },
    "gate": {"accounts": 4, "actions": 300, "clients": 4, "pause_millis": 100, "before": 10, "after": 30, "moving": 15},
}
SET = 64
SETTLE = (
    "update orders set standing = 'CLOSED', close_reason = 'SKIPPED', pending = 'NONE' where account_id = $1",
    (
        "update action_states set state = 'SKIPPED', reason_code = 'SUPERSEDED', settled_at = clock_timestamp()"
        " where account_id = $1"
    ),
)
SETTLE_SECONDS = 120
RETRIES_MAX = 60


def prove(figures: Figures) -> None:
    size = SIZES[figures.size]
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalPlatform(Path(folder), accounts=size["accounts"], revision=OLDEST) as platform,
    ):
        asyncio.run(_migrate_under_load(figures, platform, size))
        asyncio.run(_restore(figures, platform, size))


async def _migrate_under_load(figures: Figures, platform: LocalPlatform, size: dict[str, int]) -> None:
    async with await open_pool(platform.owner_url) as pool:
        await _fill(pool, platform, size)
        actions = await pool.fetchval("select count(*) from intent_actions")
        revision = await pool.fetchval("select version_num from public.alembic_version")
    figures.exactly("actions before the migration", actions, size["actions"])
    figures.shown("schema before", revision)
    answers: Counter[int] = Counter()
    migrated = asyncio.Event()
    load = asyncio.ensure_future(_post_until(platform, size, migrated, answers))
    await _answered(answers, size["moving"])
    command = [sys.executable, "-m", "openbell_server", "migrate", "--logins", LOGINS]
    migrating = await asyncio.create_subprocess_exec(*command, env={"OPENBELL_DATABASE_URL": platform.owner_url})
    during = answers.total()
    figures.exactly("migration's exit status", await asyncio.wait_for(migrating.wait(), 120), 0)
    figures.shown("requests answered while migrating", answers.total() - during)
    await _answered(answers, answers.total() + size["moving"])
    migrated.set()
    accepted = await load
    figures.shown("requests", answers.total())
    figures.exactly("failed requests", answers.total() - answers[202], 0)
    figures.exactly("intents unfinished", await until_settled(platform, SETTLE_SECONDS), 0)
    comparison = compare(await _read_books(platform, accepted))
    figures.exactly("orders doubled, lost or disagreeing", sum(len(comparison.findings[f]) for f in FAULTS), 0)


async def _answered(answers: Counter[int], number: int) -> None:
    async def so_many() -> bool:
        return answers.total() >= number

    await until(so_many, 60)


async def _read_books(platform: LocalPlatform, accepted: Sequence[str]) -> Books:
    accounts = [str(account_id) for account_id in platform.seeded.account_ids]
    async with clients(platform, 1) as (client,):
        return await read_books(client, platform.paper_url, accounts, accepted)


async def _fill(pool: Pool, platform: LocalPlatform, size: dict[str, int]) -> None:
    """A past of other organizations: actions that were accepted, and settled without a broker."""
    platform.stack.stop("executor")
    tenants = [await a_tenant(pool) for _ in range(size["accounts"])]
    for first in range(0, size["actions"], SET):
        numbers = range(first, min(size["actions"], first + SET))
        await accept(pool, *(tenants[n % len(tenants)].submission(key=f"past-{n}") for n in numbers))
    # Account by account: one statement over all of them would take longer than the pool allows.
    for tenant in tenants:
        for statement in SETTLE:
            await pool.execute(statement, tenant.account.id)
    platform.stack.start("executor")
    platform.stack.wait_ready("executor")


async def _post_until(
    platform: LocalPlatform, size: dict[str, int], ended: asyncio.Event, answers: Counter[int]
) -> list[str]:
    """Post from many connections, without any retry, and count every answer."""
    environment = platform.client_environment()
    headers = {"x-api-key": environment["OPENBELL_API_KEY"]}
    body = {
        "command": {
            "type": "CREATE",
            "payload": {"symbol": "AAPL", "order_side": "BUY", "spec": {"Market": {"quantity": "1"}}},
        }
    }
    accounts = [str(account_id) for account_id in platform.seeded.account_ids]
    accepted: list[str] = []

    async def work(client: httpx.AsyncClient, number: int) -> None:
        while not ended.is_set():
            await asyncio.sleep(size["pause_millis"] / 1000)
            number += 1
            url = f"/v1/accounts/{accounts[number % len(accounts)]}/intents"
            try:
                answer = await client.post(url, json=body, headers={**headers, "idempotency-key": str(new_id())})
            except httpx.HTTPError:
                answers[0] += 1
                continue
            answers[answer.status_code] += 1
            if answer.status_code == httpx.codes.ACCEPTED:
                accepted.append(answer.json()["intent_id"])

    async with httpx.AsyncClient(base_url=environment["OPENBELL_URL"], timeout=60) as client:
        await asyncio.gather(*(work(client, number) for number in range(size["clients"])))
    return accepted


async def _restore(figures: Figures, platform: LocalPlatform, size: dict[str, int]) -> None:
    keys = [f"key-{number}" for number in range(size["before"] + size["after"])]
    known, lost = keys[: size["before"]], keys[size["before"] :]
    with tempfile.NamedTemporaryFile() as dump:
        await _submit_keyed(platform, size, known)
        await asyncio.to_thread(_run_postgres, "pg_dump", "-Fc", "-d", platform.owner_url, "-f", dump.name)
        await _submit_keyed(platform, size, lost)
        # Some are queued, some past their door, some filled: a disaster does not wait.
        for name in set(PROCESSES) - {"paper"}:
            platform.stack.kill(name)
        connection = await asyncpg.connect(platform.services.postgres.url(), timeout=60)
        await connection.execute("drop database openbell with (force)")
        await connection.execute("create database openbell")
        await connection.close()
        await asyncio.to_thread(_run_postgres, "pg_restore", "-d", platform.owner_url, dump.name)
    async with await open_pool(platform.owner_url) as pool:
        remembered = await pool.fetchval("select count(*) from idempotency_keys where key = any($1)", keys)
        ended = [name for name in PROCESSES if not platform.stack.is_running(name)]
        for name in ended:
            platform.stack.start(name)
        for name in ended:
            platform.stack.wait_ready(name)
        figures.exactly("keys that the restored database does not have", len(keys) - remembered, len(lost))
        accepted = await _submit_keyed(platform, size, keys)
        figures.exactly("keys that were answered after the restore", len(accepted), len(keys))
        figures.exactly("intents unfinished after the restore", await until_settled(platform, SETTLE_SECONDS), 0)
        adopted = await pool.fetchval("select count(*) from action_states where known_as is not null")
        figures.shown("orders found at the broker for commands that came again", adopted)
        standing = await PostgresRecoveryStore(pool).standing()
    figures.exactly("accounts still held", standing.accounts_held, 0)
    figures.exactly("orders missing in the restored database that no client claimed", len(standing.forgotten_orders), 0)
    books = await _read_books(platform, [action.intent_id for action in accepted])
    digests = Counter(str(action_of(order.client_order_id))[15:] for order in books.orders if order.client_order_id)
    twice = sum(count - 1 for count in digests.values())
    figures.exactly("orders doubled at the broker", twice + books.repeated_submits, 0)
    comparison = compare(books)
    figures.exactly("orders lost or disagreeing", sum(len(comparison.findings[f]) for f in FAULTS), 0)


def _run_postgres(program: str, *arguments: str) -> None:
    subprocess.run([find_postgres() / program, *arguments], check=True, timeout=120)


async def _submit_keyed(platform: LocalPlatform, size: dict[str, int], keys: Sequence[str]) -> list[Action]:
    """Submit a command for each key, again and again until it is answered; a key always names the same command."""
    accounts = [str(account_id) for account_id in platform.seeded.account_ids]
    accepted: list[Action] = []
    waiting = list(reversed(keys))

    async def work(client: AsyncClient) -> None:
        while waiting:
            key = waiting.pop()
            number = int(key.rpartition("-")[2])
            for tries in range(RETRIES_MAX):
                try:
                    action = await client.buy(
                        SYMBOLS[number % len(SYMBOLS)],
                        Market(10),
                        account_id=accounts[number % len(accounts)],
                        idempotency_key=key,
                    )
                except OpenbellError:
                    await asyncio.sleep(0.1 * tries)
                else:
                    accepted.append(action)
                    break

    async with clients(platform, size["clients"]) as opened:
        await asyncio.gather(*(work(client) for client in opened))
    return accepted
