-- Changes that others must hear of: of accounts and their credentials, and of users who deleted themselves. One queue each,
-- with the rules of the intents' queue. And a role that counts the accounts' queue, and sees nothing of what its rows say.

do $$
declare
    login name;
begin
    begin
        create role openbell_health nologin;
    exception when duplicate_object or unique_violation then
        null;
    end;
    grant usage on schema openbell to openbell_health;
    -- The processes' logins were given their roles before this one was made.
    for login in
        select r.rolname from pg_auth_members m join pg_roles r on r.oid = m.member
        where m.roleid = 'openbell_relay'::regrole and r.rolcanlogin and r.rolname <> current_user
    loop
        execute format('grant openbell_health to %I', login);
    end loop;
end $$;

-- apart
create table if not exists account_outbox (
    outbox_id bigint generated always as identity primary key,
    organization_id uuid not null,
    account_id uuid not null,
    event_type text not null check (
        event_type in (
            'account.created', 'account.updated', 'account.deleted',
            'credential.created', 'credential.updated', 'credential.deleted'
        )
    ),
    -- JSON, as it is published.
    payload text not null,
    status text not null default 'pending' check (status in ('pending', 'processing', 'completed', 'failed')),
    attempts integer not null default 0,
    claim_token bigint not null default 0,
    claimed_at timestamptz,
    available_at timestamptz not null,
    created_at timestamptz not null,
    resolved_at timestamptz,
    foreign key (organization_id, account_id) references accounts,
    check ((status = 'processing') = (claimed_at is not null)),
    check ((status in ('completed', 'failed')) = (resolved_at is not null))
) with (fillfactor = 50);
create index if not exists account_outbox_unresolved on account_outbox (outbox_id) where resolved_at is null;
call protect_tenant_table('account_outbox');
grant select, update on account_outbox to openbell_relay;
create policy relay on account_outbox to openbell_relay using (true);
grant select (status, event_type, created_at, attempts, claimed_at) on account_outbox to openbell_health;
create policy health on account_outbox for select to openbell_health using (true);

-- apart
-- Who asked to be deleted. Nothing forgets it before the identity provider has said that the user is gone.
create table if not exists user_deletions (
    organization_id uuid not null references organizations,
    provider text not null check (provider <> ''),
    subject text not null check (subject <> ''),
    requested_at timestamptz not null default clock_timestamp(),
    attempts integer not null default 0,
    -- Until then somebody is at it, or waits for the provider to come back.
    available_at timestamptz not null,
    finished_at timestamptz,
    primary key (organization_id, provider, subject)
);
create index if not exists user_deletions_requested on user_deletions (available_at) where finished_at is null;
call protect_tenant_table('user_deletions');
grant insert on user_deletions to openbell_tenant;
grant select, update on user_deletions to openbell_relay;
create policy relay on user_deletions to openbell_relay using (true);

-- apart
create table if not exists user_outbox (
    outbox_id bigint generated always as identity primary key,
    organization_id uuid not null references organizations,
    event_type text not null check (event_type in ('user.deleted')),
    payload text not null,
    status text not null default 'pending' check (status in ('pending', 'processing', 'completed', 'failed')),
    attempts integer not null default 0,
    claim_token bigint not null default 0,
    claimed_at timestamptz,
    available_at timestamptz not null,
    created_at timestamptz not null,
    resolved_at timestamptz,
    check ((status = 'processing') = (claimed_at is not null)),
    check ((status in ('completed', 'failed')) = (resolved_at is not null))
) with (fillfactor = 50);
create index if not exists user_outbox_unresolved on user_outbox (outbox_id) where resolved_at is null;
call protect_tenant_table('user_outbox');
grant select, insert, update on user_outbox to openbell_relay;
create policy relay on user_outbox to openbell_relay using (true);

-- apart
grant insert on denied_users to openbell_relay;

-- apart
-- Admins of an organization manage its API keys.
grant update (name, disabled, revoked_at) on api_keys to openbell_tenant;
