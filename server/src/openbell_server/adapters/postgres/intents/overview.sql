-- name: list_overviews(organization_id, environment, account_ids, after, count_max, row_limit)
-- By the time at which the account was opened. No count goes beyond count_max, so an account with many rows costs no more.
select a.account_id, a.name, a.environment, a.disabled, c.halt_code, (extract(epoch from a.created_at) * 1000000)::bigint as number,
    o.open_orders, o.unknown_orders, e.executions_last_minute, q.oldest_queued_at,
    (
        select case when bool_or(s.state = 'HALTED') then 'HALTED' when count(*) > 0 then 'REDUCE_ONLY' else 'ACTIVE' end
        from switches_in_force s
        where s.organization_id = a.organization_id
            and (s.scope = 'ORGANIZATION' or (s.scope = 'ACCOUNT' and s.of_account = a.account_id))
    ) as switch
from accounts a
join account_counters c on c.organization_id = a.organization_id and c.account_id = a.account_id
cross join lateral (
    select count(*) as open_orders, count(*) filter (where l.certainty = 'UNKNOWN') as unknown_orders
    from (
        select o.certainty from orders o
        where o.organization_id = a.organization_id and o.account_id = a.account_id and o.standing <> 'CLOSED'
        limit :count_max
    ) l
) o
cross join lateral (
    select count(*) as executions_last_minute
    from (
        select 1 from executions e
        where e.organization_id = a.organization_id and e.account_id = a.account_id
            and e.recorded_at > statement_timestamp() - interval '1 minute'
        limit :count_max
    ) l
) e
left join lateral (
    select s.queued_at as oldest_queued_at from action_states s
    where s.organization_id = a.organization_id and s.account_id = a.account_id and s.settled_at is null
        and s.state = 'QUEUED'
    order by s.action_no limit 1
) q on true
where a.organization_id = :organization_id and a.closed_at is null
    and (:environment::text is null or a.environment = :environment)
    and (:account_ids::uuid[] is null or a.account_id = any(:account_ids::uuid[]))
    and (extract(epoch from a.created_at) * 1000000)::bigint > :after
order by a.created_at limit :row_limit;
