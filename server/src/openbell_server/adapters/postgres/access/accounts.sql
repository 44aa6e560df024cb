-- name: take_turn_to_open(whose)^
-- The lock of open_account, in a separate statement: later statements see every halt that its last holders committed.
select pg_advisory_xact_lock(hashtextextended(:whose::uuid::text, 1));

-- name: has_stopped_account(organization_id, environment)$
-- A value if an account that is not closed is disabled, or halted by its switch or by the platform.
select true from accounts a
join account_counters c on c.organization_id = a.organization_id and c.account_id = a.account_id
left join control_rules r on r.organization_id = a.organization_id and r.scope = 'ACCOUNT'
    and r.subject = a.account_id::text and r.code = 'SWITCH'
where a.organization_id = :organization_id and a.environment = :environment and a.closed_at is null and (
    a.disabled or c.halt_code is not null
    or (case when r.override_expires_at > clock_timestamp() then r.override_terms else r.terms end)::json
        #>> '{parameters,status}' <> 'ACTIVE'
)
limit 1;

-- name: open_account(organization_id, account_id, name, broker, environment, slot, external_account_id, base_currency, timezone, credential_status)!
-- A lock per organization: accounts are added one at a time, so created_at is in commit order and paging skips none.
with turn as materialized (select pg_advisory_xact_lock(hashtextextended(:organization_id::uuid::text, 1))),
moment as materialized (select clock_timestamp() as now from turn)
insert into accounts (
    organization_id, account_id, name, broker, environment, slot, external_account_id, base_currency, timezone,
    credential_status, created_at, updated_at
)
select :organization_id, :account_id::uuid, :name, :broker, :environment, :slot::smallint, :external_account_id::text,
    :base_currency, :timezone, :credential_status, m.now, m.now
from moment m;

-- name: has_more_accounts(organization_id, accounts_max)$
-- A value if more than accounts_max accounts are not closed.
select true from accounts where organization_id = :organization_id and closed_at is null
having count(*) > :accounts_max;

-- name: list_account_records(organization_id, environment, account_ids, after, row_limit)
-- In commit order, because open_account takes the time under a lock.
select r.* from account_records r
where r.organization_id = :organization_id and r.environment = coalesce(:environment, r.environment)
    and (:account_ids::uuid[] is null or r.account_id = any(:account_ids::uuid[])) and r.number > :after
order by r.number limit :row_limit;

-- name: find_account_record(organization_id, account_id)^
select r.* from account_records r where r.organization_id = :organization_id and r.account_id = :account_id;

-- name: is_busy(organization_id, account_id)$
-- Whether an order is working or an action is not settled; after a restore, also until the account was reconciled.
select exists (
    select 1 from orders
    where organization_id = :organization_id and account_id = :account_id and standing <> 'CLOSED'
) or exists (
    select 1 from action_states
    where organization_id = :organization_id and account_id = :account_id and settled_at is null
) or r.is_held_back
from account_records r where r.organization_id = :organization_id and r.account_id = :account_id;

-- name: save_account(organization_id, account_id, name, external_account_id, timezone, disabled, disabled_reason, closed)!
-- A closed account is disabled for ever, so that accept step and door check only `disabled`. Its credential is deleted,
-- because no caller could delete it later.
with removed as (
    delete from credentials
    where organization_id = :organization_id and account_id = :account_id and :closed::boolean
)
update accounts
set name = :name, external_account_id = :external_account_id, timezone = :timezone,
    disabled = :disabled::boolean or :closed::boolean, disabled_reason = :disabled_reason,
    closed_at = case when :closed::boolean then t.now end, updated_at = t.now,
    credential_status = case when :closed::boolean then 'NOT_REQUIRED' else credential_status end,
    credential_version = case when :closed::boolean then null else credential_version end,
    version = version + 1
from clock_timestamp() t (now)
where organization_id = :organization_id and account_id = :account_id;
