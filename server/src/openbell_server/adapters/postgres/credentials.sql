-- name: read_credential(organization_id, account_id)^
-- One row for the account, with its credential if it has one.
select a.closed_at, a.credential_status as status, a.credential_versions, c.credential_id, c.broker, c.kind, c.hint,
    c.version, c.asked_at, c.answered_at, c.refusal_code, c.verified_at, c.expires_at, c.created_at, c.updated_at
from accounts a
left join credentials c on c.organization_id = a.organization_id and c.account_id = a.account_id
where a.organization_id = :organization_id and a.account_id = :account_id;

-- name: save_credential(organization_id, account_id, credential_id, version, broker, kind, hint, expires_at)$
-- Whether it runs out later than now, or never. The broker has not been asked about what is new.
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
-- The version that must be used from now on, if any; a removal takes a number too.
update accounts
set credential_status = :status, credential_version = :credential_version,
    credential_versions = credential_versions + 1, version = version + 1, updated_at = clock_timestamp()
where organization_id = :organization_id and account_id = :account_id;

-- name: set_credential_status(organization_id, account_id, status)!
update accounts set credential_status = :status, version = version + 1, updated_at = clock_timestamp()
where organization_id = :organization_id and account_id = :account_id;

-- name: ask_about_credential(organization_id, account_id)$
update credentials set asked_at = clock_timestamp()
where organization_id = :organization_id and account_id = :account_id
returning asked_at;

-- name: credentials_running_out_across_organizations(row_limit)
-- Those of which something is to be told: 14 days, 3 days and 1 day before, and at the end. The latest of these that has
-- come is due, unless the last warning is later.
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
-- Of all who found it due, the first one notes it, and tells; a credential that was changed since is another matter.
update credentials set warned_at = clock_timestamp()
where organization_id = :organization_id and account_id = :account_id
    and expires_at = :expires_at::timestamptz and coalesce(warned_at, '-infinity') < :due_at;
