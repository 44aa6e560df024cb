-- name: save_order_details(organization_id, account_id, order_id, triggered, terms_version, highest_quantity, busted_quantity, executions_changed, ended, ended_filled)!
-- Columns that few orders use; save_order writes the other columns with every change.
update orders
set triggered = :triggered, terms_version = :terms_version, highest_quantity = :highest_quantity,
    busted_quantity = :busted_quantity, executions_changed = :executions_changed, ended = :ended,
    ended_filled = :ended_filled, version = version + 1, updated_at = clock_timestamp()
where organization_id = :organization_id and account_id = :account_id and order_id = :order_id;

-- name: intents_of_broker_orders(organization_id, account_id, broker_order_ids)
select t.broker_order_id, o.order_id as intent_id from orders o
cross join lateral unnest(o.broker_order_ids) t (broker_order_id)
where o.organization_id = :organization_id and o.account_id = :account_id
    -- The condition of the partial index.
    and o.broker_order_ids <> '{}'
    and o.broker_order_ids && :broker_order_ids::text[] and t.broker_order_id = any(:broker_order_ids::text[]);

-- name: add_execution_changes(organization_id, account_id, order_id, execution_ids, revisions, quantities, prices, fees)!
insert into execution_changes (
    organization_id, account_id, execution_id, revision, order_id, quantity, price, fee, recorded_at
)
select :organization_id::uuid, :account_id::uuid, t.execution_id, t.revision, :order_id::uuid, t.quantity, t.price,
    t.fee, clock_timestamp()
from unnest(
    :execution_ids::text[], :revisions::integer[], :quantities::numeric[], :prices::numeric[], :fees::numeric[]
) t (execution_id, revision, quantity, price, fee)
on conflict (account_id, execution_id, revision) do nothing;

-- name: executions_of_order(organization_id, account_id, order_id)
select execution_id, quantity, price, fee, executed_at from executions
where organization_id = :organization_id and account_id = :account_id and order_id = :order_id
order by execution_id;

-- name: changes_of_order(organization_id, account_id, order_id)
select execution_id, revision, quantity, price, fee from execution_changes
where organization_id = :organization_id and account_id = :account_id and order_id = :order_id
order by execution_id, revision;
