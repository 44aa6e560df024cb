-- name: accounts_with_desk_commands_across_organizations(slots, row_limit)
select a.organization_id, a.account_id, a.broker, a.slot
from (select distinct d.organization_id, d.account_id from desk_commands d where d.ended_at is null) d
join accounts a on a.organization_id = d.organization_id and a.account_id = d.account_id
where a.slot = any(:slots::smallint[])
order by a.account_id
limit :row_limit;

-- name: desk_orders_to_cancel(organization_id, account_id, row_limit)
-- Open orders of commands that have not ended, without a pending cancel; each for the oldest such command. After n cancels
-- that did not close an order, the next follows 1, 2, 4 … 60 seconds after the last, as it does for a halt.
select o.order_id, o.symbol, n.now, d.desk_command_id, k.cancels
from clock_timestamp() n (now)
cross join lateral (
    select distinct on (i.order_id) i.order_id, i.desk_command_id
    from desk_commands d
    join desk_command_orders i on i.account_id = d.account_id and i.desk_command_id = d.desk_command_id
    where d.organization_id = :organization_id and d.account_id = :account_id and d.ended_at is null
    order by i.order_id, i.desk_command_id
) d
join orders o on o.organization_id = :organization_id and o.account_id = :account_id and o.order_id = d.order_id
    and o.standing <> 'CLOSED' and o.pending <> 'CANCEL'
cross join lateral (
    select count(*) as cancels, max(i.created_at) as last_at from intent_actions i
    where i.organization_id = :organization_id and i.account_id = :account_id and i.intent_id = o.order_id
        and i.action_type = 'CANCEL' and i.principal_type = 'SYSTEM'
        and i.principal_id = 'desk_command:' || d.desk_command_id::text
) k
where (
        k.cancels = 0
        or k.last_at < n.now - least(60, power(2, least(k.cancels, 10) - 1)) * interval '1 second'
    )
    -- An order that is not at the broker yet does not show its cancel as pending.
    and not exists (
        select 1 from action_states s
        where s.account_id = o.account_id and s.intent_id = o.order_id and s.action_type = 'CANCEL' and s.settled_at is null
    )
order by k.cancels, o.created_at
limit :row_limit;

-- name: end_cancel_all(organization_id, account_id)!
update desk_commands d set ended_at = clock_timestamp()
where d.organization_id = :organization_id and d.account_id = :account_id and d.ended_at is null
    and d.command_type = 'CANCEL_ALL'
    and not exists (
        select 1 from desk_command_orders i
        join orders o on o.organization_id = i.organization_id and o.account_id = i.account_id and o.order_id = i.order_id
        where i.account_id = d.account_id and i.desk_command_id = d.desk_command_id and o.standing <> 'CLOSED'
    );

-- name: closings(organization_id, account_id, row_limit)
-- Each CLOSE_POSITION that has not ended, with its open orders and its closing order.
select d.desk_command_id, d.symbol, d.principal_type, d.principal_id, d.reason, clock_timestamp() - d.created_at as age,
    s.open_orders, s.unknown_orders, k.intent_id, x.close_reason, x.certainty
from desk_commands d
cross join lateral (
    select count(*) as open_orders, count(*) filter (where o.certainty = 'UNKNOWN') as unknown_orders
    from desk_command_orders i
    join orders o on o.organization_id = i.organization_id and o.account_id = i.account_id and o.order_id = i.order_id
    where i.account_id = d.account_id and i.desk_command_id = d.desk_command_id and o.standing <> 'CLOSED'
) s
left join idempotency_keys k on k.organization_id = d.organization_id and k.account_id = d.account_id
    and k.key = 'desk_command ' || d.desk_command_id::text
left join orders x on x.organization_id = k.organization_id and x.account_id = k.account_id and x.order_id = k.intent_id
where d.organization_id = :organization_id and d.account_id = :account_id and d.ended_at is null
    and d.command_type = 'CLOSE_POSITION'
order by d.command_no
limit :row_limit;

-- name: end_closing(organization_id, account_id, desk_command_id, failed, desk_reason, detail, receipt_id)!
update desk_commands
set ended_at = clock_timestamp(), failed = :failed, reason = :desk_reason, detail = :detail, receipt_id = :receipt_id
where organization_id = :organization_id and account_id = :account_id and desk_command_id = :desk_command_id
    and ended_at is null;

-- name: set_waiting_reason(organization_id, account_id, desk_command_id, desk_reason)!
update desk_commands set reason = :desk_reason
where organization_id = :organization_id and account_id = :account_id and desk_command_id = :desk_command_id
    and ended_at is null;

-- name: position_to_close(organization_id, account_id, symbol)^
-- The position in a symbol, null if it is not known, and the open orders of the symbol. After a restore it is not known until
-- the account was compared with its broker.
select clock_timestamp() as now,
    case
        when c.positions_as_of is not null and i.is_this and c.recovered_epoch = i.epoch then coalesce(p.quantity, 0)
    end as quantity,
    (
        select count(*) from orders o
        where o.organization_id = :organization_id and o.account_id = :account_id and o.standing <> 'CLOSED'
            and o.symbol = :symbol
    ) + (
        select count(*) from external_orders e
        where e.organization_id = :organization_id and e.account_id = :account_id
            and e.status in ('WORKING', 'DONE_FOR_DAY') and e.symbol = :symbol
    ) as open_orders
from account_counters c
cross join this_incarnation i
left join positions p on p.organization_id = c.organization_id and p.account_id = c.account_id and p.symbol = :symbol
where c.organization_id = :organization_id and c.account_id = :account_id;
