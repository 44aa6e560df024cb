-- name: claim_across_organizations(row_limit, attempts_max)
-- Takes waiting rows, and takes back rows claimed more than five seconds ago. A row that was handed out often enough is
-- failed instead, for good. Repeating resolved_at is what lets the planner use the narrow index.
with due as materialized (
    select outbox_id from user_outbox
    where resolved_at is null
        and (
            (status = 'pending' and available_at <= clock_timestamp())
            or (status = 'processing' and claimed_at < clock_timestamp() - interval '5 seconds')
        )
    order by outbox_id
    limit :row_limit
    for update skip locked
),
given_up as (
    update user_outbox o set status = 'failed', claimed_at = null, resolved_at = clock_timestamp()
    from due where o.outbox_id = due.outbox_id and o.attempts >= :attempts_max
)
update user_outbox o
set status = 'processing', claimed_at = clock_timestamp(), claim_token = o.claim_token + 1, attempts = o.attempts + 1
from due where o.outbox_id = due.outbox_id and o.attempts < :attempts_max
returning o.outbox_id, o.claim_token, o.attempts, o.event_type, o.payload;

-- name: complete_across_organizations(outbox_ids, claim_tokens)
-- Only the holder of the claim: one whose claim was taken back changes nothing.
update user_outbox o set status = 'completed', claimed_at = null, resolved_at = clock_timestamp()
from unnest(:outbox_ids::bigint[], :claim_tokens::bigint[]) t (outbox_id, claim_token)
where o.outbox_id = t.outbox_id and o.claim_token = t.claim_token and o.status = 'processing' and o.resolved_at is null
returning o.outbox_id;

-- name: release_across_organizations(outbox_ids, claim_tokens, wait_seconds, attempts_max)!
update user_outbox o
set status = case when o.attempts >= :attempts_max then 'failed' else 'pending' end,
    claimed_at = null,
    available_at = clock_timestamp() + make_interval(secs => t.wait_seconds),
    resolved_at = case when o.attempts >= :attempts_max then clock_timestamp() end
from unnest(:outbox_ids::bigint[], :claim_tokens::bigint[], :wait_seconds::double precision[])
    t (outbox_id, claim_token, wait_seconds)
where o.outbox_id = t.outbox_id and o.claim_token = t.claim_token and o.status = 'processing' and o.resolved_at is null;
