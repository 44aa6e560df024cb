-- name: become_the_only_writer()!
-- Waits for a writer that is just ending; the caller bounds the wait.
select pg_advisory_lock(7302301802);

-- name: set_prices()
select symbol, price from prices;

-- name: record_order(account_id, client_order_id, symbol, order_side, order_type, quantity, limit_price, stop_price, time_in_force, received_at, key_id, accepted_at, status, triggered, filled_quantity)$
-- The number of the order, or nothing if the client id is taken.
with taken as (
    insert into orders (
        number, account_id, client_order_id, symbol, order_side, order_type, quantity, limit_price, stop_price,
        time_in_force, accepted_at, status, triggered, filled_quantity
    )
    values (
        (select coalesce(max(number), 0) + 1 from orders), :account_id, :client_order_id, :symbol, :order_side,
        :order_type, :quantity, :limit_price, :stop_price, :time_in_force, :accepted_at, :status, :triggered,
        :filled_quantity
    )
    on conflict (account_id, client_order_id) do nothing
    returning number
), request as (
    insert into requests (kind, account_id, client_order_id, received_at, key_id, done)
    values (
        'SUBMIT', :account_id, :client_order_id, :received_at, :key_id,
        case when exists (select from taken) then 'accepted' else 'duplicate_client_order_id' end
    )
)
select number from taken;

-- name: record_request(kind, account_id, client_order_id, received_at, key_id, done)!
insert into requests (kind, account_id, client_order_id, received_at, key_id, done)
values (:kind, :account_id, :client_order_id, :received_at, :key_id, :done);

-- name: last_key(account_id)^
select key_id, received_at from requests
where account_id = :account_id and key_id is not null
order by number desc limit 1;

-- name: append_updates(order_numbers, statuses, filled_quantities, ordinals, quantities, prices, happened_at)!
-- Updates with the executions they tell of; one without an execution has no ordinal.
with change as materialized (
    select *
    from unnest(
        :order_numbers::bigint[], :statuses::text[], :filled_quantities::numeric[], :ordinals::integer[],
        :quantities::numeric[], :prices::numeric[]
    ) with ordinality as listed (order_number, status, filled_quantity, ordinal, quantity, price, place)
), fills as (
    insert into executions (order_number, ordinal, quantity, price, executed_at)
    select order_number, ordinal, quantity, price, :happened_at::timestamptz from change where ordinal is not null
)
insert into updates (number, order_number, status, filled_quantity, execution_ordinal, happened_at)
select
    (select coalesce(max(number), 0) from updates) + place, order_number, status, filled_quantity, ordinal,
    :happened_at::timestamptz
from change;

-- name: order_to_change(account_id, client_order_id)^
select number, symbol, order_side, order_type, status, triggered, filled_quantity from orders
where account_id = :account_id and client_order_id = :client_order_id;

-- name: record_replacement(account_id, client_order_id, order_number, quantity, limit_price, stop_price, time_in_force, replaced_at)$
-- The number of the order as it is now, or nothing if the client id of the replacement is taken.
with taken as (
    insert into replacements (
        account_id, client_order_id, order_number, quantity, limit_price, stop_price, time_in_force, replaced_at
    )
    values (
        :account_id, :client_order_id, :order_number, :quantity, :limit_price, :stop_price, :time_in_force, :replaced_at
    )
    on conflict (account_id, client_order_id) do nothing
    returning order_number
)
update orders
set quantity = :quantity, limit_price = :limit_price, stop_price = :stop_price, time_in_force = :time_in_force
from taken where orders.number = taken.order_number
returning orders.number;

-- name: working_orders(symbol, after, page)
select number, order_side, order_type, quantity, limit_price, stop_price, time_in_force, triggered from orders
where symbol = :symbol and status = 'WORKING' and number > :after
order by number limit :page;

-- name: change_orders(numbers, statuses, triggers, filled_quantities)!
update orders
set status = change.status, triggered = orders.triggered or change.triggered, filled_quantity = change.filled_quantity
from unnest(:numbers::bigint[], :statuses::text[], :triggers::boolean[], :filled_quantities::numeric[])
    as change (number, status, triggered, filled_quantity)
where orders.number = change.number;

-- name: set_price(symbol, price)!
insert into prices (symbol, price) values (:symbol, :price)
on conflict (symbol) do update set price = excluded.price;

-- name: find_order(account_id, client_order_id, accepted_before)
-- One row per execution, or one without.
select
    orders.*, executions.ordinal, executions.quantity as execution_quantity, executions.price, executions.executed_at
from orders left join executions on executions.order_number = orders.number
where account_id = :account_id and client_order_id = :client_order_id and accepted_at <= :accepted_before
order by ordinal;

-- name: orders_of(account_id, since, accepted_before, after, page)
-- One row per execution, or one without; the page counts orders.
select
    paged.*, executions.ordinal, executions.quantity as execution_quantity, executions.price, executions.executed_at
from (
    select * from orders
    where account_id = :account_id and accepted_at between :since and :accepted_before and number > :after
    order by number limit :page
) as paged left join executions on executions.order_number = paged.number
order by paged.number, ordinal;

-- name: last_update()$
select coalesce(max(number), 0) from updates;

-- name: updates_after(number, page)
select
    updates.number, updates.order_number, updates.status, updates.filled_quantity, orders.account_id,
    orders.client_order_id, executions.ordinal, executions.quantity as execution_quantity, executions.price,
    executions.executed_at
from updates
join orders on orders.number = updates.order_number
left join executions
    on executions.order_number = updates.order_number and executions.ordinal = updates.execution_ordinal
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
