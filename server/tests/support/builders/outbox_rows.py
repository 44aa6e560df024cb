"""Rows of the queues in any state, moved into it as the engine moves them: queued first, then changed."""

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.domain.events.outbox import Queue
from support.builders.tenant import Tenant, new_id

TABLES = {Queue.ACCOUNTS: "account_outbox", Queue.INTENTS: "intent_outbox", Queue.USERS: "user_outbox"}
_TIMES = "now() - make_interval(secs => $3), now() - make_interval(secs => $4)"
_ADD = {
    Queue.ACCOUNTS: "insert into account_outbox (organization_id, payload, available_at, created_at, account_id,"
    f" event_type) values ($1, $2, {_TIMES}, $5, $6) returning outbox_id",
    Queue.INTENTS: "insert into intent_outbox (organization_id, action_id, available_at, created_at, account_id,"
    f" event_type, slot) values ($1, $2, {_TIMES}, $5, $6, $7) returning outbox_id",
    Queue.USERS: "insert into user_outbox (organization_id, payload, available_at, created_at, event_type)"
    f" values ($1, $2, {_TIMES}, $5) returning outbox_id",
}


async def queue_row(
    pool: Pool,
    tenant: Tenant,
    queue: Queue = Queue.ACCOUNTS,
    status: str = "pending",
    *,
    event_type: str = "account.updated",
    payload: str = '{"version": 7}',
    age: float = 0.0,
    due_since: float | None = None,
    claimed_since: float = 0.0,
    attempts: int = 0,
) -> int:
    """The id of a row; ages are in seconds, and a row is due since it was queued unless told otherwise."""
    account = tenant.account
    of_queue: dict[Queue, tuple[object, ...]] = {
        Queue.ACCOUNTS: (account.id, event_type),
        Queue.INTENTS: (account.id, "intent.queued", account.slot),
        Queue.USERS: ("user.deleted",),
    }
    said = new_id() if queue is Queue.INTENTS else payload
    waited = age if due_since is None else due_since
    outbox_id = await pool.fetchval(_ADD[queue], account.organization_id, said, waited, age, *of_queue[queue])
    if status != "pending" or attempts:
        await pool.execute(
            f"update {TABLES[queue]} set status = $2, attempts = $3,"
            " claimed_at = case when $2 = 'processing' then now() - make_interval(secs => $4) end,"
            " resolved_at = case when $2 in ('completed', 'failed') then now() end where outbox_id = $1",
            outbox_id,
            status,
            attempts,
            claimed_since,
        )
    return int(outbox_id)
