-- name: credential_of(organization_id, account_id)^
select c.credential_id, c.version, c.asked_at > coalesce(c.answered_at, '-infinity') as is_asked,
    clock_timestamp() as read_at, a.environment
from credentials c
join accounts a on a.organization_id = c.organization_id and a.account_id = c.account_id
where c.organization_id = :organization_id and c.account_id = :account_id and a.closed_at is null
    and a.credential_version = c.version;

-- name: credential_to_answer(organization_id, account_id)^
-- The caller holds the account's lock.
select c.credential_id, c.version, c.asked_at > coalesce(c.answered_at, '-infinity') as is_asked, c.expires_at,
    c.refusal_code, a.credential_status, a.external_account_id, clock_timestamp() as now
from credentials c
join accounts a on a.organization_id = c.organization_id and a.account_id = c.account_id
where c.organization_id = :organization_id and c.account_id = :account_id and a.credential_version = c.version;

-- name: save_answer(organization_id, account_id, read_at, is_valid, refusal_code, expires_at)!
update credentials
set answered_at = :read_at, refusal_code = :refusal_code, expires_at = :expires_at, updated_at = clock_timestamp(),
    verified_at = case when :is_valid::boolean then clock_timestamp() else verified_at end
where organization_id = :organization_id and account_id = :account_id;

-- name: save_standing(organization_id, account_id, status, external_account_id)!
update accounts
set credential_status = :status, external_account_id = :external_account_id, version = version + 1,
    updated_at = clock_timestamp()
where organization_id = :organization_id and account_id = :account_id;

-- name: accounts_with_credentials_across_organizations(broker, slots, row_limit)
select a.organization_id, a.account_id, a.broker, a.slot
from credentials c join accounts a on a.organization_id = c.organization_id and a.account_id = c.account_id
where a.broker = :broker and a.slot = any(:slots::smallint[])
limit :row_limit;

-- name: accounts_asked_across_organizations(slots, row_limit)
select a.organization_id, a.account_id, a.broker, a.slot
from credentials c join accounts a on a.organization_id = c.organization_id and a.account_id = c.account_id
where (c.answered_at is null or c.asked_at > c.answered_at) and a.slot = any(:slots::smallint[])
-- The newest first: old requests are failing ones, and must not delay new ones.
order by c.asked_at desc
limit :row_limit;
