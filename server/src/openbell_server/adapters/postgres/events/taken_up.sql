-- name: complete_taken_up_across_organizations(row_limit)$
-- Completes waiting rows of actions that an executor has taken up since: nothing is left to notify it of. By the places of
-- the locked rows, since a plan made for an empty queue would join the whole queue.
with completed as (
    update intent_outbox o set status = 'completed', resolved_at = clock_timestamp()
    where o.ctid = any (
        array(
            select l.place from (
                select outbox_id, account_id, action_id from intent_outbox
                where resolved_at is null and status = 'pending' order by outbox_id limit :row_limit
            ) w
            cross join lateral (
                select 1 from action_states s
                -- As a range in the order of the primary key, so that the planner uses no other index of the account.
                where s.account_id = w.account_id and s.action_id >= w.action_id and s.action_id <= w.action_id
                    and s.state <> 'QUEUED'
                order by s.action_id limit 1
            ) s
            cross join lateral (
                select p.ctid as place from intent_outbox p
                where p.outbox_id = w.outbox_id and p.resolved_at is null and p.status = 'pending' limit 1
                for update of p skip locked
            ) l
        )
    )
    returning 1
)
select count(*) from completed;
