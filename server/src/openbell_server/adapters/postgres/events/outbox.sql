-- One text for the three queues: {queue} is the table, {order of o} the key within which rows stay in order, {columns of o}
-- the columns of a claimed row, {due of o} whether a row may be claimed. Every statement tests resolved_at, so that the
-- planner can use the partial indexes.

-- name: claim_across_organizations(row_limit, look_at, attempts_max, head_start_seconds)
-- Claims pending rows, and rows whose claim is older than five seconds, in order: the first unresolved row of an account or
-- user, and the rows that follow it without a gap. The holder of the first row's lock may claim all of them; a row that
-- another transaction has locked counts as a gap. A row that used up its attempts is marked failed instead.
with oldest as materialized (
    select o.outbox_id, {order of o} as in_order_of,
        ({due of o}) as is_due
    from {queue} o
    where o.resolved_at is null
    order by o.outbox_id
    limit :look_at
),
-- These are the oldest unresolved rows, so the first of an account among them is its first in the whole queue.
near as materialized (
    select distinct on (in_order_of) outbox_id, in_order_of, is_due from oldest order by in_order_of, outbox_id
),
-- Only if too few of the oldest rows can be claimed: later accounts must not wait behind rows that are not due.
far as (
    select min(o.outbox_id) as outbox_id from {queue} o
    where o.resolved_at is null and (select count(*) from oldest) = :look_at
        and :row_limit > (
            select count(*) from oldest n join near on near.in_order_of = n.in_order_of where n.is_due and near.is_due
        )
    group by {order of o}
),
-- Each row is looked up by its id: without statistics, the planner could choose a join that reads the whole queue for
-- each of these rows.
first_rows as materialized (
    select o.outbox_id, o.in_order_of
    from (select outbox_id from near where is_due union select outbox_id from far order by outbox_id) f
    cross join lateral (
        select o.outbox_id, {order of o} as in_order_of from {queue} o
        where o.outbox_id = f.outbox_id and o.resolved_at is null
            and ({due of o})
        limit 1
        for update of o skip locked
    ) o
    limit :row_limit
),
followers as materialized (
    select o.outbox_id, n.in_order_of
    from (
        select n.outbox_id, n.in_order_of
        from first_rows f join oldest n on n.in_order_of = f.in_order_of and n.outbox_id > f.outbox_id and n.is_due
        order by n.outbox_id
    ) n
    cross join lateral (
        select o.outbox_id from {queue} o
        where o.outbox_id = n.outbox_id and o.resolved_at is null
            and ({due of o})
        limit 1
        for update of o skip locked
    ) o
    limit :row_limit - (select count(*) from first_rows)
),
gaps as (
    select n.in_order_of, min(n.outbox_id) as outbox_id
    from first_rows f join oldest n on n.in_order_of = f.in_order_of and n.outbox_id > f.outbox_id
    where n.outbox_id not in (select outbox_id from followers)
    group by n.in_order_of
),
due as materialized (
    select outbox_id from first_rows
    union all
    select n.outbox_id from followers n left join gaps g on g.in_order_of = n.in_order_of
    where g.outbox_id is null or n.outbox_id < g.outbox_id
),
failed as (
    update {queue} o set status = 'failed', claimed_at = null, resolved_at = clock_timestamp()
    from due where o.outbox_id = due.outbox_id and o.resolved_at is null and o.attempts >= :attempts_max
)
update {queue} o
set status = 'processing', claimed_at = clock_timestamp(), claim_token = o.claim_token + 1, attempts = o.attempts + 1
from due where o.outbox_id = due.outbox_id and o.resolved_at is null and o.attempts < :attempts_max
returning o.outbox_id, o.claim_token, o.attempts, {order of o}::text as in_order_of, {columns of o};

-- name: complete_across_organizations(outbox_ids, claim_tokens)
-- Only the holder of the claim: a holder whose claim has passed to another changes nothing.
update {queue} o set status = 'completed', claimed_at = null, resolved_at = clock_timestamp()
from unnest(:outbox_ids::bigint[], :claim_tokens::bigint[]) t (outbox_id, claim_token)
where o.outbox_id = t.outbox_id and o.claim_token = t.claim_token and o.status = 'processing' and o.resolved_at is null
returning o.outbox_id;

-- name: release_across_organizations(outbox_ids, claim_tokens, wait_seconds, attempts_max)
-- A row without wait_seconds was not tried, because an earlier row failed: this claim does not count as an attempt.
update {queue} o
set status = case when t.wait_seconds is not null and o.attempts >= :attempts_max then 'failed' else 'pending' end,
    claimed_at = null,
    attempts = o.attempts - (t.wait_seconds is null)::integer,
    available_at = clock_timestamp() + make_interval(secs => coalesce(t.wait_seconds, 0)),
    resolved_at = case when t.wait_seconds is not null and o.attempts >= :attempts_max then clock_timestamp() end
from unnest(:outbox_ids::bigint[], :claim_tokens::bigint[], :wait_seconds::double precision[])
    t (outbox_id, claim_token, wait_seconds)
where o.outbox_id = t.outbox_id and o.claim_token = t.claim_token and o.status = 'processing' and o.resolved_at is null
returning o.outbox_id, o.status;
