-- name: halts_to_record_across_organizations(slots, row_limit)
-- Switches that cover accounts of these slots and are not recorded on them yet; accounts with open orders first.
select a.organization_id, a.account_id, a.broker, a.slot, s.scope, s.subject, s.version, s.state
from switches_in_force s
join accounts a on a.slot = any(:slots::smallint[])
    and (s.scope = 'PLATFORM' or a.organization_id = s.organization_id)
    and (s.of_account is null or a.account_id = s.of_account)
where not exists (
    select 1 from account_halts h
    where h.organization_id = a.organization_id and h.account_id = a.account_id and h.scope = s.scope
        and h.subject = s.subject and h.version = s.version and h.state = s.state
)
order by exists (select 1 from orders o where o.account_id = a.account_id and o.standing <> 'CLOSED') desc, a.account_id
limit :row_limit;

-- name: halts_to_lift_across_organizations(slots, row_limit)
-- Recorded as in force, but no longer in force.
select a.organization_id, a.account_id, a.broker, a.slot, h.scope, h.subject, h.version, h.state
from account_halts h
join accounts a on a.organization_id = h.organization_id and a.account_id = h.account_id
where h.lifted_at is null and a.slot = any(:slots::smallint[])
    and not exists (
        select 1 from switches_in_force s
        where (s.scope = 'PLATFORM' or s.organization_id = h.organization_id) and s.scope = h.scope
            and s.subject = h.subject and s.version = h.version and s.state = h.state
    )
order by h.account_id
limit :row_limit;

-- name: record_halt(organization_id, account_id, scope, of_whom, version, state)$
-- Under the account's lock. Returns no row if the switch was lifted meanwhile or is already recorded.
insert into account_halts (
    organization_id, account_id, scope, subject, version, state, cancel_working, halted_at, noticed_at
)
select :organization_id, :account_id, s.scope, s.subject, s.version, s.state, s.cancel_working, s.halted_at,
    clock_timestamp()
from switches_in_force s
where s.organization_id = any(array[:organization_id::uuid, '00000000-0000-0000-0000-000000000000'])
    and s.scope = :scope and s.subject = :of_whom and s.version = :version and s.state = :state
on conflict do nothing
returning true;

-- name: lift_halt(organization_id, account_id, scope, of_whom, version, state)$
-- lifted_at is the time of the next change of the switch, or the time at which its override expired.
update account_halts h
set lifted_at = coalesce(
    (
        select min(c.changed_at) from control_changes c
        where c.organization_id = any(array[:organization_id::uuid, '00000000-0000-0000-0000-000000000000'])
            and c.scope = h.scope and c.subject = h.subject and c.code = 'SWITCH' and c.version > h.version
    ),
    (
        select least(r.override_expires_at, clock_timestamp()) from control_rules r
        where r.organization_id = any(array[:organization_id::uuid, '00000000-0000-0000-0000-000000000000'])
            and r.scope = h.scope and r.subject = h.subject and r.code = 'SWITCH'
    ),
    clock_timestamp()
)
where h.organization_id = :organization_id and h.account_id = :account_id and h.scope = :scope and h.subject = :of_whom
    and h.version = :version and h.state = :state and h.lifted_at is null
    and not exists (
        select 1 from switches_in_force s
        where s.organization_id = any(array[:organization_id::uuid, '00000000-0000-0000-0000-000000000000'])
            and s.scope = h.scope and s.subject = h.subject and s.version = h.version and s.state = h.state
    )
returning true;

-- name: accounts_to_cancel_across_organizations(slots, row_limit)
-- Accounts with a halt that cancels working orders, and with an open order of any symbol and key.
select a.organization_id, a.account_id, a.broker, a.slot from accounts a
where a.slot = any(:slots::smallint[])
    and a.account_id in (select h.account_id from account_halts h where h.lifted_at is null and h.cancel_working)
    and exists (select 1 from orders o where o.account_id = a.account_id and o.standing <> 'CLOSED')
order by a.account_id
limit :row_limit;

-- name: orders_to_cancel(organization_id, account_id, row_limit)
-- Working orders in the scope of a halt that cancels them, without a pending cancel; each with the oldest such halt. After
-- n cancels that did not close an order, the next follows 1, 2, 4 … 60 seconds after the last. Orders that were sent under
-- REDUCE_ONLY because they reduce are not cancelled, nor are orders of paper accounts in shadow mode.
select o.order_id, o.symbol, n.now, h.scope, h.subject, h.version, h.state, k.cancels
from clock_timestamp() n (now)
join accounts a on a.organization_id = :organization_id and a.account_id = :account_id
join organizations g on g.organization_id = a.organization_id
join orders o on o.organization_id = a.organization_id and o.account_id = a.account_id
join action_states c on c.organization_id = o.organization_id and c.account_id = o.account_id
    and c.intent_id = o.order_id and c.seq = 1
cross join lateral (
    select h.* from account_halts h
    join switches_in_force s on s.scope = h.scope and s.subject = h.subject and s.version = h.version
        and s.state = h.state and s.organization_id in (h.organization_id, '00000000-0000-0000-0000-000000000000')
    where h.organization_id = o.organization_id and h.account_id = o.account_id and h.lifted_at is null
        and h.cancel_working
        and (h.scope <> 'SYMBOL' or h.subject = h.account_id::text || ' ' || o.symbol)
        and (h.scope <> 'KEY' or exists (
            select 1 from intent_actions i
            where i.organization_id = o.organization_id and i.account_id = o.account_id and i.intent_id = o.order_id
                and i.seq = 1 and i.principal_type = 'API_KEY' and i.principal_id = h.subject
        ))
        and (h.state = 'HALTED' or c.send_started_at <= h.halted_at)
    order by h.halted_at, h.scope
    limit 1
) h
cross join lateral (
    select count(*) as cancels, count(*) filter (where i.created_at >= h.halted_at) as since_then,
        max(i.created_at) as last_at
    from intent_actions i
    where i.organization_id = o.organization_id and i.account_id = o.account_id and i.intent_id = o.order_id
        and i.action_type = 'CANCEL' and i.principal_type = 'SYSTEM' and i.principal_id = 'halt'
) k
where o.standing <> 'CLOSED' and o.standing = 'WORKING' and o.pending <> 'CANCEL'
    and (
        k.since_then = 0
        or k.last_at < n.now - least(60, power(2, least(k.since_then, 10) - 1)) * interval '1 second'
    )
    and not (a.environment = 'paper' and g.paper_enforcement = 'SHADOW')
order by o.created_at
limit :row_limit;

-- name: accounts_to_compare_across_organizations(slots, row_limit)
-- Accounts with a halt, no open order of ours and no unsettled action, not compared with their broker since the halt.
select a.organization_id, a.account_id, a.broker, a.slot from accounts a
where a.slot = any(:slots::smallint[])
    and a.account_id in (select h.account_id from account_halts h where h.lifted_at is null and h.compared_at is null)
    and not exists (select 1 from orders o where o.account_id = a.account_id and o.standing <> 'CLOSED')
    and not exists (select 1 from action_states s where s.account_id = a.account_id and s.settled_at is null)
-- Random, so that accounts whose broker does not answer cannot block the others.
order by random()
limit :row_limit;

-- name: note_comparison(organization_id, account_id)$
-- Records a comparison that began after the halt and after the last event of our orders and actions.
with compared as (
    select c.reconciled_at from account_counters c
    where c.organization_id = :organization_id and c.account_id = :account_id
        and c.reconciled_at > coalesce(
            (
                select e.occurred_at from account_events e
                where e.organization_id = :organization_id and e.account_id = :account_id and e.kind in (1, 2)
                order by e.event_no desc limit 1
            ),
            -- If that event was deleted, the time of the newest deleted event is an upper bound.
            c.event_floor_at,
            '-infinity'
        )
),
noted as (
    update account_halts h set compared_at = c.reconciled_at
    from compared c
    where h.organization_id = :organization_id and h.account_id = :account_id and h.lifted_at is null
        and h.compared_at is null and c.reconciled_at > h.halted_at
    returning 1
)
select true from noted limit 1;

-- name: count_halts_across_organizations()
select s.scope, count(*) as halts from switches_in_force s group by s.scope;
