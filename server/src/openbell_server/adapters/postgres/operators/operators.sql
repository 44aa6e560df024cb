-- name: list_across_organizations(row_limit)
select organization_id, name, provider, external_id, disabled, internal, entitlements, paper_enforcement, created_at
from organizations order by created_at, organization_id limit :row_limit;

-- name: lock_organization(organization_id)^
select organization_id, name, provider, external_id, disabled, internal, entitlements, paper_enforcement, created_at
from organizations where organization_id = :organization_id for no key update;

-- name: change_organization(organization_id, disabled, internal, entitlements, paper_enforcement)^
-- With a new epoch, so that commands evaluated before are evaluated again.
update organizations
set disabled = :disabled, internal = :internal, entitlements = :entitlements, paper_enforcement = :paper_enforcement,
    control_epoch = control_epoch + 1
where organization_id = :organization_id
returning organization_id, name, provider, external_id, disabled, internal, entitlements, paper_enforcement, created_at;

-- name: list_api_keys(organization_id, row_limit)
select organization_id, api_key_id, key_id, name, environment, permissions, own_orders_only, account_ids, disabled, revoked_at,
    expires_at, created_at
from api_keys where organization_id = :organization_id order by created_at, api_key_id limit :row_limit;

-- name: find_organization_of_key_across_organizations(key_id)$
select organization_id from api_keys where key_id = :key_id;

-- name: lock_api_key(organization_id, key_id)^
select organization_id, api_key_id, key_id, name, environment, permissions, own_orders_only, account_ids, disabled, revoked_at,
    expires_at, created_at, expires_at <= clock_timestamp() as is_expired
from api_keys where organization_id = :organization_id and key_id = :key_id for no key update;

-- name: change_api_key(organization_id, key_id, disabled, revoked)^
update api_keys
set disabled = :disabled, revoked_at = case when :revoked then coalesce(revoked_at, clock_timestamp()) else revoked_at end
where organization_id = :organization_id and key_id = :key_id
returning organization_id, api_key_id, key_id, name, environment, permissions, own_orders_only, account_ids, disabled, revoked_at,
    expires_at, created_at;

-- name: find_denied_user_across_organizations(provider, subject)^
select provider, subject, reason, denied_at from denied_users where provider = :provider and subject = :subject;

-- name: deny_user_across_organizations(provider, subject, reason)!
insert into denied_users (provider, subject, reason) values (:provider, :subject, :reason) on conflict do nothing;

-- name: allow_user_across_organizations(provider, subject)!
delete from denied_users where provider = :provider and subject = :subject;

-- name: list_audit_log_across_organizations(organization_id, row_limit)
-- The newest rows of each organization, or of one, by primary key; of these, the newest.
select a.* from audit_heads h
cross join lateral (
    select organization_id, entry_no, audit_id, occurred_at, login, principal_type, principal_id, operation, object_id,
        before, after
    from audit_log l where l.organization_id = h.organization_id
    order by entry_no desc limit :row_limit
) a
where :organization_id::uuid is null or h.organization_id = :organization_id
order by a.occurred_at desc, a.organization_id, a.entry_no desc limit :row_limit;

-- name: list_accounts_across_organizations(organization_id, halted_only, row_limit)
-- The oldest first; of all organizations, or of one.
select a.organization_id, a.account_id, a.name, a.broker, a.environment, c.halt_code, c.halted_at, c.halt_detail
from accounts a
join account_counters c on c.organization_id = a.organization_id and c.account_id = a.account_id
where (:organization_id::uuid is null or a.organization_id = :organization_id)
    and (c.halt_code is not null or not :halted_only::boolean)
order by a.created_at, a.account_id limit :row_limit;

-- name: find_organization_of_account_across_organizations(account_id)$
select organization_id from accounts where account_id = :account_id;

-- name: lock_halt(organization_id, account_id)^
-- Takes the account's lock.
select account_id, halt_code, halt_detail, halted_at, resumed_at from account_counters
where organization_id = :organization_id and account_id = :account_id
for no key update;

-- name: resume_account(organization_id, account_id)!
-- Ends the halt and appends the event. resumed_at marks what the broker has until now as checked by the operator.
with ended as (
    update account_counters
    set halt_code = null, halt_detail = null, halted_at = null, resumed_at = clock_timestamp()
    where organization_id = :organization_id and account_id = :account_id and halt_code is not null
    returning account_id
)
select append_change(
    a.organization_id, a.account_id, 3::smallint,
    json_build_object(
        'changed', array['halt_code'], 'version', a.version, 'credential_status', a.credential_status,
        'expires_at', null, 'reason', null
    )::text
)
from ended e
join accounts a on a.organization_id = :organization_id and a.account_id = e.account_id;
