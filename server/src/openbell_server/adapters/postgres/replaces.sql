-- name: accept_replaces_across_organizations(action_ids, intent_ids, receipt_ids, organization_ids, account_ids, action_types, idempotency_keys, command_hashes, organization_epochs, account_epochs, symbols, order_sides, order_types, route_strategies, quantities, limit_prices, stop_prices, times_in_force, client_reference_ids, principal_types, principal_ids, receipts)
-- The accept step for a set with a replace in it.
select ord, status, intent_id, seq, action_no, command_hash, created_at
from accept_replaces(
    :action_ids, :intent_ids, :receipt_ids, :organization_ids, :account_ids, :action_types, :idempotency_keys,
    :command_hashes, :organization_epochs, :account_epochs, :symbols, :order_sides, :order_types, :route_strategies,
    :quantities, :limit_prices, :stop_prices, :times_in_force, :client_reference_ids, :principal_types, :principal_ids,
    :receipts
)
order by ord;
