-- Access: organizations, their API keys and trading accounts, and the credentials that accounts sign in with.

create table organizations (
    organization_id uuid primary key,
    external_id text not null,
    provider text not null,
    name text not null check (name <> ''),
    disabled boolean not null default false,
    internal boolean not null default false,
    entitlements text[] not null default '{}',
    paper_enforcement text not null default 'ENFORCE' check (paper_enforcement in ('ENFORCE', 'SHADOW')),
    -- Each change of a control at the scope of the organization, a key or the platform starts a new epoch. A command that
    -- was evaluated against another epoch is not accepted.
    control_epoch bigint not null default 1,
    created_at timestamptz not null default clock_timestamp(),
    unique (provider, external_id)
);
comment on table organizations is 'The tenants. `provider` and `external_id` name the organization at its identity provider.';
call protect_tenant_table('organizations');
grant select on organizations to openbell_reader;
grant update (control_epoch) on organizations to openbell_tenant, openbell_execution;
grant select, update (control_epoch) on organizations to openbell_writer;
create policy accept_step on organizations to openbell_writer using (true);
grant select (organization_id, provider, external_id, internal) on organizations to openbell_keys;
create policy find_caller on organizations for select to openbell_keys using (true);
grant select (organization_id, disabled) on organizations to openbell_relay;
create policy relay on organizations for select to openbell_relay using (true);
grant select, insert, update (disabled, entitlements, internal, paper_enforcement, control_epoch) on organizations
    to openbell_operator;
create policy list_organizations on organizations for select to openbell_operator using (true);
create policy operator on organizations to openbell_operator
    using (organization_id = nullif(current_setting('openbell.organization_id', true), '')::uuid);

-- A change of the platform's rules starts a new epoch of every organization.
create function begin_every_epoch() returns void language sql as
$$ update openbell.organizations set control_epoch = control_epoch + 1 $$;
call run_as('openbell_writer', 'begin_every_epoch', 'openbell_operator');

create table api_keys (
    organization_id uuid not null references organizations,
    api_key_id uuid not null,
    -- The public part of the key.
    key_id text not null unique check (key_id ~ '^[0-9A-Za-z]{12}$'),
    name text not null,
    environment text not null check (environment in ('paper', 'live')),
    permissions text[] not null,
    -- It may cancel and replace only orders of intents that it created.
    own_orders_only boolean not null default false,
    -- The only accounts that it may use; null: all of its environment.
    account_ids uuid[] check (cardinality(account_ids) between 1 and 100),
    secret_hash bytea not null check (octet_length(secret_hash) = 32),
    disabled boolean not null default false,
    revoked_at timestamptz,
    expires_at timestamptz,
    created_at timestamptz not null default clock_timestamp(),
    primary key (organization_id, api_key_id)
);
comment on table api_keys is 'API keys: permissions, and a hash of the secret instead of the secret.';
call protect_tenant_table('api_keys');
grant select, insert, update (name, own_orders_only, disabled, revoked_at) on api_keys to openbell_tenant;
-- The door looks whether the key was revoked, and rule books contain rules of the account's keys only.
grant select (organization_id, api_key_id, account_ids, revoked_at) on api_keys to openbell_execution;
-- Executors look which accounts the limits on losses of keys are for.
grant select (organization_id, api_key_id, account_ids, revoked_at, expires_at) on api_keys to openbell_executor;
create policy find_work on api_keys for select to openbell_executor using (true);
grant select on api_keys to openbell_keys;
create policy find_key on api_keys for select to openbell_keys using (true);
-- All but the hash of the secret.
grant select (
    organization_id, api_key_id, key_id, name, environment, permissions, own_orders_only, account_ids, disabled, revoked_at,
    expires_at, created_at
), insert, update (disabled, revoked_at) on api_keys to openbell_operator;
create policy find_key_to_change on api_keys for select to openbell_operator using (true);
create policy operator on api_keys to openbell_operator
    using (organization_id = nullif(current_setting('openbell.organization_id', true), '')::uuid);

-- Not in api_keys: a login that may update that table could lock a key, and so block its revocation.
create table api_key_uses (
    organization_id uuid not null,
    api_key_id uuid not null,
    -- Up to a minute earlier than the last use.
    last_used_at timestamptz not null,
    primary key (organization_id, api_key_id),
    foreign key (organization_id, api_key_id) references api_keys
) with (fillfactor = 50);
comment on table api_key_uses is 'When API keys were used, to the minute.';
call protect_tenant_table('api_key_uses');
grant select on api_key_uses to openbell_tenant;
grant select, insert, update on api_key_uses to openbell_keys;
create policy note_use on api_key_uses to openbell_keys using (true);

create table denied_users (
    provider text not null check (provider <> ''),
    subject text not null check (subject <> ''),
    reason text not null,
    denied_at timestamptz not null default clock_timestamp(),
    primary key (provider, subject)
);
comment on table denied_users is 'Users of identity providers whose tokens are rejected.';
grant select on denied_users to openbell_keys;
grant insert on denied_users to openbell_relay;
grant select, insert, delete on denied_users to openbell_operator;

create table user_deletions (
    organization_id uuid not null references organizations,
    provider text not null check (provider <> ''),
    subject text not null check (subject <> ''),
    requested_at timestamptz not null default clock_timestamp(),
    attempts integer not null default 0,
    -- Until this moment a relay is working on the deletion, or waits before it calls the provider again.
    available_at timestamptz not null,
    finished_at timestamptz,
    primary key (organization_id, provider, subject)
);
comment on table user_deletions is
    'Users who requested their deletion. A row stays unfinished until the identity provider confirms that the user is gone.';
create index user_deletions_requested on user_deletions (available_at) where finished_at is null;
call protect_tenant_table('user_deletions');
grant insert on user_deletions to openbell_tenant;
grant select, update on user_deletions to openbell_relay;
create policy relay on user_deletions to openbell_relay using (true);

create table accounts (
    organization_id uuid not null references organizations,
    account_id uuid not null unique,
    name text not null check (name <> ''),
    broker text not null,
    environment text not null check (environment in ('paper', 'live')),
    external_account_id text,
    base_currency text not null default 'USD' check (base_currency ~ '^[A-Z]{3}$'),
    timezone text not null default 'UTC',
    -- The slot whose executor works this account.
    slot smallint not null check (slot between 0 and 63),
    disabled boolean not null default false,
    disabled_reason text,
    -- Here and not in credentials, so that the accept step and the door read it with the account.
    credential_status text not null default 'NOT_REQUIRED' check (
        credential_status in ('NOT_REQUIRED', 'MISSING', 'UNVERIFIED', 'VALID', 'INVALID', 'EXPIRED')
    ),
    -- The version of the credential that must be used; null while there is none.
    credential_version integer,
    -- How many versions and removals of credentials the account has had. No version number is used twice, so a session
    -- that signed in with an earlier credential always sees that it is outdated.
    credential_versions integer not null default 0,
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp(),
    closed_at timestamptz,
    version integer not null default 1,
    primary key (organization_id, account_id)
);
comment on table accounts is 'Trading accounts, each at one broker in one environment.';
call protect_tenant_table('accounts');
grant select on accounts to openbell_reader;
grant insert, update (
    name, external_account_id, timezone, disabled, disabled_reason, credential_status, credential_version,
    credential_versions, closed_at, updated_at, version
) on accounts to openbell_tenant;
grant update (credential_status, external_account_id, updated_at, version) on accounts to openbell_execution;
grant update (credential_status, updated_at, version) on accounts to openbell_delivery;
grant select (organization_id, account_id, broker, slot) on accounts to openbell_executor;
create policy find_work on accounts for select to openbell_executor using (true);
grant select (organization_id, account_id, environment) on accounts to openbell_relay;
create policy relay on accounts for select to openbell_relay using (true);
grant select (organization_id, account_id, name, broker, environment, slot, credential_status, version, created_at), insert
    on accounts to openbell_operator;
create policy list_accounts on accounts for select to openbell_operator using (true);
create policy operator on accounts for insert to openbell_operator
    with check (organization_id = nullif(current_setting('openbell.organization_id', true), '')::uuid);

create table credentials (
    organization_id uuid not null,
    account_id uuid not null,
    credential_id uuid not null unique,
    broker text not null,
    kind text not null,
    -- The last four characters of the part that is not secret.
    hint text not null,
    version integer not null default 1,
    -- A check at the broker was requested at asked_at; the broker's last answer came at answered_at.
    asked_at timestamptz not null,
    answered_at timestamptz,
    -- Why the last answer was negative, as a code of ours; null if it was positive or there was none.
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
comment on table credentials is 'What an account signs in with at its broker, without the secrets. At most one per account.';
create index credentials_expiring on credentials (expires_at) where expires_at is not null;
create index credentials_asked on credentials (account_id) where answered_at is null or asked_at > answered_at;
call protect_tenant_table('credentials');
grant select, insert, update, delete on credentials to openbell_tenant;
grant select, update (answered_at, refusal_code, verified_at, expires_at, updated_at) on credentials to openbell_execution;
grant select, update (warned_at) on credentials to openbell_delivery;
-- The executor finds credentials to check at the broker, the relay those that expire soon.
grant select (organization_id, account_id, credential_id, version, asked_at, answered_at) on credentials
    to openbell_executor;
create policy find_work on credentials for select to openbell_executor using (true);
grant select (organization_id, account_id, credential_id, version, expires_at, warned_at) on credentials
    to openbell_relay;
create policy relay on credentials for select to openbell_relay using (true);

create table vault_objects (
    organization_id uuid not null,
    account_id uuid not null,
    credential_id uuid not null,
    version integer not null,
    -- The key-encryption key that wraps this object's own key.
    key_id text not null,
    wrapped_key bytea not null,
    sealed bytea not null,
    created_at timestamptz not null default clock_timestamp(),
    primary key (organization_id, account_id, credential_id, version),
    foreign key (organization_id, account_id) references accounts
);
comment on table vault_objects is
    'Encrypted secrets of credentials. The role that writes an object cannot read it; only executors can decrypt it.';
create index vault_objects_by_key on vault_objects (key_id);
call protect_tenant_table('vault_objects');
grant insert on vault_objects to openbell_tenant;
grant select, update (key_id, wrapped_key) on vault_objects to openbell_vault;
create policy vault on vault_objects to openbell_vault using (true);
-- The relay destroys objects that no credential needs any more.
grant select (organization_id, account_id, credential_id, version), delete on vault_objects to openbell_relay;
create policy relay on vault_objects to openbell_relay using (true);
grant select (credential_id) on vault_objects to openbell_health;
create policy health on vault_objects for select to openbell_health using (true);
