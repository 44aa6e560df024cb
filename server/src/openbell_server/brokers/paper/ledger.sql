-- name: become_the_only_writer()!
-- Waits for a writer that is shutting down; the caller limits the wait.
select pg_advisory_lock(7302301802);

-- name: set_prices()
select symbol, price, size from prices;

-- name: record_submits(submits, updates, accepted_at)^
-- Records every submit, those that are accepted as orders (number counts them from 1), and the updates of the orders with
-- their executions, cash and positions. Returns the last order and the last update before; records and returns nothing
-- if an order has one of the ids, for submits whose only_open is not null.
with listed as materialized (
    select *
    from json_to_recordset(:submits::json) as submits (
        place integer, account_id uuid, profile text, client_order_id text, received_at timestamptz, key_id text,
        done text, only_open boolean, number integer, symbol text, order_side text, order_type text, quantity numeric,
        limit_price numeric, stop_price numeric, time_in_force text, due_at timestamptz, status text,
        triggered boolean, filled_quantity numeric
    )
), latest as materialized (
    select
        (select coalesce(max(number), 0) from orders) as order_number,
        (select coalesce(max(number), 0) from updates) as update_number
    where not exists (
        select from listed
        where only_open is not null and (
            select bool_or(named.status = 'WORKING' or not only_open)
            from (select account_id, profile, status from orders where client_order_id = listed.client_order_id offset 0) named
            where named.account_id = listed.account_id and named.profile = listed.profile
        )
    )
), request as (
    insert into requests (kind, account_id, client_order_id, received_at, key_id, done)
    select 'SUBMIT', account_id, client_order_id, received_at, key_id, done from listed, latest order by place
), placed as (
    insert into orders (
        number, account_id, profile, client_order_id, symbol, order_side, order_type, quantity, limit_price, stop_price,
        time_in_force, accepted_at, due_at, status, triggered, filled_quantity
    )
    select
        latest.order_number + number, account_id, profile, client_order_id, symbol, order_side, order_type, quantity,
        limit_price, stop_price, time_in_force, :accepted_at::timestamptz, due_at, status, triggered, filled_quantity
    from listed, latest where number is not null
), change as materialized (
    select changes.*
    from latest, json_to_recordset(:updates::json) as changes (
        place integer, number integer, status text, filled_quantity numeric, ordinal integer, quantity numeric,
        price numeric, fee numeric
    )
), fills as (
    insert into executions (order_number, ordinal, quantity, price, fee, executed_at)
    select latest.order_number + number, ordinal, quantity, price, fee, :accepted_at::timestamptz
    from change, latest where ordinal is not null
), traded as materialized (
    select
        account_id, symbol, price, fee, case order_side when 'BUY' then change.quantity else -change.quantity end as quantity
    from change join listed using (number) where ordinal is not null
), held as (
    insert into positions (account_id, symbol, quantity)
    select account_id, symbol, sum(quantity) from traded group by account_id, symbol
    on conflict (account_id, symbol) do update set quantity = positions.quantity + excluded.quantity
), paid as (
    insert into balances (account_id, flow, fees)
    select account_id, sum(-quantity * price - fee), sum(fee) from traded group by account_id
    on conflict (account_id) do update set flow = balances.flow + excluded.flow, fees = balances.fees + excluded.fees
), reported as (
    insert into updates (number, order_number, status, filled_quantity, execution_ordinal, happened_at)
    select
        latest.update_number + place, latest.order_number + number, status, filled_quantity, ordinal,
        :accepted_at::timestamptz
    from change, latest
)
select order_number, update_number from latest;

-- name: used_ids(account_ids, profiles, client_order_ids)
-- For each id, whether one of its orders is working; null if it has none.
select (
    select bool_or(named.status = 'WORKING')
    from (select account_id, profile, status from orders where client_order_id = asked.client_order_id offset 0) named
    where named.account_id = asked.account_id and named.profile = asked.profile
) as is_open
from unnest(:account_ids::uuid[], :profiles::text[], :client_order_ids::text[])
    with ordinality as asked (account_id, profile, client_order_id, place)
order by place;

-- name: is_replacement(account_id, profile, client_order_id, only_open)$
select exists (
    select from replacements as r join orders on orders.number = r.order_number
    where r.account_id = :account_id and r.client_order_id = :client_order_id and profile = :profile
        and (status = 'WORKING' or not :only_open::boolean)
);

-- name: record_request(kind, account_id, client_order_id, received_at, key_id, done)!
insert into requests (kind, account_id, client_order_id, received_at, key_id, done)
values (:kind, :account_id, :client_order_id, :received_at, :key_id, :done);

-- name: last_key(account_id)^
select key_id, received_at from requests
where account_id = :account_id and key_id is not null
order by number desc limit 1;

-- name: append_updates(order_numbers, statuses, filled_quantities, ordinals, quantities, prices, fees, happened_at)!
-- Appends updates with their executions (ordinal is null without one), and updates cash and positions.
with change as materialized (
    select *
    from unnest(
        :order_numbers::bigint[], :statuses::text[], :filled_quantities::numeric[], :ordinals::integer[],
        :quantities::numeric[], :prices::numeric[], :fees::numeric[]
    ) with ordinality as listed (order_number, status, filled_quantity, ordinal, quantity, price, fee, place)
), fills as (
    insert into executions (order_number, ordinal, quantity, price, fee, executed_at)
    select order_number, ordinal, quantity, price, fee, :happened_at::timestamptz from change where ordinal is not null
    returning order_number, quantity, price, fee
), traded as materialized (
    select
        account_id, symbol, fills.price, fee,
        case order_side when 'BUY' then fills.quantity else -fills.quantity end as quantity
    from fills join orders on orders.number = fills.order_number
), held as (
    insert into positions (account_id, symbol, quantity)
    select account_id, symbol, sum(quantity) from traded group by account_id, symbol
    on conflict (account_id, symbol) do update set quantity = positions.quantity + excluded.quantity
), paid as (
    insert into balances (account_id, flow, fees)
    select account_id, sum(-quantity * price - fee), sum(fee) from traded group by account_id
    on conflict (account_id) do update set flow = balances.flow + excluded.flow, fees = balances.fees + excluded.fees
)
insert into updates (number, order_number, status, filled_quantity, execution_ordinal, happened_at)
select
    (select coalesce(max(number), 0) from updates) + place, order_number, status, filled_quantity, ordinal,
    :happened_at::timestamptz
from change;

-- name: order_to_change(account_id, profile, client_order_id, number)^
-- By the broker's number, or else by the client's id: prefers a working order, then the newest.
select
    *, (select coalesce(max(ordinal), 0) from executions where order_number = orders.number) as ordinal
from orders
where account_id = :account_id and profile = :profile and number = coalesce(
    :number::bigint,
    (
        select number
        from (select number, account_id, profile, status from orders where client_order_id = :client_order_id offset 0) named
        where account_id = :account_id and profile = :profile
        order by status = 'WORKING' desc, number desc limit 1
    )
);

-- name: order_by_number(number)^
select
    *, (select coalesce(max(ordinal), 0) from executions where order_number = orders.number) as ordinal
from orders where number = :number;

-- name: first_execution(order_number)^
select ordinal, quantity, price from executions where order_number = :order_number order by ordinal limit 1;

-- name: change_execution(order_number, ordinal, quantity, price, changed_at)!
-- Changes an execution that was not busted, and updates cash and positions.
with before as materialized (
    select
        e.order_number, e.ordinal, coalesce(c.revision, 0) + 1 as revision, coalesce(c.quantity, e.quantity) as quantity,
        coalesce(c.quantity, e.quantity) * coalesce(c.price, e.price) as value
    from executions as e left join lateral (
        select revision, quantity, price from execution_changes
        where order_number = e.order_number and ordinal = e.ordinal
        order by revision desc limit 1
    ) as c on true
    where e.order_number = :order_number and e.ordinal = :ordinal and coalesce(c.quantity, e.quantity) > 0
), recorded as (
    insert into execution_changes (order_number, ordinal, revision, quantity, price, changed_at)
    select order_number, ordinal, revision, :quantity::numeric, :price::numeric, :changed_at::timestamptz from before
), counted as (
    update orders set filled_quantity = filled_quantity + :quantity::numeric - before.quantity
    from before where orders.number = before.order_number
    returning
        orders.number, account_id, symbol, status, filled_quantity, ordinal, revision,
        case order_side when 'BUY' then 1 else -1 end * (:quantity::numeric - before.quantity) as more,
        case order_side when 'BUY' then 1 else -1 end * (:quantity::numeric * :price::numeric - value) as dearer
), held as (
    update positions set quantity = positions.quantity + more
    from counted where positions.account_id = counted.account_id and positions.symbol = counted.symbol
), paid as (
    update balances set flow = flow - dearer from counted where balances.account_id = counted.account_id
)
insert into updates (number, order_number, status, filled_quantity, execution_ordinal, revision, happened_at)
select
    (select coalesce(max(number), 0) from updates) + 1, number, status, filled_quantity, ordinal, revision,
    :changed_at::timestamptz
from counted;

-- name: record_replacement(account_id, client_order_id, order_number, quantity, limit_price, stop_price, time_in_force, replaced_at, due_at)!
with taken as (
    insert into replacements (
        account_id, client_order_id, order_number, quantity, limit_price, stop_price, time_in_force, replaced_at
    )
    values (
        :account_id, :client_order_id, :order_number, :quantity, :limit_price, :stop_price, :time_in_force, :replaced_at
    )
    returning order_number
)
update orders
set
    quantity = :quantity, limit_price = :limit_price, stop_price = :stop_price, time_in_force = :time_in_force,
    due_at = :due_at
from taken where orders.number = taken.order_number;

-- name: working_orders(symbols, after, page)
select
    *, (select coalesce(max(ordinal), 0) from executions where order_number = orders.number) as ordinal
from orders
where symbol = any(:symbols::text[]) and status = 'WORKING' and number > :after
order by number limit :page;

-- name: working_symbols(most)
select distinct symbol from orders where status = 'WORKING' order by symbol limit :most;

-- name: is_anything_due(now)$
select exists (select from orders where status = 'WORKING' and due_at <= :now);

-- name: due_orders(due_by, kinds, page)
select
    *, (select coalesce(max(ordinal), 0) from executions where order_number = orders.number) as ordinal
from orders
where status = 'WORKING' and due_at <= :due_by and time_in_force = any(:kinds::text[])
order by number limit :page;

-- name: change_orders(numbers, statuses, triggers, filled_quantities)!
update orders
set status = change.status, triggered = orders.triggered or change.triggered, filled_quantity = change.filled_quantity
from unnest(:numbers::bigint[], :statuses::text[], :triggers::boolean[], :filled_quantities::numeric[])
    as change (number, status, triggered, filled_quantity)
where orders.number = change.number;

-- name: set_price(symbol, price, size)!
insert into prices (symbol, price, size) values (:symbol, :price, :size)
on conflict (symbol) do update set price = excluded.price, size = excluded.size;

-- name: free_price(symbol)!
delete from prices where symbol = :symbol;

-- name: deposit(account_id, amount, made_at)!
with paid as (
    insert into deposits (account_id, amount, made_at) values (:account_id, :amount, :made_at)
    returning account_id, amount
)
insert into balances (account_id, flow, fees) select account_id, amount, 0 from paid
on conflict (account_id) do update set flow = balances.flow + excluded.flow;

-- name: standings(account_ids, except_number)
-- Cash and fees of each account, with a row for each symbol of its positions and of its working orders.
select
    account_id, coalesce(flow, 0) as flow, coalesce(fees, 0) as fees, symbol, coalesce(quantity, 0) as quantity,
    coalesce(buying, 0) as buying, coalesce(buying_value, 0) as buying_value,
    coalesce(buying_quantity, 0) as buying_quantity, coalesce(selling, 0) as selling
from unnest(:account_ids::uuid[]) as asked (account_id)
left join balances using (account_id)
left join (
    (
        select account_id, symbol, quantity from positions where account_id = any(:account_ids) and quantity <> 0
    ) as held
    full join (
        select
            account_id, symbol,
            sum(remaining) filter (where order_side = 'BUY') as buying,
            sum(remaining * own_price) filter (where order_side = 'BUY') as buying_value,
            sum(remaining) filter (where order_side = 'BUY' and own_price is null) as buying_quantity,
            sum(remaining) filter (where order_side <> 'BUY') as selling
        from (
            select
                account_id, symbol, order_side, quantity - filled_quantity as remaining,
                coalesce(limit_price, stop_price) as own_price
            from orders
            where account_id = any(:account_ids) and status = 'WORKING' and number <> :except_number
        ) as working
        group by account_id, symbol
    ) as works using (account_id, symbol)
) using (account_id)
order by symbol;

-- name: find_order(account_id, profile, client_order_id, number, only_open, accepted_before)
-- One row per execution, or a single row without. By the broker's number, or else by the client's id: prefers a working
-- order, then the newest.
select
    orders.*, 1 + (select count(*) from replacements where order_number = orders.number) as terms_version,
    (
        select json_agg(json_build_array(ordinal, revision, quantity::text, price::text) order by ordinal, revision)
        from execution_changes where order_number = orders.number
    )::text as changes,
    executions.ordinal, executions.quantity as execution_quantity, executions.price, executions.fee,
    executions.executed_at
from orders left join executions on executions.order_number = orders.number
where orders.number = coalesce(
    :number::bigint,
    (
        select number
        from (select number, account_id, profile, status from orders where client_order_id = :client_order_id offset 0) named
        where account_id = :account_id and profile = :profile
        order by status = 'WORKING' desc, number desc limit 1
    )
)
    and account_id = :account_id and profile = :profile and accepted_at <= :accepted_before
    and (status = 'WORKING' or not :only_open::boolean)
order by ordinal;

-- name: orders_of(account_id, profile, since, accepted_before, after, page)
-- One row per execution, or a single row without; the page size counts orders.
select
    paged.*, executions.ordinal, executions.quantity as execution_quantity, executions.price, executions.fee,
    executions.executed_at
from (
    select
        *, 1 + (select count(*) from replacements where order_number = orders.number) as terms_version,
        (
            select json_agg(json_build_array(ordinal, revision, quantity::text, price::text) order by ordinal, revision)
            from execution_changes where order_number = orders.number
        )::text as changes
    from orders
    where account_id = :account_id and profile = :profile and accepted_at between :since and :accepted_before
        and number > :after
    order by number limit :page
) as paged left join executions on executions.order_number = paged.number
order by paged.number, ordinal;

-- name: set_faults(account_id, seed, faults, set_at)!
insert into account_faults (account_id, seed, faults, set_at)
values (:account_id, :seed, :faults::text::jsonb, :set_at)
on conflict (account_id) do update set seed = excluded.seed, faults = excluded.faults, set_at = excluded.set_at;

-- name: clear_faults(account_id)!
delete from account_faults where account_id = :account_id;

-- name: all_faults()
select account_id, seed, faults::text, set_at from account_faults;

-- name: set_rules(account_id, shorting, any_tick)!
insert into account_rules (account_id, shorting, any_tick) values (:account_id, :shorting, :any_tick)
on conflict (account_id) do update set shorting = excluded.shorting, any_tick = excluded.any_tick;

-- name: clear_rules(account_id)!
delete from account_rules where account_id = :account_id;

-- name: all_rules()
select account_id, shorting, any_tick from account_rules;

-- name: last_update()$
select coalesce(max(number), 0) from updates;

-- name: updates_after(number, page)
-- An update with an execution reports a new fill, or a change if it has a revision. Terms are the current ones.
select
    updates.number, updates.order_number, updates.status, updates.filled_quantity, updates.revision,
    orders.account_id, orders.profile, orders.client_order_id, orders.symbol, orders.order_side, orders.order_type,
    orders.quantity, orders.limit_price, orders.stop_price, orders.time_in_force, orders.accepted_at, orders.triggered,
    1 + (select count(*) from replacements where order_number = orders.number) as terms_version,
    updates.execution_ordinal as ordinal, coalesce(changes.quantity, executions.quantity) as execution_quantity,
    coalesce(changes.price, executions.price) as price, executions.fee, executions.executed_at
from updates
join orders on orders.number = updates.order_number
left join executions
    on executions.order_number = updates.order_number and executions.ordinal = updates.execution_ordinal
left join execution_changes as changes
    on changes.order_number = updates.order_number and changes.ordinal = updates.execution_ordinal
    and changes.revision = updates.revision
where updates.number > :number
order by updates.number limit :page;

-- name: summary()^
select
    (select count(*) from requests) as requests,
    (select count(*) from requests where done <> 'accepted') as refused,
    (select count(*) from orders) as orders,
    (select count(*) from executions) as executions,
    (select count(*) from updates) as updates,
    (
        select count(*) from requests where kind = 'SUBMIT' and done = 'duplicate_client_order_id'
    ) as repeated_submits;
