-- outside a transaction
-- Long histories: lists of executions read one page however many there are, events can be pruned, and the statistics can
-- be read. Lists show executions in the order in which they were recorded.
drop index concurrently if exists openbell.executions_recorded;
create index concurrently executions_recorded on openbell.executions (account_id, recorded_at, execution_id);

-- apart
drop function if exists prune_events;
-- Prunes the oldest events of one account, under its lock, so that no reader sees a gap: the next account after p_after
-- whose oldest event is older than p_keep_seconds loses at most p_rows_max events. Returns no row if there is none.
create function prune_events(p_after uuid, p_keep_seconds double precision, p_rows_max integer)
    returns table (pruned_account_id uuid, pruned_rows integer) language plpgsql as $$
declare
    v_before constant timestamptz := clock_timestamp() - make_interval(secs => p_keep_seconds);
    v_floor bigint;
    v_last bigint;
begin
    -- 1. Find the account: one look-up by key for each, however many events there are.
    select c.account_id into pruned_account_id from openbell.account_counters c
    where c.account_id > p_after and c.event_floor < c.event_no and (
        select e.occurred_at from openbell.account_events e
        where e.account_id = c.account_id and e.event_no = c.event_floor + 1
    ) < v_before
    order by c.account_id
    limit 1;
    if not found then
        return;
    end if;
    -- 2. Lock it, and find the last event to prune: the one before the first that is kept, whatever the clock did since.
    select c.event_floor into v_floor from openbell.account_counters c
    where c.account_id = pruned_account_id for no key update;
    select coalesce(min(o.event_no) filter (where o.occurred_at >= v_before) - 1, max(o.event_no)) into v_last
    from (
        select e.event_no, e.occurred_at from openbell.account_events e
        where e.account_id = pruned_account_id and e.event_no > v_floor
        order by e.event_no
        limit p_rows_max
    ) o;
    -- 3. Raise the floor, then delete below it.
    update openbell.account_counters c
    set event_floor = v_last,
        event_floor_at = greatest(c.event_floor_at, (
            select max(e.occurred_at) from openbell.account_events e
            where e.account_id = pruned_account_id and e.event_no > v_floor and e.event_no <= v_last
        ))
    where c.account_id = pruned_account_id and c.event_floor < v_last;
    delete from openbell.account_events e
    where e.account_id = pruned_account_id and e.event_no > v_floor and e.event_no <= v_last;
    get diagnostics pruned_rows = row_count;
    return next;
end $$;
call run_as('openbell_writer', 'prune_events', 'openbell_relay');

-- apart
-- Only prune_events may delete an event: it acts as openbell_writer, and raises the floor first.
create or replace function refuse_unless_pruned() returns trigger language plpgsql as $$
begin
    if current_user <> 'openbell_writer' or exists (
        select 1 from removed r
        left join openbell.account_counters c on c.organization_id = r.organization_id and c.account_id = r.account_id
        where c.event_floor is null or r.event_no > c.event_floor
    ) then
        raise exception '% is append-only', tg_table_name using errcode = 'OB001';
    end if;
    return null;
end $$;
create or replace trigger pruned_only after delete on account_events
    referencing old table as removed for each statement execute function refuse_unless_pruned();
create or replace trigger append_only before update or truncate on account_events
    for each statement execute function refuse_change();
grant delete on account_events to openbell_writer;

-- apart
-- The statistics: all counts, and the actions and outcomes that are not in them yet.
create or replace view counted_intents with (security_invoker = true) as
select * from intent_counts
union all
select c.organization_id, c.account_id, s.span, s.starts_at, f.dimension, f.value, 1
from account_counters c
-- A value of its own: under row security no index is used for a comparison with an expression that might fail.
cross join lateral (
    select coalesce((select t.actions_to from intent_counted t where t.account_id = c.account_id), 0) as counted_to offset 0
) t
cross join lateral (
    select * from intent_actions a
    where a.organization_id = c.organization_id and a.account_id = c.account_id and a.action_no > t.counted_to
    -- There are fewer than 64, which the planner cannot know.
    order by a.action_no desc limit 64
) a
cross join lateral (
    select 'ACTION' as dimension, concat_ws(' ', a.symbol, a.order_side, a.action_type) as value, a.created_at as moment
    union all
    (
        select 'OUTCOME', outcome_value(o.state, o.queued_at, o.send_started_at), o.queued_at
        from action_states o
        where o.account_id = a.account_id and o.action_id = a.action_id and o.settled_at is not null
        limit 1
    )
) f
cross join lateral spans_of(f.moment) s;
grant select on counted_intents to openbell_tenant;
