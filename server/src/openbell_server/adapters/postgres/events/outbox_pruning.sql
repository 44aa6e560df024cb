-- name: take_counts_across_organizations(queue, keep_seconds)
-- Deletes the counts of the oldest bucket whose rows were all resolved at least keep_seconds ago. A transaction that
-- completes a row of the bucket waits for this one.
delete from outbox_roll_ups r
where r.queue = :queue and r.bucket = (
    select b.bucket from outbox_roll_ups b
    where b.queue = :queue
        and not exists (
            select 1 from {queue} o
            where o.resolved_at is null and o.outbox_id >= b.bucket * 16384 and o.outbox_id < (b.bucket + 1) * 16384
        )
    group by b.bucket
    having max(b.newest_resolved_at) < clock_timestamp() - make_interval(secs => :keep_seconds)
    order by b.bucket
    limit 1
)
returning r.bucket, r.count;

-- name: remove_completed_across_organizations(bucket)
delete from {queue}
where outbox_id >= :bucket * 16384 and outbox_id < (:bucket + 1) * 16384 and status = 'completed'
returning outbox_id;
