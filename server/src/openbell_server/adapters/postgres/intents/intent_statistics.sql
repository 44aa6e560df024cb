-- name: count_intents(organization_id, account_id, span, window_seconds, in_flight_max, symbols_max)
-- One statement, so all counts are of one moment. A queued action is neither settled nor in flight. Only the oldest unsettled
-- actions are read to find those in flight, because actions are sent in order.
with requested as (
    select a.organization_id, a.account_id, clock_timestamp() as until,
        case :span when 'EVER' then a.created_at else date_trunc(
            :span, clock_timestamp() - make_interval(secs => :window_seconds), 'UTC'
        ) end as since
    from accounts a where a.organization_id = :organization_id and a.account_id = :account_id
),
counted as materialized (
    select c.dimension, c.value, sum(c.count)::bigint as count
    -- Filtered by values instead of a join with requested: a join would read the counters of every span and account.
    from counted_intents c
    where c.organization_id = :organization_id and c.account_id = :account_id and c.span = :span
        and c.starts_at >= (select case :span when 'EVER' then '-infinity' else requested.since end from requested)
    group by c.dimension, c.value
),
in_flight as materialized (
    select s.state, count(*) as count
    from requested cross join lateral (
        select s.state, s.queued_at from action_states s
        where s.organization_id = requested.organization_id and s.account_id = requested.account_id and s.settled_at is null
        order by s.action_no limit :in_flight_max
    ) s
    where s.state <> 'QUEUED' and s.queued_at >= requested.since
    group by s.state
),
facts as (
    select 'ACTION_TYPE' as fact, split_part(value, ' ', 3) as name, sum(count)::bigint as count
    from counted where dimension = 'ACTION' group by 2
    union all
    select 'ORDER_SIDE', split_part(value, ' ', 2), sum(count)::bigint
    from counted where dimension = 'ACTION' group by 2
    union all
    (
        select 'SYMBOL', split_part(value, ' ', 1), sum(count)::bigint
        from counted where dimension = 'ACTION' group by 2 order by 3 desc, 2 limit :symbols_max
    )
    union all
    select 'STATE', split_part(value, ' ', 1), sum(count)::bigint from counted where dimension = 'OUTCOME' group by 2
    union all
    select 'STATE', state, count from in_flight
    union all
    select 'STATE', 'QUEUED', (
        coalesce((select sum(case dimension when 'ACTION' then count when 'OUTCOME' then -count end) from counted), 0)
        - coalesce((select sum(count) from in_flight), 0)
    )::bigint
    union all
    select 'LATENCY_STEP', split_part(value, ' ', 2), sum(count)::bigint
    from counted where dimension = 'OUTCOME' and value like '% %' group by 2
    union all
    select 'REFUSAL', '', count from counted where dimension = 'REFUSAL'
)
select requested.since, requested.until, facts.fact, facts.name, facts.count from requested cross join facts;
