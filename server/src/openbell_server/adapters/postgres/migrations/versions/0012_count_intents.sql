-- outside a transaction
-- Indexes for the filters of lists, and counts for the statistics: kept where rows are written, so that reading them costs
-- the same whatever the history. What was written before is counted afterwards, in steps, beside the writers.
-- No index begins with the account: look-ups by the account and something else must not be planned by it on a young table.
drop index concurrently if exists openbell.intent_actions_of_symbol;
create index concurrently intent_actions_of_symbol on openbell.intent_actions (symbol, account_id, action_no);
-- apart
-- outside a transaction
drop index concurrently if exists openbell.intent_actions_of_reference;
create index concurrently intent_actions_of_reference
    on openbell.intent_actions (client_reference_id, account_id, action_no) where client_reference_id is not null;
-- apart
-- outside a transaction
drop index concurrently if exists openbell.intent_actions_of_type;
create index concurrently intent_actions_of_type
    on openbell.intent_actions (action_type, account_id, action_no) where action_type <> 'CREATE';

-- apart
create table if not exists intent_counts (
    organization_id uuid not null,
    account_id uuid not null,
    -- A minute of the last hour, an hour of the last month, or all time. Spans that no window reaches are removed.
    span text not null check (span in ('MINUTE', 'HOUR', 'EVER')),
    starts_at timestamptz not null,
    -- ACTION: symbol, side and type. OUTCOME: the state in which an action was settled and, if it was sent, the step of its
    -- latency. REFUSAL: nothing. An outcome counts in the span in which its action was recorded.
    dimension text not null check (dimension in ('ACTION', 'OUTCOME', 'REFUSAL')),
    value text not null,
    count bigint not null check (count > 0),
    primary key (account_id, span, starts_at, dimension, value),
    check ((span = 'EVER') = (starts_at = '-infinity'))
) with (fillfactor = 50);
call protect_tenant_table('intent_counts');
drop policy if exists accept_step on intent_counts;
create policy accept_step on intent_counts to openbell_writer using (true);
grant select on intent_counts to openbell_tenant;
grant select, insert, update, delete on intent_counts to openbell_writer;

-- Four steps double a latency; step 0 ends at one millisecond, step 120 takes the rest.
create or replace function latency_step(waited interval) returns integer language sql immutable parallel safe as
$$ select least(120, ceil(4 * ln(greatest(1, extract(epoch from waited)::float8 * 1000)) / ln(2))::integer) $$;

-- What an outcome is counted as.
create or replace function outcome_value(state text, queued_at timestamptz, send_started_at timestamptz) returns text
    language sql immutable parallel safe as
$$ select concat_ws(' ', state, openbell.latency_step(send_started_at - queued_at)) $$;

-- The spans in which a moment is counted. A moment that a short span would keep no longer is counted in the longer ones.
create or replace function spans_of(moment timestamptz) returns table (span text, starts_at timestamptz)
    language sql stable parallel safe rows 3 as $$
    select s.span, s.starts_at
    from (
        values
            ('MINUTE', date_trunc('minute', moment, 'UTC'), interval '62 minutes'),
            ('HOUR', date_trunc('hour', moment, 'UTC'), interval '31 days'),
            ('EVER', '-infinity', null)
    ) s (span, starts_at, kept)
    where s.kept is null or s.starts_at > now() - s.kept
$$;

-- Adds to the counts, and removes those that the first count of a new span has made too old. Rows are written in one order:
-- whoever does not hold the account's lock waits for others, and never they for it.
create or replace function add_intent_counts(
    p_organization_id uuid[], p_account_id uuid[], p_moment timestamptz[], p_dimension text[], p_value text[],
    p_count bigint[]
) returns void language plpgsql as $$
declare
    v_new_minute uuid[];
    v_new_hour uuid[];
begin
    with counted as (
        insert into openbell.intent_counts as c (organization_id, account_id, span, starts_at, dimension, value, count)
        select t.organization_id, t.account_id, s.span, s.starts_at, t.dimension, t.value, sum(t.count)
        from unnest(p_organization_id, p_account_id, p_moment, p_dimension, p_value, p_count)
            t (organization_id, account_id, moment, dimension, value, count)
        cross join lateral openbell.spans_of(t.moment) s
        group by 1, 2, 3, 4, 5, 6
        order by 2, 3, 4, 5, 6
        on conflict (account_id, span, starts_at, dimension, value) do update set count = c.count + excluded.count
        returning c.account_id, c.span, c.xmax = 0 as is_new
    )
    select array_agg(account_id) filter (where is_new and span = 'MINUTE'),
        array_agg(account_id) filter (where is_new and span = 'HOUR')
    into v_new_minute, v_new_hour
    from counted;
    if v_new_minute is not null then
        delete from openbell.intent_counts
        where account_id = any (v_new_minute) and span = 'MINUTE' and starts_at < now() - interval '62 minutes';
    end if;
    if v_new_hour is not null then
        delete from openbell.intent_counts
        where account_id = any (v_new_hour) and span = 'HOUR' and starts_at < now() - interval '31 days';
    end if;
end $$;

-- apart
-- A function's owner must be one that we may act as, for this moment: it may be there already.
grant openbell_writer to current_user;
grant create on schema openbell to openbell_writer;

create or replace function count_actions() returns trigger language plpgsql security definer
    set search_path = pg_catalog, openbell, pg_temp as $$
begin
    perform add_intent_counts(
        array_agg(w.organization_id), array_agg(w.account_id), array_agg(w.created_at), array_agg('ACTION'::text),
        array_agg(concat_ws(' ', w.symbol, w.order_side, w.action_type)), array_agg(1::bigint)
    ) from written w;
    return null;
end $$;

create or replace function count_outcome() returns trigger language plpgsql security definer
    set search_path = pg_catalog, openbell, pg_temp as $$
begin
    perform add_intent_counts(
        array[new.organization_id], array[new.account_id], array[new.queued_at], array['OUTCOME'],
        array[outcome_value(new.state, new.queued_at, new.send_started_at)], array[1::bigint]
    );
    return null;
end $$;

create or replace function count_refusal() returns trigger language plpgsql security definer
    set search_path = pg_catalog, openbell, pg_temp as $$
begin
    perform add_intent_counts(
        array[new.organization_id], array[new.account_id], array[new.created_at], array['REFUSAL'], array[''],
        array[1::bigint]
    );
    return null;
end $$;

-- What was there before the triggers, per account: up to which number actions and outcomes are to be counted afterwards, and
-- which of those actions were not settled yet, so that a trigger will count their outcomes. Only while this revision runs.
create table if not exists intent_count_marks (
    organization_id uuid not null,
    account_id uuid primary key,
    actions_to bigint not null default 0,
    outcomes_to bigint not null default 0,
    unsettled bigint[] not null default '{}',
    counted_to bigint not null default 0
);
grant select, insert, update on intent_count_marks to openbell_writer;

create or replace function mark_counted_actions() returns void language plpgsql security definer
    set search_path = pg_catalog, openbell, pg_temp as $$
begin
    insert into intent_count_marks (organization_id, account_id, actions_to)
    select c.organization_id, c.account_id, c.action_no from account_counters c where c.action_no > 0;
end $$;

create or replace function mark_counted_outcomes() returns void language plpgsql security definer
    set search_path = pg_catalog, openbell, pg_temp as $$
begin
    insert into intent_count_marks (organization_id, account_id, outcomes_to, unsettled)
    select c.organization_id, c.account_id, c.action_no, array(
        select s.action_no from action_states s where s.account_id = c.account_id and s.settled_at is null
    )
    from account_counters c where c.action_no > 0
    on conflict (account_id) do update set outcomes_to = excluded.outcomes_to, unsettled = excluded.unsettled;
end $$;

create or replace function count_earlier_refusals() returns void language plpgsql security definer
    set search_path = pg_catalog, openbell, pg_temp as $$
begin
    perform add_intent_counts(
        array_agg(r.organization_id), array_agg(r.account_id), array_agg(r.created_at), array_agg('REFUSAL'::text),
        array_agg(''::text), array_agg(1::bigint)
    ) from receipts r where r.verdict = 'REFUSED';
end $$;

-- One step: some numbers of one account. Read first and written under the account's lock, which is so held for a moment only.
create or replace function count_earlier_intents(p_numbers bigint) returns boolean language plpgsql security definer
    set search_path = pg_catalog, openbell, pg_temp as $$
declare
    m intent_count_marks;
    v_organization_id uuid[];
    v_account_id uuid[];
    v_moment timestamptz[];
    v_dimension text[];
    v_value text[];
    v_count bigint[];
begin
    select * into m from intent_count_marks where counted_to < greatest(actions_to, outcomes_to) limit 1;
    if not found then
        return false;
    end if;
    select array_agg(m.organization_id), array_agg(m.account_id), array_agg(e.moment), array_agg(e.dimension),
        array_agg(e.value), array_agg(e.count)
    into v_organization_id, v_account_id, v_moment, v_dimension, v_value, v_count
    from (
        select date_trunc('minute', a.created_at, 'UTC') as moment, 'ACTION' as dimension,
            concat_ws(' ', a.symbol, a.order_side, a.action_type) as value, count(*) as count
        from intent_actions a
        where a.organization_id = m.organization_id and a.account_id = m.account_id and a.action_no > m.counted_to
            and a.action_no <= least(m.counted_to + p_numbers, m.actions_to)
        group by 1, 2, 3
        union all
        select date_trunc('minute', s.queued_at, 'UTC'), 'OUTCOME',
            outcome_value(s.state, s.queued_at, s.send_started_at), count(*)
        from intent_actions a join action_states s on s.account_id = a.account_id and s.action_id = a.action_id
        where a.organization_id = m.organization_id and a.account_id = m.account_id and a.action_no > m.counted_to
            and a.action_no <= least(m.counted_to + p_numbers, m.outcomes_to)
            and a.action_no not in (select unnest(m.unsettled))
        group by 1, 2, 3
    ) e;
    perform 1 from account_counters c where c.account_id = m.account_id for no key update;
    perform add_intent_counts(v_organization_id, v_account_id, v_moment, v_dimension, v_value, v_count);
    update intent_count_marks set counted_to = m.counted_to + p_numbers where account_id = m.account_id;
    return true;
end $$;

create or replace procedure count_all_earlier_intents() language plpgsql as $$
begin
    loop
        perform set_config('lock_timeout', '500ms', true);
        exit when not openbell.count_earlier_intents(10000);
        commit;
    end loop;
end $$;

do $$
declare
    counting text;
begin
    foreach counting in array array[
        'count_actions()', 'count_outcome()', 'count_refusal()', 'mark_counted_actions()', 'mark_counted_outcomes()',
        'count_earlier_refusals()', 'count_earlier_intents(bigint)'
    ] loop
        execute format('alter function %s owner to openbell_writer', counting);
        execute format('revoke execute on function %s from public', counting);
        execute format('grant execute on function %s to %I', counting, current_user);
    end loop;
end $$;
revoke create on schema openbell from openbell_writer;
revoke openbell_writer from current_user;

-- apart
-- A trigger and the mark are one transaction: whoever wrote before it has committed, and whoever comes later is counted.
do $$
begin
    if not exists (select 1 from pg_trigger where tgrelid = 'intent_actions'::regclass and tgname = 'count_actions') then
        create trigger count_actions after insert on intent_actions referencing new table as written
            for each statement execute function count_actions();
        perform mark_counted_actions();
    end if;
end $$;

-- apart
do $$
begin
    if not exists (select 1 from pg_trigger where tgrelid = 'action_states'::regclass and tgname = 'count_outcome') then
        create trigger count_outcome after update on action_states
            for each row when (old.settled_at is null and new.settled_at is not null) execute function count_outcome();
        perform mark_counted_outcomes();
    end if;
end $$;

-- apart
-- outside a transaction
drop index concurrently if exists openbell.receipts_refused;
create index concurrently receipts_refused on openbell.receipts (account_id) where verdict = 'REFUSED';

-- apart
do $$
begin
    if not exists (select 1 from pg_trigger where tgrelid = 'receipts'::regclass and tgname = 'count_refusal') then
        create trigger count_refusal after insert on receipts
            for each row when (new.verdict = 'REFUSED') execute function count_refusal();
        perform count_earlier_refusals();
    end if;
end $$;

-- apart
-- outside a transaction
drop index concurrently if exists openbell.receipts_refused;

-- apart
-- outside a transaction
call openbell.count_all_earlier_intents();

-- apart
drop procedure count_all_earlier_intents;
drop function count_earlier_intents, count_earlier_refusals, mark_counted_outcomes, mark_counted_actions;
drop table intent_count_marks;
-- What the statistics are read from. It comes last: nobody reads counts that are not whole.
create or replace view counted_intents with (security_invoker = true) as select * from intent_counts;
grant select on counted_intents to openbell_tenant;
