-- Actions are counted for the statistics once for 64 of an account, and not with each: that was the largest part of what a
-- command cost. Until then they are read from where they stand, so that what is read is exact at every moment.
create table if not exists intent_counted (
    organization_id uuid not null,
    account_id uuid primary key,
    -- All actions up to this number are in the counts, and none after it.
    actions_to bigint not null
) with (fillfactor = 50);
call protect_tenant_table('intent_counted');
drop policy if exists accept_step on intent_counted;
create policy accept_step on intent_counted to openbell_writer using (true);
grant select on intent_counted to openbell_tenant;
grant select, insert, update on intent_counted to openbell_writer;

-- A function's owner must be one that we may act as, for this moment: it may be there already.
grant openbell_writer to current_user;
grant create on schema openbell to openbell_writer;

-- Does nothing yet: each action is still counted by itself. Run again, this must not undo what comes later.
do $$
begin
    if to_regprocedure('openbell.count_actions_so_far()') is null then
        create function count_actions_so_far() returns trigger language plpgsql security definer
            set search_path = pg_catalog, openbell, pg_temp as 'begin return null; end';
    end if;
end $$;

create or replace function mark_counted_actions() returns void language plpgsql security definer
    set search_path = pg_catalog, openbell, pg_temp as $$
begin
    insert into intent_counted (organization_id, account_id, actions_to)
    select c.organization_id, c.account_id, c.action_no from account_counters c where c.action_no > 0;
end $$;

-- One outcome: a statement over arrays costs more to begin than three rows cost to write.
create or replace function count_outcome() returns trigger language plpgsql security definer
    set search_path = pg_catalog, openbell, pg_temp as $$
declare
    v_minute timestamptz := date_trunc('minute', new.queued_at, 'UTC');
    v_value text := outcome_value(new.state, new.queued_at, new.send_started_at);
begin
    -- Spans that are too old are removed when the account's actions are counted.
    if v_minute > now() - interval '62 minutes' then
        insert into intent_counts as c (organization_id, account_id, span, starts_at, dimension, value, count)
        values
            (new.organization_id, new.account_id, 'EVER', '-infinity', 'OUTCOME', v_value, 1),
            (new.organization_id, new.account_id, 'HOUR', date_trunc('hour', new.queued_at, 'UTC'), 'OUTCOME', v_value, 1),
            (new.organization_id, new.account_id, 'MINUTE', v_minute, 'OUTCOME', v_value, 1)
        on conflict (account_id, span, starts_at, dimension, value) do update set count = c.count + 1;
    else
        perform add_intent_counts(
            array[new.organization_id], array[new.account_id], array[new.queued_at], array['OUTCOME'], array[v_value],
            array[1::bigint]
        );
    end if;
    return null;
end $$;

do $$
declare
    counting text;
begin
    foreach counting in array array['count_actions_so_far()', 'mark_counted_actions()'] loop
        execute format('alter function %s owner to openbell_writer', counting);
        execute format('revoke execute on function %s from public', counting);
        execute format('grant execute on function %s to %I', counting, current_user);
    end loop;
end $$;

revoke create on schema openbell from openbell_writer;
revoke openbell_writer from current_user;

-- apart
create or replace trigger count_actions after update of action_no on account_counters
    for each row when (new.action_no / 64 > old.action_no / 64) execute function count_actions_so_far();

-- apart
-- One transaction: nobody reads counts that are not whole. Whoever wrote before the old trigger went has committed, and its
-- number stands in the account's row; whoever writes later meets the new function.
grant openbell_writer to current_user;
do $$
begin
    if exists (select 1 from pg_trigger where tgrelid = 'intent_actions'::regclass and tgname = 'count_actions') then
        drop trigger count_actions on intent_actions;
        perform mark_counted_actions();
    end if;
end $$;

create or replace function count_actions_so_far() returns trigger language plpgsql security definer
    set search_path = pg_catalog, openbell, pg_temp as $$
begin
    perform add_intent_counts(
        array_agg(a.organization_id), array_agg(a.account_id), array_agg(a.created_at), array_agg('ACTION'::text),
        array_agg(concat_ws(' ', a.symbol, a.order_side, a.action_type)), array_agg(1::bigint)
    )
    from intent_actions a
    where a.organization_id = new.organization_id and a.account_id = new.account_id and a.action_no <= new.action_no
        and a.action_no > coalesce((select t.actions_to from intent_counted t where t.account_id = new.account_id), 0);
    insert into intent_counted (organization_id, account_id, actions_to)
    values (new.organization_id, new.account_id, new.action_no)
    on conflict (account_id) do update set actions_to = excluded.actions_to;
    return null;
end $$;

create or replace view counted_intents with (security_invoker = true) as
select * from intent_counts
union all
select c.organization_id, c.account_id, s.span, s.starts_at, 'ACTION',
    concat_ws(' ', a.symbol, a.order_side, a.action_type), 1
from account_counters c
-- A value of its own: under row security no index is used for what is compared with an expression that might fail.
cross join lateral (
    select coalesce((select t.actions_to from intent_counted t where t.account_id = c.account_id), 0) as counted_to offset 0
) t
cross join lateral (
    select * from intent_actions a
    where a.organization_id = c.organization_id and a.account_id = c.account_id and a.action_no > t.counted_to
    -- They are fewer than 64, which the planner cannot know.
    order by a.action_no desc limit 64
) a
cross join lateral spans_of(a.created_at) s;
drop function if exists count_actions(), mark_counted_actions();
revoke openbell_writer from current_user;
