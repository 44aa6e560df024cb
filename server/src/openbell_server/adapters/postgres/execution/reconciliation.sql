-- name: save_reconciliation(organization_id, account_id, reconciled_at, event_no)!
update account_counters
set reconciled_at = :reconciled_at, reconciled_event_no = coalesce(:event_no::bigint, reconciled_event_no)
where organization_id = :organization_id and account_id = :account_id;

-- name: accounts_touched_across_organizations(broker, slots)
-- Accounts with events since their last complete reconciliation.
select a.organization_id, a.account_id, a.broker, a.slot
from account_counters c
join accounts a on a.account_id = c.account_id
where c.slot = any(:slots::smallint[]) and c.event_no > c.reconciled_event_no and a.broker = :broker
limit 100000;

-- name: forgotten_among(organization_id, account_id, action_ids)
select action_id from forgotten_orders
where organization_id = :organization_id and account_id = :account_id and action_id = any(:action_ids::uuid[]);

-- name: skipped_among(organization_id, account_id, action_ids)
-- The actions among these that were never sent and never will be.
select action_id from action_states
where organization_id = :organization_id and account_id = :account_id and action_id = any(:action_ids::uuid[])
    and state = 'SKIPPED';

-- name: save_external_order(organization_id, account_id, broker_order_id, client_order_id, symbol, order_side, order_type, quantity, limit_price, stop_price, time_in_force, status, filled_quantity, filled_value, accepted_at)!
insert into external_orders as e (
    organization_id, account_id, broker_order_id, client_order_id, symbol, order_side, order_type, quantity, limit_price,
    stop_price, time_in_force, status, filled_quantity, filled_value, accepted_at, found_at, updated_at
) values (
    :organization_id, :account_id, :broker_order_id, :client_order_id, :symbol, :order_side, :order_type, :quantity,
    :limit_price, :stop_price, :time_in_force, :status, :filled_quantity, :filled_value, :accepted_at,
    clock_timestamp(), clock_timestamp()
)
on conflict (account_id, broker_order_id) do update
set quantity = excluded.quantity, limit_price = excluded.limit_price, stop_price = excluded.stop_price,
    time_in_force = excluded.time_in_force, status = excluded.status, filled_quantity = excluded.filled_quantity,
    filled_value = excluded.filled_value, updated_at = excluded.updated_at;

-- name: external_orders_among(organization_id, account_id, broker_order_ids)
select * from external_orders
where organization_id = :organization_id and account_id = :account_id
    and broker_order_id = any(:broker_order_ids::text[]);

-- name: open_external_orders(organization_id, account_id, row_limit)
select * from external_orders
where organization_id = :organization_id and account_id = :account_id and status in ('WORKING', 'DONE_FOR_DAY')
order by number limit :row_limit;

-- name: external_orders_named(organization_id, account_id, client_order_ids)
-- Orders with client order ids of ours, which the restored database does not have.
select * from external_orders
where organization_id = :organization_id and account_id = :account_id
    and client_order_id = any(:client_order_ids::text[]);

-- name: list_external_orders(organization_id, account_id, after, row_limit)
select * from external_orders
where organization_id = :organization_id and account_id = :account_id and number > :after
order by number limit :row_limit;

-- name: set_candidates(organization_id, account_id, action_id, candidates)!
update action_states set candidates = :candidates::text[]
where organization_id = :organization_id and account_id = :account_id and action_id = :action_id
    and candidates <> :candidates::text[];

-- name: halt(organization_id, account_id, code, detail)$
update account_counters set halt_code = :code, halt_detail = left(:detail, 500), halted_at = clock_timestamp()
where organization_id = :organization_id and account_id = :account_id and halt_code is null
returning true;
