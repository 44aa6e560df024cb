-- What makes a database whole. Each statement of a check returns the first five offenders and how many there are; no row
-- means that the check holds. Nothing here calls a function of the database under test.

-- name: schema_revision_across_organizations()$
select string_agg(version_num, ', ') from public.alembic_version;

-- name: may_look_across_organizations()$
select coalesce(bool_and(has_schema_privilege(oid, 'usage')), true) from pg_namespace where nspname = 'openbell';

-- name: sizes_across_organizations()^
select count(*) as accounts, coalesce(sum(action_no), 0)::bigint as actions, coalesce(sum(event_no - coalesce((to_jsonb(c) ->> 'event_floor')::bigint, 0)), 0)::bigint as events
from account_counters c;

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
-- Every action with the fields that its hash is taken of, in the order of domain/intents.py; an account without actions
-- has one row. The fields are text, so that no value somebody wrote there is beyond reading.
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
-- Those above the floor, every one. The floor is read as JSON: a schema of before has none, and every event.
select account_id::text as offender, count(*) over () as total
from (
    select organization_id, account_id, event_no, coalesce((to_jsonb(c) ->> 'event_floor')::bigint, 0) as floor
    from account_counters c
) c
full join (
    select organization_id, account_id, count(*) as events, count(distinct event_no) as numbers,
        min(event_no) as first_no, max(event_no) as last_no
    from account_events group by organization_id, account_id
) n using (organization_id, account_id)
where c.event_no is distinct from coalesce(n.last_no, c.floor) or n.first_no <> c.floor + 1
    or n.events <> n.last_no - c.floor or n.numbers <> n.events
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
-- Where a broker took executions back, the sum of all that there were is not what is filled. Read as JSON: a schema of
-- before knows no such orders.
select order_id::text as offender, count(*) over () as total
from orders o
full join (
    select organization_id, account_id, order_id, sum(quantity) as filled_quantity, sum(quantity * price) as filled_value
    from executions group by organization_id, account_id, order_id
) e using (organization_id, account_id, order_id)
where o.order_id is null
    or (o.filled_quantity, o.filled_value) <> (coalesce(e.filled_quantity, 0), coalesce(e.filled_value, 0))
        and not coalesce((to_jsonb(o) ->> 'executions_changed')::boolean, false)
order by offender limit 5;

-- name: miscounted_positions_across_organizations()
select account_id::text || ' ' || symbol as offender, count(*) over () as total
from positions p
full join (
    select organization_id, account_id, o.symbol,
        sum(case o.order_side when 'BUY' then e.quantity else -e.quantity end) as quantity
    from executions e
    join orders o using (organization_id, account_id, order_id)
    group by organization_id, account_id, o.symbol
) f using (organization_id, account_id, symbol)
where coalesce(p.quantity, 0) <> coalesce(f.quantity, 0)
order by offender limit 5;

-- name: dangling_keys_across_organizations()
-- The key itself is a caller's text: the intent it should lead to is named instead.
select intent_id::text as offender, count(*) over () as total
from idempotency_keys k
left join intent_actions a using (organization_id, account_id, intent_id, seq)
where a.action_id is null
order by offender limit 5;
