"""Reads what a platform and its broker say, for judging them against each other."""

from uuid import UUID

import asyncpg

from openbell import Action, AsyncClient
from openbell_server.devtools.demo import read_ledgers
from openbell_server.devtools.demo.ledgers import Books
from openbell_server.devtools.local_platform import LocalPlatform
from proof.waiting import END_SECONDS, until_none_left


async def read_books(platform: LocalPlatform, client: AsyncClient, accepted: list[Action]) -> Books:
    """Both ledgers, as the demo reads them."""
    accounts = [str(account_id) for account_id in platform.seeded.account_ids]
    return await read_ledgers.read_books(
        client, platform.paper_url, accounts, [action.intent_id for action in accepted]
    )


_FLAGGED = (
    " and not exists (select 1 from openbell.action_states f where f.account_id = {0}.account_id"
    " and f.intent_id = {0}.{1} and f.settled_at is null and f.flagged_at is not null)"
)


async def until_settled(platform: LocalPlatform, seconds: float = END_SECONDS, *, but_flagged: bool = False) -> int:
    """Wait until no order is open and no action unsettled; how many still are after so many seconds without progress.

    On request, but for those whose intent waits for a person.
    """
    orders, actions = (_FLAGGED.format("o", "order_id"), _FLAGGED.format("s", "intent_id")) if but_flagged else ("", "")
    connection = await asyncpg.connect(platform.owner_url, timeout=60)

    async def unsettled() -> int:
        left: int = await connection.fetchval(
            f"select (select count(*) from openbell.orders o where standing <> 'CLOSED'{orders})"
            f" + (select count(*) from openbell.action_states s where settled_at is null{actions})"
        )
        return left

    try:
        return await until_none_left(unsettled, seconds)
    finally:
        await connection.close()


async def until_at_rest(platform: LocalPlatform) -> None:
    """Wait until no action is unsettled but those that wait for a person; orders may rest at the broker."""
    connection = await asyncpg.connect(platform.owner_url, timeout=60)

    async def unsettled() -> int:
        left: int = await connection.fetchval(
            "select count(*) from openbell.action_states where settled_at is null and flagged_at is null"
        )
        return left

    try:
        await until_none_left(unsettled)
    finally:
        await connection.close()


async def resting_orders(platform: LocalPlatform) -> list[tuple[str, str]]:
    """Account and intent of every open order of which nothing more is asked."""
    connection = await asyncpg.connect(platform.owner_url, timeout=60)
    try:
        rows = await connection.fetch(
            "select account_id, order_id from openbell.orders o where standing <> 'CLOSED' and not exists ("
            " select 1 from openbell.action_states s"
            " where s.account_id = o.account_id and s.intent_id = o.order_id and s.settled_at is null)"
            " order by account_id, order_id"
        )
        return [(str(row["account_id"]), str(row["order_id"])) for row in rows]
    finally:
        await connection.close()


async def event_heads(platform: LocalPlatform) -> dict[UUID, int]:
    """The number of the newest event of every account."""
    connection = await asyncpg.connect(platform.owner_url, timeout=60)
    try:
        rows = await connection.fetch("select account_id, event_no from openbell.account_counters")
        return {row["account_id"]: row["event_no"] for row in rows}
    finally:
        await connection.close()


async def accept_to_fill_millis(platform: LocalPlatform, intents: list[str]) -> list[float]:
    """From the moment an intent was recorded to the moment its fill was, both by the database's clock."""
    connection = await asyncpg.connect(platform.owner_url, timeout=60)
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


async def rows(url: str, statement: str, *values: object) -> list[asyncpg.Record]:
    """What one statement finds in a database."""
    connection = await asyncpg.connect(url, timeout=60)
    try:
        return await connection.fetch(statement, *values, timeout=60)
    finally:
        await connection.close(timeout=60)
