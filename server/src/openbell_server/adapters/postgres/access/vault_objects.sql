-- name: add_vault_object(organization_id, account_id, credential_id, version, key_id, wrapped_key, sealed)!
insert into vault_objects (organization_id, account_id, credential_id, version, key_id, wrapped_key, sealed)
values (:organization_id, :account_id, :credential_id, :version, :key_id, :wrapped_key, :sealed);

-- name: read_vault_object(organization_id, account_id, credential_id, version)^
select key_id, wrapped_key, sealed from vault_objects
where organization_id = :organization_id and account_id = :account_id and credential_id = :credential_id
    and version = :version;

-- name: count_vault_objects_across_organizations()
select key_id, count(*) as count from vault_objects group by key_id order by key_id;

-- name: list_wrapped_by_others_across_organizations(wrapping_key_id, after_organization_id, after_account_id, after_credential_id, after_version, row_limit)
select organization_id, account_id, credential_id, version, key_id, wrapped_key, sealed from vault_objects
where key_id <> :wrapping_key_id and (organization_id, account_id, credential_id, version)
    > (:after_organization_id, :after_account_id, :after_credential_id, :after_version)
order by organization_id, account_id, credential_id, version
limit :row_limit;

-- name: rewrap_vault_objects(organization_id, account_ids, credential_ids, versions, earlier_key_ids, wrapping_key_ids, wrapped_keys)
-- Only objects whose wrapping key has not changed since they were read. Rows are locked in key order to avoid deadlocks.
with mine as materialized (
    select v.account_id, v.credential_id, v.version, t.key_id, t.wrapped_key
    from vault_objects v
    join unnest(
        :account_ids::uuid[], :credential_ids::uuid[], :versions::integer[], :earlier_key_ids::text[],
        :wrapping_key_ids::text[], :wrapped_keys::bytea[]
    ) t (account_id, credential_id, version, earlier_key_id, key_id, wrapped_key)
        on v.account_id = t.account_id and v.credential_id = t.credential_id and v.version = t.version
            and v.key_id = t.earlier_key_id
    where v.organization_id = :organization_id
    order by v.account_id, v.credential_id, v.version
    for no key update of v
)
update vault_objects v set key_id = mine.key_id, wrapped_key = mine.wrapped_key
from mine
where v.organization_id = :organization_id and v.account_id = mine.account_id and v.credential_id = mine.credential_id
    and v.version = mine.version
returning v.version;
