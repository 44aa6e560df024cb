-- name: destroy_across_organizations(account_ids)!
-- Secrets of these accounts that no credential uses: those of an older version, or of a deleted credential. Secrets newer
-- than the credential stay: the credential's new version may not be visible yet.
delete from vault_objects v
where v.account_id = any (:account_ids::uuid[])
    and not exists (
        select 1 from credentials c
        where c.organization_id = v.organization_id and c.account_id = v.account_id
            and c.credential_id = v.credential_id and c.version <= v.version
    );
