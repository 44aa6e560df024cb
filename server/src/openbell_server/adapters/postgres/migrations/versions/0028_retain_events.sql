-- Events are kept for a time. Those up to the floor are gone; from there to the newest there is every one.

-- When the newest of them that are gone happened: whoever reads what happened since a later moment misses nothing.
alter table account_counters add column if not exists event_floor bigint not null default 0
    check (event_floor between 0 and event_no);
alter table account_counters add column if not exists event_floor_at timestamptz;

-- apart
-- An event goes by pruning and not otherwise: the floor is raised first, and nobody else acts as the writer.
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
-- Removes the oldest events of one account, the next whose oldest is due, under its lock, so that no reader sees a hole.
-- To give a function away we must be one that may act as its new owner, for this moment.
grant openbell_writer to current_user;
grant create on schema openbell to openbell_writer;
create or replace function prune_events(p_after uuid, p_keep_seconds double precision, p_rows_max integer)
    returns table (pruned_account_id uuid, pruned_rows integer)
    language plpgsql security definer set search_path = pg_catalog, openbell, pg_temp as $$
declare
    v_before constant timestamptz := clock_timestamp() - make_interval(secs => p_keep_seconds);
    v_floor bigint;
    v_last bigint;
begin
    -- One look-up by key for each account, however many events there are.
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
    select c.event_floor into v_floor from openbell.account_counters c
    where c.account_id = pruned_account_id for no key update;
    -- Up to the first that is not due, whatever the clock did since.
    select coalesce(min(o.event_no) filter (where o.occurred_at >= v_before) - 1, max(o.event_no)) into v_last
    from (
        select e.event_no, e.occurred_at from openbell.account_events e
        where e.account_id = pruned_account_id and e.event_no > v_floor
        order by e.event_no
        limit p_rows_max
    ) o;
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
alter function prune_events(uuid, double precision, integer) owner to openbell_writer;
revoke execute on function prune_events(uuid, double precision, integer) from public;
grant execute on function prune_events(uuid, double precision, integer) to openbell_relay;
revoke create on schema openbell from openbell_writer;
revoke openbell_writer from current_user;
