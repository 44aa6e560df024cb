-- name: controls_of_symbols(organization_id, account_id, symbols)
-- One row per symbol, with the account's epoch.
select t.symbol, c.control_epoch, clock_timestamp() as now,
    m.manually_disabled, m.manual_reason, m.version as manual_version, m.created_at as manual_created_at,
    m.updated_at as manual_updated_at, m.set_by_users as manual_set_by_users,
    w.trading_start, w.trading_end, w.timezone, w.days, w.calendar, w.session, w.on_close, w.stale_order_millis,
    w.max_resting_millis, w.version as time_version, w.created_at as time_created_at, w.updated_at as time_updated_at,
    w.set_by_users as time_set_by_users
from account_counters c
cross join unnest(:symbols::text[]) t (symbol)
left join symbol_controls m
    on m.organization_id = c.organization_id and m.account_id = c.account_id and m.symbol = t.symbol
left join symbol_time_controls w
    on w.organization_id = c.organization_id and w.account_id = c.account_id and w.symbol = t.symbol
where c.organization_id = :organization_id and c.account_id = :account_id;

-- name: save_manual_control(organization_id, account_id, symbol, manually_disabled, manual_reason, principal_type, principal_id, set_by_users)!
insert into symbol_controls (
    organization_id, account_id, symbol, manually_disabled, manual_reason, created_at, updated_at, principal_type,
    principal_id, set_by_users
)
select :organization_id, :account_id, :symbol, :manually_disabled, :manual_reason, t.now, t.now, :principal_type,
    :principal_id, :set_by_users
from clock_timestamp() t (now)
on conflict (organization_id, account_id, symbol) do update set
    manually_disabled = excluded.manually_disabled, manual_reason = excluded.manual_reason,
    updated_at = excluded.updated_at, version = symbol_controls.version + 1,
    principal_type = excluded.principal_type, principal_id = excluded.principal_id,
    set_by_users = excluded.set_by_users;

-- name: save_time_control(organization_id, account_id, symbol, trading_start, trading_end, timezone, days, calendar, session, on_close, stale_order_millis, max_resting_millis, principal_type, principal_id, set_by_users)!
insert into symbol_time_controls (
    organization_id, account_id, symbol, trading_start, trading_end, timezone, days, calendar, session, on_close,
    stale_order_millis, max_resting_millis, created_at, updated_at, principal_type, principal_id,
    set_by_users
)
select :organization_id, :account_id, :symbol, :trading_start, :trading_end, :timezone, :days, :calendar, :session,
    :on_close, :stale_order_millis, :max_resting_millis, t.now, t.now, :principal_type, :principal_id, :set_by_users
from clock_timestamp() t (now)
on conflict (organization_id, account_id, symbol) do update set
    trading_start = excluded.trading_start, trading_end = excluded.trading_end, timezone = excluded.timezone,
    days = excluded.days, calendar = excluded.calendar, session = excluded.session, on_close = excluded.on_close,
    stale_order_millis = excluded.stale_order_millis, max_resting_millis = excluded.max_resting_millis,
    updated_at = excluded.updated_at, version = symbol_time_controls.version + 1,
    principal_type = excluded.principal_type, principal_id = excluded.principal_id,
    set_by_users = excluded.set_by_users;
