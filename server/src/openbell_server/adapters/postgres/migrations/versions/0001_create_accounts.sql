-- Who owns what: organizations, their API keys, their trading accounts, and the one row per account that everything
-- numbered is counted on.

create schema if not exists openbell;
set local search_path = openbell, pg_catalog;

create table organizations (
    organization_id uuid primary key,
    external_id text not null,
    provider text not null,
    name text not null check (name <> ''),
    disabled boolean not null default false,
    entitlements text[] not null default '{}',
    -- Bumped by every change of a control at this scope; a command evaluated against another epoch is not written.
    control_epoch bigint not null default 1,
    created_at timestamptz not null default clock_timestamp(),
    unique (provider, external_id)
);

create table api_keys (
    organization_id uuid not null references organizations,
    api_key_id uuid not null,
    -- The public part of the key; its first two characters name the cell.
    key_id text not null unique check (key_id ~ '^[0-9A-Za-z]{12}$'),
    name text not null,
    environment text not null check (environment in ('paper', 'live')),
    permissions text[] not null,
    secret_hash bytea not null check (octet_length(secret_hash) = 32),
    disabled boolean not null default false,
    revoked_at timestamptz,
    expires_at timestamptz,
    created_at timestamptz not null default clock_timestamp(),
    primary key (organization_id, api_key_id)
);

create table accounts (
    organization_id uuid not null references organizations,
    account_id uuid not null unique,
    name text not null check (name <> ''),
    broker text not null,
    environment text not null check (environment in ('paper', 'live')),
    slot smallint not null check (slot between 0 and 63),
    disabled boolean not null default false,
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp(),
    version integer not null default 1,
    primary key (organization_id, account_id)
);

-- The account's lock. Whoever numbers an action or an event holds this row, so numbers are gapless and in commit order.
-- The low fill factor keeps its many updates on one page.
create table account_counters (
    organization_id uuid not null,
    account_id uuid primary key,
    slot smallint not null,
    control_epoch bigint not null default 1,
    action_no bigint not null default 0,
    event_no bigint not null default 0,
    -- Head of the chain over the hashes of the account's actions and receipts; it starts as 32 zero bytes.
    chain_head bytea not null default decode(repeat('00', 32), 'hex') check (octet_length(chain_head) = 32),
    foreign key (organization_id, account_id) references accounts
) with (fillfactor = 15);
