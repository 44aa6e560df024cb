-- part: record
api_key_id, key_id, name, environment, permissions, own_orders_only, account_ids, disabled, revoked_at, expires_at,
    created_at, (
        select u.last_used_at from api_key_uses u
        where u.organization_id = api_keys.organization_id and u.api_key_id = api_keys.api_key_id
    ) as last_used_at

-- name: list_api_key_records(organization_id, after, row_limit)
-- In commit order, because create_api_key takes the time under a lock.
select * from (
    select (extract(epoch from created_at) * 1000000)::bigint as number, {record}
    from api_keys where organization_id = :organization_id
) keys
where number > :after order by number limit :row_limit;

-- name: has_more_keys(organization_id, keys_max)$
-- A value if more than keys_max keys can be used, or enabled again.
select true from api_keys
where organization_id = :organization_id and revoked_at is null
    and (expires_at is null or expires_at > clock_timestamp())
having count(*) > :keys_max;

-- name: open_accounts_among(organization_id, environment, account_ids)
-- Those of these accounts that are of the environment and not closed.
select account_id from accounts
where organization_id = :organization_id and account_id = any(:account_ids::uuid[]) and environment = :environment
    and closed_at is null;

-- name: find_api_key_record(organization_id, api_key_id)^
select {record}
from api_keys where organization_id = :organization_id and api_key_id = :api_key_id;

-- name: lock_api_key_record(organization_id, api_key_id)^
select {record},
    coalesce(expires_at <= clock_timestamp(), false) as is_expired
from api_keys where organization_id = :organization_id and api_key_id = :api_key_id for no key update;

-- name: change_api_key_record(organization_id, api_key_id, name, disabled, own_orders_only, revoked)^
update api_keys
set name = coalesce(:name, name), disabled = coalesce(:disabled, disabled),
    own_orders_only = coalesce(:own_orders_only, own_orders_only),
    revoked_at = case when :revoked then coalesce(revoked_at, clock_timestamp()) else revoked_at end
where organization_id = :organization_id and api_key_id = :api_key_id
returning {record};
