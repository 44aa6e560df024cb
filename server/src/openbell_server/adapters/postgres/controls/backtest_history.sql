-- name: current_state(organization_id, account_id)
-- One statement, so positions and log heads are of the same moment. positions_as_of is null until the broker reported them.
select clock_timestamp() as now, c.event_no, c.action_no, c.refusal_no, c.positions_as_of,
    c.event_floor_at as forgotten_until,
    (
        select coalesce(json_object_agg(p.symbol, p.quantity::text), '{}')::text from positions p
        where p.organization_id = :organization_id and p.account_id = :account_id
    ) as positions,
    (select count(*) from accounts a where a.organization_id = :organization_id) = 1 as is_only_account
from account_counters c
where c.organization_id = :organization_id and c.account_id = :account_id;

-- name: first_refusal_since(organization_id, account_id, moment, head)$
with recursive halving (low, high) as (
    select 1::bigint, :head::bigint + 1
    union all
    select case when m.is_before then m.number + 1 else h.low end, case when m.is_before then h.high else m.number end
    from (select low, high, (low + high) / 2 as middle from halving where low < high offset 0) h
    cross join lateral (
        select r.refusal_no as number, r.created_at < :moment::timestamptz as is_before
        from receipts r
        where r.organization_id = :organization_id and r.account_id = :account_id and r.refusal_no is not null
            and r.refusal_no = h.middle
        offset 0
    ) m
)
select low from halving where low = high;

-- name: fits_since(organization_id, account_id, action_no, refusal_no)$
-- The time at which both this action and this refusal were recorded.
select greatest(
    (
        select a.created_at from intent_actions a
        where a.organization_id = :organization_id and a.account_id = :account_id and a.action_no = :action_no
    ),
    (
        select r.created_at from receipts r
        where r.organization_id = :organization_id and r.account_id = :account_id and r.refusal_no = :refusal_no
    )
)
from account_counters c where c.organization_id = :organization_id and c.account_id = :account_id;

-- name: last_order_events(organization_id, account_id, after, last)
-- The last of these events of each order: its body, and when the order was recorded (ours) or found (external).
select w.kind, w.intent_id, w.body, coalesce(o.created_at, x.found_at) as known_at
from (
    select distinct on (e.kind, e.intent_id, t.broker_order_id)
        e.kind, e.intent_id, e.body, t.broker_order_id
    from account_events e
    cross join lateral (
        select case e.kind when 4 then e.body::json ->> 'broker_order_id' else '' end as broker_order_id
    ) t
    where e.organization_id = :organization_id and e.account_id = :account_id
        and e.event_no > :after and e.event_no <= :last and e.kind in (2, 4)
    order by e.kind, e.intent_id, t.broker_order_id, e.event_no desc
) w
left join lateral (
    select o.created_at from orders o
    where w.kind = 2 and o.organization_id = :organization_id and o.account_id = :account_id and o.order_id = w.intent_id
    limit 1
) o on true
left join lateral (
    select x.found_at from external_orders x
    where w.kind = 4 and x.organization_id = :organization_id and x.account_id = :account_id
        and x.broker_order_id = w.broker_order_id
    limit 1
) x on true;

-- name: adjustments(organization_id, account_id, after, last)
select body from account_events
where organization_id = :organization_id and account_id = :account_id and event_no > :after and event_no <= :last
    and kind = 5;

-- name: open_orders_before(organization_id, account_id, after_order_id, moment, row_limit)
select order_id from orders
where organization_id = :organization_id and account_id = :account_id and standing <> 'CLOSED' and order_id > :after_order_id
    and created_at < :moment
order by order_id
limit :row_limit;

-- name: orders_at(organization_id, account_id, intent_ids, moment)
-- Orders as they were at a moment: the terms of the last replace that the broker had accepted, and the filled quantity.
select o.order_id, o.symbol, o.order_side, t.quantity, t.limit_price, t.stop_price, t.time_in_force, f.filled_quantity,
    f.filled_quantity < t.quantity
    and not (o.standing = 'CLOSED' and o.updated_at < :moment::timestamptz)
    and not (c.settled_at < :moment::timestamptz and c.state in ('REFUSED', 'SKIPPED', 'FAILED', 'ABANDONED')) as is_open
from orders o
join action_states c on c.organization_id = o.organization_id and c.account_id = o.account_id and c.intent_id = o.order_id
    and c.seq = 1
cross join lateral (
    select a.quantity, a.limit_price, a.stop_price, a.time_in_force
    from intent_actions a
    join action_states s on s.account_id = a.account_id and s.intent_id = a.intent_id and s.seq = a.seq
    where a.organization_id = o.organization_id and a.account_id = o.account_id and a.intent_id = o.order_id
        and (a.seq = 1 or (a.action_type = 'REPLACE' and s.state = 'ACKED' and s.settled_at < :moment::timestamptz))
    order by a.seq desc
    limit 1
) t
cross join lateral (
    select coalesce(sum(coalesce((
        select n.quantity from execution_changes n
        where n.organization_id = o.organization_id and n.account_id = o.account_id and n.execution_id = e.execution_id
            and n.recorded_at < :moment::timestamptz
        order by n.revision desc limit 1
    ), e.quantity)), 0) as filled_quantity
    from executions e
    where e.organization_id = o.organization_id and e.account_id = o.account_id and e.order_id = o.order_id
        and e.recorded_at < :moment::timestamptz
) f
where o.organization_id = :organization_id and o.account_id = :account_id and o.order_id = any(:intent_ids::uuid[]);

-- name: replaces_at(organization_id, account_id, intent_ids, moment)
-- Replaces that were not settled at a moment.
select a.intent_id, a.seq, a.quantity, a.limit_price
from intent_actions a
join action_states s on s.account_id = a.account_id and s.intent_id = a.intent_id and s.seq = a.seq
where a.organization_id = :organization_id and a.account_id = :account_id and a.intent_id = any(:intent_ids::uuid[])
    and a.action_type = 'REPLACE' and a.created_at < :moment::timestamptz
    and (s.settled_at is null or s.settled_at >= :moment::timestamptz);

-- name: read_events(organization_id, account_id, after, last, row_limit)
-- Events that change what rules count: commands with receipts, orders, and settled replaces. The lateral joins with a limit
-- force a look-up by key, whatever row count the planner expects.
select e.*, a.*, r.body as receipt
from (
    select e.event_no, e.kind, e.intent_id, e.seq, e.body, e.occurred_at from account_events e
    where e.organization_id = :organization_id and e.account_id = :account_id
        and e.event_no > :after and e.event_no <= :last
        and (e.kind in (2, 4, 5) or (e.kind = 1 and (e.body is null or e.seq > 1)))
    order by e.event_no
    limit :row_limit
) e
left join lateral (
    select a.action_id, a.action_type, a.symbol, a.order_side, a.order_type, a.quantity, a.limit_price, a.stop_price,
        a.time_in_force, a.principal_type, a.principal_id, a.receipt_id, a.created_at
    from intent_actions a
    where e.kind = 1 and e.body is null and a.organization_id = :organization_id and a.account_id = :account_id
        and a.intent_id = e.intent_id and a.seq = e.seq
    limit 1
) a on true
left join lateral (
    select r.body from receipts r
    where r.organization_id = :organization_id and r.account_id = :account_id and r.receipt_id = a.receipt_id
    limit 1
) r on true
order by e.event_no;

-- name: read_refusals(organization_id, account_id, after_refusal_no, last, row_limit)
select refusal_no, receipt_id, body, created_at from receipts
where organization_id = :organization_id and account_id = :account_id and refusal_no > :after_refusal_no and refusal_no <= :last
    and seq is null
order by refusal_no
limit :row_limit;

-- name: external_orders_before(organization_id, account_id, after_broker_order_id, moment, row_limit)
-- External orders found before a moment that are open now or were updated since.
select broker_order_id, symbol, order_side, quantity, limit_price, filled_quantity, status from external_orders
where organization_id = :organization_id and account_id = :account_id and found_at < :moment
    and broker_order_id > :after_broker_order_id and (status in ('WORKING', 'DONE_FOR_DAY') or updated_at >= :moment)
order by broker_order_id
limit :row_limit;
