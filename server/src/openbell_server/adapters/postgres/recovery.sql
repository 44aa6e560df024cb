-- name: read_incarnation()^
select epoch, is_this, held_at, look_back_to, alive_at < clock_timestamp() - interval '5 seconds' as is_old
from this_incarnation;

-- name: lock_incarnation()!
select 1 from incarnation for update;

-- name: hold_accounts()!
-- Reconciliation looks back to 15 minutes before the last write, because clocks differ; or further, to the start of an
-- earlier hold that has not ended for every account.
update incarnation i
set epoch = i.epoch + 1, timeline = server_timeline(),
    written_in = pg_current_xact_id()::xid, alive_at = clock_timestamp(), held_at = clock_timestamp(),
    look_back_to = least(
        i.alive_at - interval '15 minutes',
        case when exists (select 1 from account_counters c where c.recovered_epoch < i.epoch) then i.look_back_to end
    );

-- name: stay_alive()!
update incarnation set alive_at = clock_timestamp(), written_in = pg_current_xact_id()::xid;

-- name: count_held_across_organizations()$
select count(*) from account_counters where recovered_epoch < (select epoch from incarnation);

-- name: forgotten_orders_across_organizations(row_limit)
-- Orders at brokers with ids of ours that are missing in the restored database and that no later action has adopted.
select f.account_id, f.action_id, f.found_at from forgotten_orders f
where not exists (
    select 1 from action_states s where s.account_id = f.account_id and s.known_as = f.action_id
)
order by f.found_at, f.action_id
limit :row_limit;
