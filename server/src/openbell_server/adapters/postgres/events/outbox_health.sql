-- Each is one statement, so that its parts are of one snapshot. Unresolved rows are few and are counted; resolved rows are
-- counted from tables that are updated when a row is resolved, so that the cost does not grow with the history.

-- name: count_across_organizations()
select status, event_type, count(*) as count, min(created_at) as oldest_created_at, max(attempts) as max_attempts,
    min(claimed_at) as oldest_claimed_at
from account_outbox where resolved_at is null
group by status, event_type
union all
select 'failed', event_type, count(*), min(created_at), max(attempts), null
from outbox_failures where queue = 'accounts'
group by event_type
union all
select 'completed', event_type, sum(count)::bigint, min(oldest_created_at), max(max_attempts), null
from outbox_roll_ups where queue = 'accounts'
group by event_type
order by status, event_type;

-- name: count_waiting_across_organizations(seconds, look_at)
-- In the order of the index of unsettled actions, and of those no more than `look_at`, however many there are. Commands
-- wait for an executor to start, if none runs.
select organization_id, account_id, count(*) as commands
from (
    select organization_id, account_id, state, queued_at from action_states
    where settled_at is null order by account_id, action_no limit :look_at
) s
where s.state = 'QUEUED' and s.queued_at > clock_timestamp() - make_interval(secs => :seconds)
    and exists (select from executors where seen_at > clock_timestamp() - make_interval(secs => :seconds))
group by organization_id, account_id;

-- name: read_queues_across_organizations()
with unresolved as (
    select 'accounts' as queue, status, created_at, available_at, claimed_at
    from account_outbox where resolved_at is null
    union all
    select 'intents', status, created_at, available_at, claimed_at from intent_outbox where resolved_at is null
    union all
    select 'users', status, created_at, available_at, claimed_at from user_outbox where resolved_at is null
),
waiting as (
    select queue,
        count(*) filter (where status = 'pending') as pending,
        count(*) filter (where status = 'processing') as processing,
        min(created_at) filter (where status = 'pending') as oldest_pending_at,
        min(available_at) filter (where status = 'pending' and available_at <= statement_timestamp()) as oldest_due_at,
        min(claimed_at) as oldest_claim_at
    from unresolved group by queue
),
failures as (
    select queue, count(*) as failed, count(*) filter (where acknowledged_at is null) as unacknowledged
    from outbox_failures group by queue
),
completions as (
    select queue, sum(count)::bigint as completed from outbox_roll_ups group by queue
)
select q.queue, coalesce(w.pending, 0) as pending, coalesce(w.processing, 0) as processing,
    coalesce(f.failed, 0) as failed, coalesce(f.unacknowledged, 0) as unacknowledged,
    coalesce(c.completed, 0) as completed, w.oldest_pending_at, w.oldest_due_at, w.oldest_claim_at,
    statement_timestamp() as read_at
from unnest(array['accounts', 'intents', 'users']) q (queue)
left join waiting w using (queue)
left join failures f using (queue)
left join completions c using (queue)
order by q.queue;
