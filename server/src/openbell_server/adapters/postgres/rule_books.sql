-- name: account_of_book(organization_id, account_id)^
-- The epochs come first: rules that are read after them are never older. A schema of before has no rules
-- and no enforcement.
select a.account_id, a.broker, a.environment, a.timezone, o.control_epoch as organization_epoch, c.control_epoch as account_epoch,
    to_jsonb(o) ->> 'paper_enforcement' as paper_enforcement, to_regclass('control_rules') is not null as has_rules,
    to_regclass('calendar_overrides') is not null as has_calendars
from accounts a
join organizations o on o.organization_id = a.organization_id
join account_counters c on c.organization_id = a.organization_id and c.account_id = a.account_id
where a.organization_id = :organization_id and a.account_id = :account_id;

-- name: symbol_controls_of_account(organization_id, account_id, row_limit)
-- Both controls of every symbol; times as JSON, for a schema of before has fewer columns.
select coalesce(m.symbol, w.symbol) as symbol, m.manually_disabled, m.manual_reason, m.version as manual_version,
    to_jsonb(w) as times
from (
    select * from symbol_controls where organization_id = :organization_id and account_id = :account_id
) m
full join (
    select * from symbol_time_controls where organization_id = :organization_id and account_id = :account_id
) w on w.symbol = m.symbol
limit :row_limit;
