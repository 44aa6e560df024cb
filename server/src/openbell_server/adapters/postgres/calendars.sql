-- These need the newest schema.

-- name: session_changes(row_limit)
-- What applies of each session of each day that an operator changed, the newest days first.
select calendar, trade_date, session, opens_at, closes_at, reason
from (
    select distinct on (calendar, trade_date, session) calendar, trade_date, session, opens_at, closes_at, reason,
        is_reset
    from calendar_overrides
    order by calendar, trade_date, session, change_no desc
) newest
where not is_reset
order by trade_date desc, calendar, session
limit :row_limit;

-- name: change_session(calendar, trade_date, session, is_reset, opens_at, closes_at, reason, operator)!
insert into calendar_overrides (calendar, trade_date, session, is_reset, opens_at, closes_at, reason, principal_id)
values (
    :calendar, :trade_date, :session, :is_reset, :opens_at::timestamptz, :closes_at::timestamptz, :reason, :operator
);

-- name: save_market(organization_id, account_id, symbol, calendar, session, on_close)!
update symbol_time_controls set calendar = :calendar, session = :session, on_close = :on_close
where organization_id = :organization_id and account_id = :account_id and symbol = :symbol;

-- name: accounts_closing_across_organizations(slots)
-- Accounts with a control that has orders cancelled when it closes, and with an order of whichever symbol.
select distinct a.organization_id, a.account_id from symbol_time_controls w
join accounts a on a.organization_id = w.organization_id and a.account_id = w.account_id
where w.on_close = 'cancel' and a.slot = any(:slots::smallint[])
    and exists (
        select 1 from orders o
        where o.organization_id = w.organization_id and o.account_id = w.account_id and o.standing <> 'CLOSED'
    )
limit 1000;

-- name: orders_to_close(organization_id, account_id, row_limit)
-- Orders that the broker surely has and that wait for no cancel, each with the control of its symbol.
select o.order_id, o.symbol, clock_timestamp() as now, w.trading_start, w.trading_end, w.timezone, w.days, w.calendar,
    w.session, w.on_close, w.version, w.created_at, w.updated_at, k.cancels, k.cancelled_at
from symbol_time_controls w
join orders o on o.organization_id = w.organization_id and o.account_id = w.account_id and o.symbol = w.symbol
cross join lateral (
    select count(*) as cancels, max(i.created_at) as cancelled_at from intent_actions i
    where i.organization_id = :organization_id and i.account_id = :account_id and i.intent_id = o.order_id
        and i.action_type = 'CANCEL' and i.principal_type = 'SYSTEM' and i.principal_id = 'on_close'
) k
where w.organization_id = :organization_id and w.account_id = :account_id and w.on_close = 'cancel'
    and o.standing <> 'CLOSED' and o.standing = 'WORKING' and o.certainty = 'CONFIRMED' and o.pending in ('NONE', 'REPLACE')
order by k.cancels, o.created_at
limit :row_limit;
