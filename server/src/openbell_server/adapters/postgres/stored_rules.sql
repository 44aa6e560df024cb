-- These need the newest schema.

-- name: rules_of_account(organization_id, account_id, platform_id, row_limit)
-- Every rule that can speak about a command of the account: of the platform, of the organization and its keys, and its own.
(
    select scope, subject, code, of_account, terms, override_terms, override_expires_at, version from control_rules
    where organization_id = :platform_id and (terms is not null or override_terms is not null)
)
union all
(
    select scope, subject, code, of_account, terms, override_terms, override_expires_at, version from control_rules
    where organization_id = :organization_id and scope in ('organization', 'key')
        and (terms is not null or override_terms is not null)
)
union all
(
    select scope, subject, code, of_account, terms, override_terms, override_expires_at, version from control_rules
    where organization_id = :organization_id and of_account = :account_id
        and (terms is not null or override_terms is not null)
)
limit :row_limit;
