-- Each statement of a check returns the first five offenders and their total; no row means that the check holds. No
-- statement calls a function of the database under test.

-- name: schema_revision_across_organizations()$
select string_agg(version_num, ', ') from public.alembic_version;

-- name: may_look_across_organizations()$
select coalesce(bool_and(has_schema_privilege(oid, 'usage')), true) from pg_namespace where nspname = 'openbell';

-- name: sizes_across_organizations()^
select count(*) as accounts, coalesce(sum(action_no), 0)::bigint as actions, coalesce(sum(event_no - event_floor), 0)::bigint as events
from account_counters;

-- name: unsettled_across_organizations()^
select count(*) filter (where state = 'QUEUED') as queued, count(*) filter (where state <> 'QUEUED') as past_door
from action_states where settled_at is null;

-- name: misnumbered_actions_across_organizations()
select account_id::text as offender, count(*) over () as total
from accounts t
full join account_counters c using (organization_id, account_id)
full join (
    select organization_id, account_id, count(*) as actions, count(distinct action_no) as numbers,
        min(action_no) as first_no, max(action_no) as last_no
    from intent_actions group by organization_id, account_id
) n using (organization_id, account_id)
where t.account_id is null or c.action_no is distinct from coalesce(n.last_no, 0)
    or n.first_no <> 1 or n.actions <> n.last_no or n.numbers <> n.last_no
order by offender limit 5;

-- name: chained_actions_across_organizations()
-- Every action with the fields of its hash, in the order of domain/orders/intents.py; an account without actions has one
-- row. The fields are text, so that every stored value can be read.
select c.account_id, c.chain_head, a.action_id, a.action_no, a.chained_from, a.hash, r.hash as receipt_hash,
    array[
        a.action_id::text, a.intent_id::text, a.account_id::text, a.organization_id::text, a.action_no::text,
        a.seq::text, a.action_type, a.symbol, a.order_side, a.order_type, a.route_strategy, a.quantity::text,
        a.limit_price::text, a.stop_price::text, a.time_in_force, a.client_reference_id, a.principal_type,
        a.principal_id, a.receipt_id::text, trunc(extract(epoch from a.created_at) * 1000000)::text
    ] as fields
from account_counters c
left join intent_actions a on a.organization_id = c.organization_id and a.account_id = c.account_id
left join receipts r
    on r.organization_id = a.organization_id and r.account_id = a.account_id and r.receipt_id = a.receipt_id
order by c.organization_id, c.account_id, a.action_no;

-- name: false_receipts_across_organizations()
select receipt_id::text as offender, count(*) over () as total
from (
    select receipt_id from receipts where hash <> sha256(convert_to(body, 'UTF8'))
    union
    select receipt_id from intent_actions a
    left join receipts r using (organization_id, account_id, receipt_id)
    where (r.intent_id, r.seq) is distinct from (a.intent_id, a.seq)
) f
order by offender limit 5;

-- name: misnumbered_events_across_organizations()
-- Events above the floor must be complete; those below were pruned.
select account_id::text as offender, count(*) over () as total
from account_counters c
full join (
    select organization_id, account_id, count(*) as events, count(distinct event_no) as numbers,
        min(event_no) as first_no, max(event_no) as last_no
    from account_events group by organization_id, account_id
) n using (organization_id, account_id)
where c.event_no is distinct from coalesce(n.last_no, c.event_floor) or n.first_no <> c.event_floor + 1
    or n.events <> n.last_no - c.event_floor or n.numbers <> n.events
order by offender limit 5;

-- name: unmatched_orders_across_organizations()
select order_id::text as offender, count(*) over () as total
from orders o
full join (
    select organization_id, account_id, intent_id as order_id from intent_actions where seq = 1
) a using (organization_id, account_id, order_id)
where o.order_id is null or a.order_id is null
order by offender limit 5;

-- name: unmatched_states_across_organizations()
select action_id::text as offender, count(*) over () as total
from intent_actions a
full join action_states s using (organization_id, account_id, action_id)
where (a.intent_id, a.seq, a.action_no, a.action_type) is distinct from (s.intent_id, s.seq, s.action_no, s.action_type)
order by offender limit 5;

-- name: miscounted_orders_across_organizations()
-- If a broker busted executions, the sum of all executions differs from the filled quantity.
select order_id::text as offender, count(*) over () as total
from orders o
full join (
    select organization_id, account_id, order_id, sum(quantity) as filled_quantity, sum(quantity * price) as filled_value
    from executions group by organization_id, account_id, order_id
) e using (organization_id, account_id, order_id)
where o.order_id is null
    or (o.filled_quantity, o.filled_value) <> (coalesce(e.filled_quantity, 0), coalesce(e.filled_value, 0))
        and not o.executions_changed
order by offender limit 5;

-- name: miscounted_positions_across_organizations()
-- A position is the sum of the fills of our orders, the fills of external orders, and the adjustments to the broker's
-- positions.
select account_id::text || ' ' || symbol as offender, count(*) over () as total
from positions p
full join (
    select organization_id, account_id, symbol, sum(quantity) as quantity
    from (
        select organization_id, account_id, symbol,
            case order_side when 'BUY' then filled_quantity else -filled_quantity end as quantity
        from orders where filled_quantity > 0
        union all
        select organization_id, account_id, symbol,
            case order_side when 'BUY' then filled_quantity else -filled_quantity end
        from external_orders
        union all
        select organization_id, account_id, symbol, change from position_changes
        where cause in ('OPENING', 'UNEXPLAINED')
    ) each_change
    group by organization_id, account_id, symbol
) f using (organization_id, account_id, symbol)
where coalesce(p.quantity, 0) <> coalesce(f.quantity, 0)
order by offender limit 5;

-- name: dangling_keys_across_organizations()
-- The key is a caller's text and may be confidential: the intent is shown instead.
select intent_id::text as offender, count(*) over () as total
from idempotency_keys k
left join intent_actions a using (organization_id, account_id, intent_id, seq)
where a.action_id is null
order by offender limit 5;
