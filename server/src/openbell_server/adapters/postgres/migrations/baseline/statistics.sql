-- Statistics: counts that are updated where rows are written, so that reading them costs the same however long the history.

create table intent_counts (
    organization_id uuid not null,
    account_id uuid not null,
    -- A minute of the last hour, an hour of the last month, or all time. Spans that no window reaches are removed.
    span text not null check (span in ('MINUTE', 'HOUR', 'EVER')),
    starts_at timestamptz not null,
    -- ACTION: symbol, side and type. OUTCOME: the state in which an action settled and, if it was sent, the step of its
    -- latency; it counts in the span in which its action was recorded. REFUSAL: an empty value.
    dimension text not null check (dimension in ('ACTION', 'OUTCOME', 'REFUSAL')),
    value text not null,
    count bigint not null check (count > 0),
    primary key (account_id, span, starts_at, dimension, value),
    check ((span = 'EVER') = (starts_at = '-infinity'))
) with (fillfactor = 50);
comment on table intent_counts is 'How many actions, outcomes and refusals an account had, by span of time.';
call protect_tenant_table('intent_counts');
grant select on intent_counts to openbell_tenant;
grant select, insert, update, delete on intent_counts to openbell_writer;
create policy accept_step on intent_counts to openbell_writer using (true);

create table intent_counted (
    organization_id uuid not null,
    account_id uuid primary key,
    -- All actions up to this number and their outcomes are in the counts, and none after it.
    actions_to bigint not null
) with (fillfactor = 50);
comment on table intent_counted is
    'Up to which number an account''s actions and their outcomes are in the counts. Later ones, fewer than 64, are read where they are recorded.';
call protect_tenant_table('intent_counted');
grant select on intent_counted to openbell_tenant;
grant select, insert, update on intent_counted to openbell_writer;
create policy accept_step on intent_counted to openbell_writer using (true);

-- Four steps double a latency; step 0 ends at one millisecond, step 120 has no upper end.
create function latency_step(waited interval) returns integer language sql immutable parallel safe as
$$ select least(120, ceil(4 * ln(greatest(1, extract(epoch from waited)::float8 * 1000)) / ln(2))::integer) $$;

-- The value under which an outcome is counted. Not concat_ws, which is not immutable: it would be planned for each outcome.
create function outcome_value(state text, queued_at timestamptz, send_started_at timestamptz) returns text
    language sql immutable parallel safe as
$$ select state || coalesce(' ' || openbell.latency_step(send_started_at - queued_at)::text, '') $$;

-- The spans in which a moment is counted; one that a short span no longer covers is counted in the longer ones only.
create function spans_of(moment timestamptz) returns table (span text, starts_at timestamptz)
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

-- Adds to the counts. The first count of a new span also removes the spans that are too old now. Rows are written in the
-- order of their key: a writer that does not hold the account's lock waits for others, and never they for it.
create function add_intent_counts(
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

-- Counts an account's actions, and the outcomes that they have by then, once for 64 actions: counting each was the largest
-- part of the cost of a command. The update of the account's row holds the account's lock, as does what settles an
-- action, so nothing is counted twice.
create function count_actions_so_far() returns trigger language plpgsql as $$
begin
    perform add_intent_counts(
        array_agg(new.organization_id), array_agg(new.account_id), array_agg(f.moment), array_agg(f.dimension),
        array_agg(f.value), array_agg(1::bigint)
    )
    from (
        with uncounted as materialized (
            select a.action_id, a.created_at, concat_ws(' ', a.symbol, a.order_side, a.action_type) as value
            from intent_actions a
            where a.organization_id = new.organization_id and a.account_id = new.account_id
                and a.action_no <= new.action_no and a.action_no > coalesce(
                    (select t.actions_to from intent_counted t where t.account_id = new.account_id), 0
                )
        )
        select u.created_at as moment, 'ACTION' as dimension, u.value from uncounted u
        union all
        select s.queued_at, 'OUTCOME', outcome_value(s.state, s.queued_at, s.send_started_at)
        from uncounted u
        join action_states s on s.account_id = new.account_id and s.action_id = u.action_id and s.settled_at is not null
    ) f;
    insert into intent_counted (organization_id, account_id, actions_to)
    values (new.organization_id, new.account_id, new.action_no)
    on conflict (account_id) do update set actions_to = excluded.actions_to;
    return null;
end $$;
call run_as('openbell_writer', 'count_actions_so_far', current_user);
create trigger count_actions after update of action_no on account_counters
    for each row when (new.action_no / 64 > old.action_no / 64) execute function count_actions_so_far();

-- Counts one outcome of an action that is in the counts already; later ones are counted with their actions. Without arrays: a
-- statement over arrays costs more to start than three rows cost to write.
create function count_outcome() returns trigger language plpgsql as $$
declare
    v_minute timestamptz;
    v_value text;
begin
    if not exists (
        select 1 from intent_counted t where t.account_id = new.account_id and t.actions_to >= new.action_no
    ) then
        return null;
    end if;
    v_minute := date_trunc('minute', new.queued_at, 'UTC');
    v_value := outcome_value(new.state, new.queued_at, new.send_started_at);
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
call run_as('openbell_writer', 'count_outcome', current_user);
create trigger count_outcome after update on action_states
    for each row when (old.settled_at is null and new.settled_at is not null) execute function count_outcome();

-- Counts commands that were refused before they were recorded. One that was skipped at its door has an outcome instead.
create function count_refusal() returns trigger language plpgsql as $$
begin
    perform add_intent_counts(
        array[new.organization_id], array[new.account_id], array[new.created_at], array['REFUSAL'], array[''],
        array[1::bigint]
    );
    return null;
end $$;
call run_as('openbell_writer', 'count_refusal', current_user);
create trigger count_refusal after insert on receipts
    for each row when (new.verdict = 'REFUSED' and new.seq is null) execute function count_refusal();
