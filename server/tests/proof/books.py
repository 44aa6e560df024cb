"""Reads what a platform and its broker say, for judging them against each other."""

import asyncio
from uuid import UUID

import asyncpg
import httpx
import msgspec

from openbell import Action, AsyncClient
from openbell_server.brokers.paper.wire import LedgerOrderBody
from openbell_server.demo.ledgers import Books
from openbell_server.processes.local_platform import LocalPlatform

READS_AT_ONCE = 16
POLL_SECONDS = 0.2


class _LedgerPage(msgspec.Struct):
    orders: list[LedgerOrderBody]
    next: int | None


async def read_books(platform: LocalPlatform, client: AsyncClient, accepted: list[Action]) -> Books:
    """Every action by REST, the newest of each intent with its execution, every order from the broker's ledger."""
    accounts = [str(account_id) for account_id in platform.seeded.account_ids]
    actions = [action for account in accounts async for action in client.intents(account_id=account)]
    places = asyncio.Semaphore(READS_AT_ONCE)

    async def latest(action: Action) -> Action:
        async with places:
            return await client.intent(action.intent_id, account_id=action.account_id)

    creates = [action for action in actions if action.action_type == "CREATE"]
    intents = {action.intent_id: action for action in await asyncio.gather(*map(latest, creates))}
    orders: list[LedgerOrderBody] = []
    async with httpx.AsyncClient(base_url=platform.paper_url, timeout=10) as broker:
        for account in accounts:
            after: int | None = 0
            while after is not None:
                reply = await broker.get(f"/accounts/{account}/orders", params={"after": after})
                page = msgspec.json.decode(reply.content, type=_LedgerPage)
                orders += page.orders
                after = page.next
    return Books(
        accepted=frozenset(action.intent_id for action in accepted), actions=actions, intents=intents, orders=orders
    )


async def until_settled(platform: LocalPlatform, seconds: float) -> int:
    """Wait until no order is open and no action unsettled; how many still are when time is up."""
    connection = await asyncpg.connect(platform.stack.environment["OPENBELL_DATABASE_URL"], timeout=10)
    try:
        left = -1
        deadline = asyncio.get_running_loop().time() + seconds
        while left != 0 and asyncio.get_running_loop().time() < deadline:
            left = await connection.fetchval(
                "select (select count(*) from openbell.orders where standing <> 'CLOSED')"
                " + (select count(*) from openbell.action_states where settled_at is null)"
            )
            if left:
                await asyncio.sleep(POLL_SECONDS)
        return left
    finally:
        await connection.close()


async def event_heads(platform: LocalPlatform) -> dict[UUID, int]:
    """The number of the newest event of every account."""
    connection = await asyncpg.connect(platform.stack.environment["OPENBELL_DATABASE_URL"], timeout=10)
    try:
        rows = await connection.fetch("select account_id, event_no from openbell.account_counters")
        return {row["account_id"]: row["event_no"] for row in rows}
    finally:
        await connection.close()


async def accept_to_fill_millis(platform: LocalPlatform, intents: list[str]) -> list[float]:
    """From the moment an intent was recorded to the moment its fill was, both by the database's clock."""
    connection = await asyncpg.connect(platform.stack.environment["OPENBELL_DATABASE_URL"], timeout=10)
    try:
        rows = await connection.fetch(
            "select extract(epoch from min(e.recorded_at) - min(o.created_at)) * 1000 as millis"
            " from openbell.orders o join openbell.executions e using (account_id, order_id)"
            " where o.order_id = any($1::uuid[]) group by o.order_id",
            intents,
        )
        return sorted(float(row["millis"]) for row in rows)
    finally:
        await connection.close()
