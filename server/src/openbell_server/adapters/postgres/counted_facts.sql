-- name: counted_facts(organization_id, account_id, action_id, intent_id, key, symbol, order_side, order_type, quantity, limit_price, stop_price, time_in_force, wants_exposure, wants_equals, window_millis)^
-- What rules count, under the account's lock. Orders that wait or are in doubt count as if they worked, and by what a replace
-- under way asks for if that is more; for an action at its door those behind it that wait do not count. Neither does the order
-- of the intent itself. What a schema of before has not is read as JSON.
with recursive turn as materialized (
    select clock_timestamp() as now, (
        select s.action_no from action_states s
        where s.organization_id = :organization_id and s.account_id = :account_id and s.action_id = :action_id::uuid
    ) as action_no
),
-- From the newest order of the symbol backwards, and no further than the window.
newer (action_no, created_at, is_equal) as (
    select 9223372036854775807::bigint, t.now, false from turn t where :wants_equals::boolean
    union all
    select n.action_no, n.created_at, n.is_equal
    from newer r cross join turn t
    cross join lateral (
        select a.action_no, a.created_at, a.action_type = 'CREATE' and a.order_side = :order_side
            and a.order_type = :order_type and a.quantity = :quantity::numeric
            and a.limit_price is not distinct from :limit_price::numeric
            and a.stop_price is not distinct from :stop_price::numeric and a.time_in_force = :time_in_force as is_equal
        from intent_actions a
        where a.organization_id = :organization_id and a.account_id = :account_id and a.symbol = :symbol
            and a.action_no < r.action_no
        order by a.action_no desc
        limit 1
    ) n
    where n.created_at > t.now - make_interval(secs => :window_millis::integer / 1000.0)
),
replaces_under_way as materialized (
    select u.intent_id, max(a.quantity) as quantity
    from turn t
    join action_states u on :wants_exposure::boolean and u.organization_id = :organization_id
        and u.account_id = :account_id and u.settled_at is null and u.action_type = 'REPLACE'
        and (t.action_no is null or u.action_no < t.action_no or u.state <> 'QUEUED')
    join intent_actions a on a.organization_id = u.organization_id and a.account_id = u.account_id
        and a.intent_id = u.intent_id and a.seq = u.seq
    group by u.intent_id
),
open_orders as materialized (
    select o.symbol, o.order_side, greatest(0, greatest(o.quantity, r.quantity) - o.filled_quantity) as leaves
    from turn t
    join orders o on :wants_exposure::boolean and o.organization_id = :organization_id and o.account_id = :account_id
        and o.standing <> 'CLOSED' and o.order_id is distinct from :intent_id::uuid
    left join replaces_under_way r on r.intent_id = o.order_id
    where t.action_no is null or exists (
        select 1 from action_states s
        where s.account_id = o.account_id and s.intent_id = o.order_id and s.seq = 1
            and (s.action_no < t.action_no or s.state <> 'QUEUED')
    )
    union all
    -- Orders that came about without us count as well.
    select e.symbol, e.order_side, greatest(0, coalesce(e.quantity, 0) - e.filled_quantity) from external_orders e
    where :wants_exposure::boolean and e.organization_id = :organization_id and e.account_id = :account_id
        and e.status in ('WORKING', 'DONE_FOR_DAY')
)
select t.now, o.control_epoch as organization_epoch, c.control_epoch as account_epoch,
    exists (
        select 1 from idempotency_keys k
        where k.organization_id = :organization_id and k.account_id = :account_id and k.key = :key::text
    ) as is_replay,
    (to_jsonb(c) ->> 'positions_as_of')::timestamptz as position_as_of,
    (
        select p.quantity from positions p
        where p.organization_id = :organization_id and p.account_id = :account_id and p.symbol = :symbol
    ) as position,
    x.working_buys, x.working_sells, x.open_orders, x.open_orders_of_symbol, x.open_orders_of_side,
    array(
        select n.created_at from (select * from newer limit 1000) n where n.is_equal order by n.action_no desc limit 100
    ) as equal_orders
from turn t
join account_counters c on c.organization_id = :organization_id and c.account_id = :account_id
join organizations o on o.organization_id = :organization_id
cross join lateral (
    select coalesce(sum(w.leaves) filter (where w.symbol = :symbol and w.order_side = 'BUY'), 0) as working_buys,
        coalesce(sum(w.leaves) filter (where w.symbol = :symbol and w.order_side <> 'BUY'), 0) as working_sells,
        count(*) as open_orders, count(*) filter (where w.symbol = :symbol) as open_orders_of_symbol,
        count(*) filter (where w.symbol = :symbol and w.order_side = :order_side) as open_orders_of_side
    from open_orders w
) x;
