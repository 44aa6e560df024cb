-- name: read_credential(organization_id, account_id)^
-- One row for the account, with its credential if it has one.
select a.closed_at, a.credential_status as status, a.credential_versions, c.credential_id, c.broker, c.kind, c.hint,
    c.version, c.asked_at, c.answered_at, c.refusal_code, c.verified_at, c.expires_at, c.created_at, c.updated_at
from accounts a
left join credentials c on c.organization_id = a.organization_id and c.account_id = a.account_id
where a.organization_id = :organization_id and a.account_id = :account_id;

-- name: save_credential(organization_id, account_id, credential_id, version, broker, kind, hint, expires_at)$
-- Returns false if it has expired already. The broker has not verified the new version yet.
insert into credentials (
    organization_id, account_id, credential_id, broker, kind, hint, version, asked_at, expires_at, created_at, updated_at
)
select :organization_id, :account_id, :credential_id::uuid, :broker, :kind, :hint, :version, t.now,
    :expires_at::timestamptz, t.now, t.now
from clock_timestamp() t (now)
on conflict (organization_id, account_id) do update set
    kind = excluded.kind, hint = excluded.hint, version = excluded.version, asked_at = excluded.asked_at,
    answered_at = null, refusal_code = null, verified_at = null, expires_at = excluded.expires_at, warned_at = null,
    updated_at = excluded.updated_at
returning coalesce(expires_at > updated_at, true);

-- name: remove_credential(organization_id, account_id)!
delete from credentials where organization_id = :organization_id and account_id = :account_id;

-- name: use_credential_version(organization_id, account_id, status, credential_version)!
-- The version to use from now on, if any; a removal counts as a version too.
update accounts
set credential_status = :status, credential_version = :credential_version,
    credential_versions = credential_versions + 1, version = version + 1, updated_at = clock_timestamp()
where organization_id = :organization_id and account_id = :account_id;

-- name: set_credential_status(organization_id, account_id, status)!
update accounts set credential_status = :status, version = version + 1, updated_at = clock_timestamp()
where organization_id = :organization_id and account_id = :account_id;

-- name: request_verification(organization_id, account_id)$
update credentials set asked_at = clock_timestamp()
where organization_id = :organization_id and account_id = :account_id
returning asked_at;

-- name: credentials_running_out_across_organizations(row_limit)
-- Credentials whose next warning is due: warnings are sent 14 days, 3 days and 1 day before the end, and at the end. Only
-- the latest of these times that has passed counts, and only if no warning was sent since.
select c.organization_id, c.account_id, c.expires_at, t.due_at
from credentials c, clock_timestamp() n (now), lateral (
    select c.expires_at - case
        when c.expires_at <= n.now then interval '0'
        when c.expires_at <= n.now + interval '1 day' then interval '1 day'
        when c.expires_at <= n.now + interval '3 days' then interval '3 days'
        else interval '14 days'
    end as due_at
) t
where c.expires_at <= n.now + interval '14 days' and coalesce(c.warned_at, '-infinity') < t.due_at
order by c.expires_at
limit :row_limit;

-- name: note_warning(organization_id, account_id, expires_at, due_at)!
-- Only the first caller updates the row and may send the warning; no row if the credential was changed meanwhile.
update credentials set warned_at = clock_timestamp()
where organization_id = :organization_id and account_id = :account_id
    and expires_at = :expires_at::timestamptz and coalesce(warned_at, '-infinity') < :due_at;
