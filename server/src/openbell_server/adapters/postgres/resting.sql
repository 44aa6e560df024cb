-- name: save_resting_limit(organization_id, account_id, symbol, max_resting_millis)!
update symbol_time_controls set max_resting_millis = :max_resting_millis
where organization_id = :organization_id and account_id = :account_id and symbol = :symbol;

-- name: accounts_resting_across_organizations(slots)
-- Accounts with a limit and with an order that is older, of whichever symbol: executors see no symbols.
select distinct a.organization_id, a.account_id from symbol_time_controls w
join accounts a on a.organization_id = w.organization_id and a.account_id = w.account_id
where w.max_resting_millis is not null and a.slot = any(:slots::smallint[])
    and exists (
        select 1 from orders o
        where o.organization_id = w.organization_id and o.account_id = w.account_id and o.standing <> 'CLOSED'
            and o.created_at < clock_timestamp() - w.max_resting_millis * interval '1 millisecond'
    )
limit 1000;

-- name: resting_too_long(organization_id, account_id, row_limit)
-- Orders that the broker surely has, that wait for no cancel, and that are older than the limit; after n cancels of ours
-- that did not end one, than 2 to the n limits.
select o.order_id, o.symbol, n.now, w.version, w.max_resting_millis, k.cancels,
    floor(extract(epoch from n.now - o.created_at) * 1000)::bigint as rested_millis
from clock_timestamp() n (now)
cross join symbol_time_controls w
join orders o on o.organization_id = w.organization_id and o.account_id = w.account_id and o.symbol = w.symbol
cross join lateral (
    select count(*) as cancels from intent_actions i
    where i.organization_id = :organization_id and i.account_id = :account_id and i.intent_id = o.order_id
        and i.action_type = 'CANCEL' and i.principal_type = 'SYSTEM' and i.principal_id = 'max_resting_millis'
) k
where w.organization_id = :organization_id and w.account_id = :account_id and w.max_resting_millis is not null
    and o.standing <> 'CLOSED' and o.standing = 'WORKING' and o.certainty = 'CONFIRMED' and o.pending in ('NONE', 'REPLACE')
    and o.created_at < n.now - w.max_resting_millis * power(2, k.cancels) * interval '1 millisecond'
order by o.created_at
limit :row_limit;
