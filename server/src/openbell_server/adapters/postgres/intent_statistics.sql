-- name: count_intents(organization_id, account_id, span, window_seconds, in_flight_max, symbols_max)
-- One statement, so that all counts are of one moment. An action that waits is one that is neither settled nor in flight; of
-- those in flight the oldest are looked at, since actions are sent in their order.
with asked as (
    select a.organization_id, a.account_id, clock_timestamp() as until,
        case :span when 'EVER' then a.created_at else date_trunc(
            :span, clock_timestamp() - make_interval(secs => :window_seconds), 'UTC'
        ) end as since
    from accounts a where a.organization_id = :organization_id and a.account_id = :account_id
),
counted as materialized (
    select c.dimension, c.value, sum(c.count)::bigint as count
    -- Compared with values, not joined: a join would read the counts of every span, and of every account what is not in them.
    from counted_intents c
    where c.organization_id = :organization_id and c.account_id = :account_id and c.span = :span
        and c.starts_at >= (select case :span when 'EVER' then '-infinity' else asked.since end from asked)
    group by c.dimension, c.value
),
in_flight as materialized (
    select s.state, count(*) as count
    from asked cross join lateral (
        select s.state, s.queued_at from action_states s
        where s.organization_id = asked.organization_id and s.account_id = asked.account_id and s.settled_at is null
        order by s.action_no limit :in_flight_max
    ) s
    where s.state <> 'QUEUED' and s.queued_at >= asked.since
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
select asked.since, asked.until, facts.fact, facts.name, facts.count from asked cross join facts;
