-- name: create_organization(organization_id, external_id, provider, name, entitlements)!
insert into organizations (organization_id, external_id, provider, name, entitlements)
values (:organization_id, :external_id, :provider, :name, :entitlements);

-- name: create_api_key(organization_id, api_key_id, key_id, name, environment, permissions, secret_hash, expires_at, own_orders_only, account_ids)!
-- A lock per organization: keys are added one at a time, so created_at is in commit order and paging skips none.
with turn as materialized (select pg_advisory_xact_lock(hashtextextended(:organization_id::uuid::text, 0)))
insert into api_keys (
    organization_id, api_key_id, key_id, name, environment, permissions, secret_hash, expires_at, own_orders_only,
    account_ids
)
select :organization_id, :api_key_id::uuid, :key_id, :name, :environment, :permissions::text[], :secret_hash::bytea,
    :expires_at::timestamptz, :own_orders_only::boolean, :account_ids::uuid[]
from turn;

-- name: create_counters(organization_id, account_id, slot)!
-- After the account, in a separate statement: row security accepts the row only if it sees the organization's account.
insert into account_counters (organization_id, account_id, slot, recovered_epoch)
select :organization_id, :account_id, :slot, i.epoch from this_incarnation i;

-- name: read_organization(organization_id)^
select organization_id as id, external_id, name, provider, disabled, created_at
from organizations where organization_id = :organization_id;

-- name: find_keys_across_organizations(key_ids)
select api_key_id, key_id, organization_id, environment, permissions, own_orders_only, account_ids, secret_hash, disabled,
    revoked_at, expires_at, created_at
from api_keys where key_id = any(:key_ids::text[]);

-- name: note_key_uses_across_organizations(key_ids)!
-- In the order of ids, so that two processes do not wait for each other.
insert into api_key_uses (organization_id, api_key_id, last_used_at)
select organization_id, api_key_id, clock_timestamp() from api_keys where key_id = any(:key_ids::text[])
order by api_key_id
on conflict (organization_id, api_key_id) do update set last_used_at = excluded.last_used_at;

-- name: find_account(organization_id, account_id)^
select a.account_id as id, a.organization_id, a.name, a.broker, a.environment, a.slot, a.disabled,
    o.disabled as organization_disabled, o.entitlements, o.control_epoch as organization_epoch,
    c.control_epoch as account_epoch, clock_timestamp() as now,
    a.timezone, a.closed_at is not null as closed, a.credential_status
from accounts a
join organizations o on o.organization_id = a.organization_id
join account_counters c on c.account_id = a.account_id and c.organization_id = a.organization_id
where a.organization_id = :organization_id and a.account_id = :account_id;
