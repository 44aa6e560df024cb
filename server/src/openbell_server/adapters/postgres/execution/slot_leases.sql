-- name: remove_earlier_runs(executor_id)!
-- The ids of all runs of one executor name have the same first half.
delete from executors
where left(executor_id::text, 18) = left((:executor_id::uuid)::text, 18) and executor_id <> :executor_id;

-- name: add_executor(executor_id)!
insert into executors (executor_id, seen_at) values (:executor_id, clock_timestamp())
on conflict (executor_id) do update set seen_at = excluded.seen_at;

-- name: refresh_executor(executor_id)$
update executors set seen_at = clock_timestamp() where executor_id = :executor_id returning true;

-- name: has_other_run(executor_id, seconds)$
select exists (
    select from executors
    where left(executor_id::text, 18) = left((:executor_id::uuid)::text, 18) and executor_id <> :executor_id
    and seen_at > clock_timestamp() - make_interval(secs => :seconds)
);

-- name: remove_expired_executors()!
delete from executors where seen_at < clock_timestamp() - interval '1 minute';

-- name: count_executors(seconds)$
select count(*) from executors where seen_at > clock_timestamp() - make_interval(secs => :seconds);

-- name: renew_registered(executor_id, seconds)^
-- In one statement, what the others do one after the other for an executor that is registered.
with expired as (
    delete from executors
    where seen_at < clock_timestamp() - interval '1 minute' and executor_id <> :executor_id
),
registered as (
    update executors set seen_at = clock_timestamp() where executor_id = :executor_id returning executor_id
),
renewed as (
    update slot_leases l set held_until = clock_timestamp() + make_interval(secs => :seconds)
    from registered r where l.holder = r.executor_id
    returning l.slot
)
select array(select slot from renewed) as slots,
    (
        select 1 + count(*) from executors
        where executor_id <> :executor_id and seen_at > clock_timestamp() - make_interval(secs => :seconds)
    ) as alive
from registered;

-- name: renew(executor_id, seconds)
update slot_leases set held_until = clock_timestamp() + make_interval(secs => :seconds)
where holder = :executor_id
returning slot;

-- name: take(executor_id, seconds, row_limit)
update slot_leases set holder = :executor_id, held_until = clock_timestamp() + make_interval(secs => :seconds)
where slot in (
    select slot from slot_leases
    where holder is null or held_until < clock_timestamp()
    -- A replaced executor has no row in executors.
    or not exists (select from executors where executors.executor_id = slot_leases.holder)
    order by slot
    limit :row_limit
    for update skip locked
)
returning slot;

-- name: release(executor_id, slots)!
update slot_leases set holder = null, held_until = null
where holder = :executor_id and slot = any(:slots::smallint[]);

-- name: remove_executor(executor_id)!
delete from executors where executor_id = :executor_id;
