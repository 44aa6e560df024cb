-- name: list_rows_across_organizations(queues, statuses, row_limit)
-- Without completed rows: they are many, and need no operator.
with rows as (
    select 'accounts' as queue, outbox_id, organization_id, event_type, status, attempts, created_at, available_at,
        claimed_at, null::timestamptz as failed_at, null as acknowledged_by, null::timestamptz as acknowledged_at,
        null as acknowledged_reason, null::bigint as requeued_as
    from account_outbox where resolved_at is null
    union all
    select 'intents', outbox_id, organization_id, event_type, status, attempts, created_at, available_at, claimed_at,
        null, null, null, null, null
    from intent_outbox where resolved_at is null
    union all
    select 'users', outbox_id, organization_id, event_type, status, attempts, created_at, available_at, claimed_at,
        null, null, null, null, null
    from user_outbox where resolved_at is null
    union all
    select queue, outbox_id, organization_id, event_type, 'failed', attempts, created_at, null, null,
        failed_at, acknowledged_by, acknowledged_at, acknowledged_reason, requeued_as
    from outbox_failures
)
select *, extract(epoch from statement_timestamp() - created_at)::double precision as age_seconds from rows
where queue = any(:queues::text[]) and status = any(:statuses::text[])
order by created_at, queue, outbox_id
limit :row_limit;

-- name: find_row_across_organizations(queue, outbox_id)^
with found as (
    select 'accounts' as queue, outbox_id, organization_id, account_id, event_type, status, attempts, created_at,
        available_at, claimed_at, resolved_at, payload
    from account_outbox where outbox_id = :outbox_id and :queue = 'accounts'
    union all
    select 'intents', outbox_id, organization_id, account_id, event_type, status, attempts, created_at, available_at,
        claimed_at, resolved_at, json_build_object('action_id', action_id, 'slot', slot)::text
    from intent_outbox where outbox_id = :outbox_id and :queue = 'intents'
    union all
    select 'users', outbox_id, organization_id, null, event_type, status, attempts, created_at, available_at,
        claimed_at, resolved_at, payload
    from user_outbox where outbox_id = :outbox_id and :queue = 'users'
)
select r.*, f.acknowledged_by, f.acknowledged_at, f.acknowledged_reason, f.requeued_as, a.outbox_id as requeue_of
from found r
left join outbox_failures f on f.queue = r.queue and f.outbox_id = r.outbox_id
left join outbox_failures a on a.queue = r.queue and a.requeued_as = r.outbox_id;

-- name: list_unacknowledged_across_organizations(queue, row_limit)
-- In the order in which they were queued, so that requeued rows stay in order.
select outbox_id from outbox_failures where queue = :queue and acknowledged_at is null
order by outbox_id limit :row_limit;

-- name: lock_failure(organization_id, queue, outbox_id)^
select queue, outbox_id, organization_id, event_type, attempts, created_at, failed_at, acknowledged_by, acknowledged_at,
    acknowledged_reason, requeued_as
from outbox_failures where organization_id = :organization_id and queue = :queue and outbox_id = :outbox_id
for no key update;

-- name: handle_failure(organization_id, queue, outbox_id, operator, reason, requeued_as)^
update outbox_failures
set acknowledged_by = :operator, acknowledged_at = clock_timestamp(), acknowledged_reason = :reason,
    requeued_as = :requeued_as
where organization_id = :organization_id and queue = :queue and outbox_id = :outbox_id
returning queue, outbox_id, organization_id, event_type, attempts, created_at, failed_at, acknowledged_by,
    acknowledged_at, acknowledged_reason, requeued_as;

-- name: requeue_accounts_row(organization_id, outbox_id)$
insert into account_outbox (organization_id, account_id, event_type, payload, available_at, created_at)
select organization_id, account_id, event_type, payload, clock_timestamp(), clock_timestamp()
from account_outbox where organization_id = :organization_id and outbox_id = :outbox_id and status = 'failed'
returning outbox_id;

-- name: requeue_intents_row(organization_id, outbox_id)$
insert into intent_outbox (organization_id, account_id, event_type, slot, action_id, available_at, created_at)
select organization_id, account_id, event_type, slot, action_id, clock_timestamp(), clock_timestamp()
from intent_outbox where organization_id = :organization_id and outbox_id = :outbox_id and status = 'failed'
returning outbox_id;

-- name: requeue_users_row(organization_id, outbox_id)$
insert into user_outbox (organization_id, event_type, payload, available_at, created_at)
select organization_id, event_type, payload, clock_timestamp(), clock_timestamp()
from user_outbox where organization_id = :organization_id and outbox_id = :outbox_id and status = 'failed'
returning outbox_id;
