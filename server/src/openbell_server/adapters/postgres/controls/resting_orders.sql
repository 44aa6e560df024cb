-- name: accounts_resting_across_organizations(slots)
-- Accounts with a limit and an older order of any symbol, because executors may not read symbols.
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
-- Confirmed orders without a pending cancel that are older than the limit; after n of our cancels that did not close an
-- order, older than 2^n times the limit.
select o.order_id as intent_id, o.symbol, n.now as seen_at, w.version as control_version, w.max_resting_millis,
    k.cancels, floor(extract(epoch from n.now - o.created_at) * 1000)::bigint as rested_millis
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

-- name: accounts_closing_across_organizations(slots)
-- Accounts with a control that cancels orders at close, and with an open order of any symbol.
select distinct a.organization_id, a.account_id from symbol_time_controls w
join accounts a on a.organization_id = w.organization_id and a.account_id = w.account_id
where w.on_close = 'CANCEL' and a.slot = any(:slots::smallint[])
    and exists (
        select 1 from orders o
        where o.organization_id = w.organization_id and o.account_id = w.account_id and o.standing <> 'CLOSED'
    )
limit 1000;

-- name: orders_to_close(organization_id, account_id, row_limit)
-- Confirmed orders without a pending cancel, each with the control of its symbol.
select o.order_id, o.symbol, clock_timestamp() as now, w.trading_start, w.trading_end, w.timezone, w.days, w.calendar,
    w.session, w.on_close, w.version, w.created_at, w.updated_at, k.cancels, k.cancelled_at
from symbol_time_controls w
join orders o on o.organization_id = w.organization_id and o.account_id = w.account_id and o.symbol = w.symbol
cross join lateral (
    select count(*) as cancels, max(i.created_at) as cancelled_at from intent_actions i
    where i.organization_id = :organization_id and i.account_id = :account_id and i.intent_id = o.order_id
        and i.action_type = 'CANCEL' and i.principal_type = 'SYSTEM' and i.principal_id = 'on_close'
) k
where w.organization_id = :organization_id and w.account_id = :account_id and w.on_close = 'CANCEL'
    and o.standing <> 'CLOSED' and o.standing = 'WORKING' and o.certainty = 'CONFIRMED' and o.pending in ('NONE', 'REPLACE')
order by k.cancels, o.created_at
limit :row_limit;
