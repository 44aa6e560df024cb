-- name: destroy_across_organizations(account_ids)!
-- Sealed secrets of these accounts that no credential needs: an older version's, or those of one that is gone. A newer one
-- than the credential's is left: its version is about to be read.
delete from vault_objects v
where v.account_id = any (:account_ids::uuid[])
    and not exists (
        select 1 from credentials c
        where c.organization_id = v.organization_id and c.account_id = v.account_id
            and c.credential_id = v.credential_id and c.version <= v.version
    );
