-- name: door_terms_across_organizations(account_ids)
select * from door_terms(:account_ids::uuid[]);

-- name: write_tick_across_organizations(p_slots, u_organization_id, u_account_id, u_intent_id, u_action_id, u_attempt_id, u_version, u_previous, u_state, u_settles, u_reason_code, u_broker_code, u_broker_text, u_saves_order, u_filled_quantity, u_filled_value, u_standing, u_close_reason, u_pending, u_certainty, u_broker_order_ids, u_symbol, u_change, x_unit, x_execution_id, x_quantity, x_price, x_fee, x_executed_at, e_unit, e_kind, e_seq, e_body, e_position, d_organization_id, d_account_id, d_database_epoch, d_organization_epoch, d_account_epoch, d_credential_version, d_row_limit, d_seconds_max, p_attempt_id)
select *
from work_tick(
    :p_slots::text::smallint[], :u_organization_id, :u_account_id, :u_intent_id, :u_action_id, :u_attempt_id, :u_version, :u_previous,
    :u_state, :u_settles, :u_reason_code, :u_broker_code, :u_broker_text, :u_saves_order, :u_filled_quantity,
    :u_filled_value, :u_standing, :u_close_reason, :u_pending, :u_certainty, :u_broker_order_ids, :u_symbol,
    :u_change, :x_unit, :x_execution_id, :x_quantity, :x_price, :x_fee, :x_executed_at, :e_unit, :e_kind, :e_seq,
    :e_body, :e_position, :d_organization_id, :d_account_id, :d_database_epoch, :d_organization_epoch, :d_account_epoch,
    :d_credential_version, :d_row_limit, :d_seconds_max, :p_attempt_id
);
