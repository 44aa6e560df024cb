-- Where an organization has its accounts' events sent, and how far each account's log has been sent there.

create table if not exists webhooks (
    organization_id uuid not null references organizations,
    webhook_id uuid not null,
    url text not null check (length(url) between 1 and 2048),
    description text check (length(description) between 1 and 500),
    -- The kinds of events that are sent.
    kinds smallint[] not null check (cardinality(kinds) between 1 and 32),
    -- Null: every account, those created later too; of one environment where there is one.
    account_ids uuid[] check (cardinality(account_ids) between 1 and 1000),
    environment text check (environment in ('paper', 'live')),
    -- GONE: its target said that nobody is there any more.
    status text not null default 'ACTIVE' check (status in ('ACTIVE', 'PAUSED', 'GONE')),
    -- Secrets are derived from it and stored nowhere; the one before signs along until then.
    secret_version integer not null default 1,
    previous_secret_until timestamptz,
    version integer not null default 1,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    principal_type text not null check (principal_type in ('API_KEY', 'USER', 'SERVICE', 'SYSTEM', 'OPERATOR')),
    principal_id text not null check (principal_id <> ''),
    primary key (organization_id, webhook_id),
    unique (webhook_id)
);
call protect_tenant_table('webhooks');
grant select, insert, delete on webhooks to openbell_tenant;
grant update (
    url, description, kinds, account_ids, status, secret_version, previous_secret_until, version, updated_at
) on webhooks to openbell_tenant;
-- Whoever looks for what is to be sent sees neither where to nor what.
grant select (organization_id, webhook_id, kinds, account_ids, environment, status, created_at) on webhooks
    to openbell_relay;
create policy relay on webhooks for select to openbell_relay using (true);

-- apart
-- One for each account that a webhook covers: what is sent of an account is sent in order, and waits for nobody else.
create table if not exists webhook_lanes (
    organization_id uuid not null,
    webhook_id uuid not null,
    account_id uuid not null,
    -- The number of the last event that was delivered, or passed because its kind is not sent.
    position bigint not null check (position >= 0),
    -- The number of the last event that was delivered; null before the first.
    previous bigint check (previous >= 0),
    -- Tries in a row that failed, and since when.
    failures integer not null default 0,
    failing_since timestamptz,
    next_attempt_at timestamptz not null,
    -- Who is at it, and until when nobody else is.
    claimed_until timestamptz,
    claim_token uuid,
    -- Since when nothing is tried until somebody asks for it: it failed for too long.
    parked_at timestamptz,
    -- What came of the last try: the target's status, and in words what failed.
    last_status integer,
    last_error text check (length(last_error) <= 500),
    delivered bigint not null default 0,
    updated_at timestamptz not null,
    primary key (organization_id, webhook_id, account_id),
    foreign key (organization_id, webhook_id) references webhooks on delete cascade,
    foreign key (organization_id, account_id) references accounts
) with (fillfactor = 50);
create index if not exists webhook_lanes_of_account on webhook_lanes (account_id);
call protect_tenant_table('webhook_lanes');
grant select, insert, delete on webhook_lanes to openbell_tenant;
grant update (
    position, previous, failures, failing_since, next_attempt_at, claimed_until, claim_token, parked_at, last_status,
    last_error, delivered, updated_at
) on webhook_lanes to openbell_tenant;
grant select, insert, update on webhook_lanes to openbell_relay;
create policy relay on webhook_lanes to openbell_relay using (true);

-- apart
grant select (organization_id, account_id, environment) on accounts to openbell_relay;
drop policy if exists relay on accounts;
create policy relay on accounts for select to openbell_relay using (true);

-- apart
grant select (organization_id, account_id, event_no) on account_counters to openbell_relay;
drop policy if exists relay on account_counters;
create policy relay on account_counters for select to openbell_relay using (true);

-- apart
grant select (organization_id, disabled) on organizations to openbell_relay;
drop policy if exists relay on organizations;
create policy relay on organizations for select to openbell_relay using (true);
