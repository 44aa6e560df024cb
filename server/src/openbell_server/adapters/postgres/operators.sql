-- These need the newest schema, unlike those of the processes.

-- name: list_across_organizations(row_limit)
select organization_id, name, provider, external_id, disabled, internal, entitlements, created_at
from organizations order by created_at, organization_id limit :row_limit;

-- name: lock_organization(organization_id)^
select organization_id, name, provider, external_id, disabled, internal, entitlements, created_at
from organizations where organization_id = :organization_id for no key update;

-- name: change_organization(organization_id, disabled, internal, entitlements)^
-- With a new epoch, so that a command which was evaluated before is evaluated again.
update organizations
set disabled = :disabled, internal = :internal, entitlements = :entitlements, control_epoch = control_epoch + 1
where organization_id = :organization_id
returning organization_id, name, provider, external_id, disabled, internal, entitlements, created_at;

-- name: list_api_keys(organization_id, row_limit)
select organization_id, api_key_id, key_id, name, environment, permissions, disabled, revoked_at, expires_at, created_at
from api_keys where organization_id = :organization_id order by created_at, api_key_id limit :row_limit;

-- name: find_organization_of_key_across_organizations(key_id)$
select organization_id from api_keys where key_id = :key_id;

-- name: lock_api_key(organization_id, key_id)^
select organization_id, api_key_id, key_id, name, environment, permissions, disabled, revoked_at, expires_at, created_at,
    expires_at <= clock_timestamp() as is_expired
from api_keys where organization_id = :organization_id and key_id = :key_id for no key update;

-- name: change_api_key(organization_id, key_id, disabled, revoked)^
update api_keys
set disabled = :disabled, revoked_at = case when :revoked then coalesce(revoked_at, clock_timestamp()) else revoked_at end
where organization_id = :organization_id and key_id = :key_id
returning organization_id, api_key_id, key_id, name, environment, permissions, disabled, revoked_at, expires_at,
    created_at;

-- name: find_denied_user_across_organizations(provider, subject)^
select provider, subject, reason, denied_at from denied_users where provider = :provider and subject = :subject;

-- name: deny_user_across_organizations(provider, subject, reason)!
insert into denied_users (provider, subject, reason) values (:provider, :subject, :reason) on conflict do nothing;

-- name: allow_user_across_organizations(provider, subject)!
delete from denied_users where provider = :provider and subject = :subject;

-- name: list_audit_log_across_organizations(organization_id, row_limit)
-- The newest of every organization, or of one, and of those the newest: each by the order of its key.
select a.* from organizations o
cross join lateral (
    select organization_id, audit_id, occurred_at, principal_type, principal_id, operation, object_id, before, after
    from audit_log l where l.organization_id = o.organization_id
    order by audit_id desc limit :row_limit
) a
where :organization_id::uuid is null or o.organization_id = :organization_id
order by a.audit_id desc limit :row_limit;
