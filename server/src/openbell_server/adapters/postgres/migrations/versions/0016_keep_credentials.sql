-- What an account signs in with at its broker: everything but the secrets. At most one for an account.

create table if not exists credentials (
    organization_id uuid not null,
    account_id uuid not null,
    credential_id uuid not null unique,
    broker text not null,
    kind text not null,
    -- The last four characters of what is not secret about it.
    hint text not null,
    version integer not null default 1,
    -- Somebody wants the broker asked, since asked_at; the broker's last answer came at answered_at.
    asked_at timestamptz not null,
    answered_at timestamptz,
    -- Why the last answer was no, by a code of ours; null if it was yes, or there was none.
    refusal_code text,
    verified_at timestamptz,
    expires_at timestamptz,
    -- When the last warning of its expiry was written.
    warned_at timestamptz,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    primary key (organization_id, account_id),
    foreign key (organization_id, account_id) references accounts
);
-- How many versions of credentials, and removals of them, the account has had: no version comes twice, so that whoever
-- is signed in with an earlier one always sees that it is.
alter table accounts add column if not exists credential_versions integer not null default 0;
grant update (credential_versions) on accounts to openbell_tenant;
create index if not exists credentials_expiring on credentials (expires_at) where expires_at is not null;
call protect_tenant_table('credentials');
grant select, insert, update, delete on credentials to openbell_tenant;
-- The executor finds those that the broker must be asked about, the relay those that run out.
grant select (organization_id, account_id, credential_id, version, asked_at, answered_at) on credentials
    to openbell_executor;
create policy find_work on credentials for select to openbell_executor using (true);
grant select (organization_id, account_id, credential_id, version, expires_at, warned_at) on credentials
    to openbell_relay;
create policy relay on credentials for select to openbell_relay using (true);
