-- Rules and switches at every scope, their history, what rates are counted by, and a chain over refusals.

-- The platform's own rules stand under the organization of all zeros, which every organization may read. A change of rules at
-- the scope of an organization or a key begins a new epoch of the organization, one of the platform a new epoch of every
-- organization; one at the scope of an account or a symbol a new epoch of the account, under its lock.
create table if not exists control_rules (
    organization_id uuid not null,
    scope text not null check (scope in ('platform', 'organization', 'account', 'symbol', 'key')),
    -- Of whom: nothing, an account, an account and a symbol, or a key.
    subject text not null,
    code text not null check (code ~ '^[A-Z][A-Z0-9_]{1,39}$'),
    -- The account that it is about; null where it is about many. Not called account_id: it is no foreign key.
    of_account uuid,
    -- JSON texts; null while there are none. The second is in force until it expires.
    terms text,
    override_terms text,
    override_expires_at timestamptz,
    reason text check (length(reason) between 1 and 500),
    -- Versions go on after a rule was removed, so none is ever reused: both texts are null then.
    version integer not null default 1,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    principal_type text not null check (principal_type in ('API_KEY', 'USER', 'SERVICE', 'SYSTEM', 'OPERATOR')),
    principal_id text not null,
    primary key (organization_id, scope, subject, code),
    check ((organization_id = '00000000-0000-0000-0000-000000000000') = (scope = 'platform')),
    check ((of_account is not null) = (scope in ('account', 'symbol'))),
    check ((override_terms is null) = (override_expires_at is null))
);
call protect_tenant_table('control_rules');
-- As for every table that names an account in a column of that name.
create policy own_account on control_rules as restrictive for insert to openbell_tenant
    with check (
        of_account is null or exists (select 1 from openbell.accounts a where a.account_id = control_rules.of_account)
    );
create policy platform on control_rules for select to openbell_tenant
    using (organization_id = '00000000-0000-0000-0000-000000000000');
-- An operator works on the rules of the platform, as an organization of all zeros that the transaction names.
create policy operator on control_rules to openbell_operator
    using (organization_id = nullif(current_setting('openbell.organization_id', true), '')::uuid);
create policy find_work on control_rules for select to openbell_executor using (true);
create index if not exists control_rules_of_account on control_rules (of_account) where of_account is not null;
grant select, insert, update on control_rules to openbell_tenant, openbell_operator;
grant select (organization_id, scope, subject, code, of_account, version, updated_at, terms) on control_rules
    to openbell_executor;

-- apart
create table if not exists control_changes (
    organization_id uuid not null,
    change_no bigint generated always as identity,
    scope text not null,
    subject text not null,
    code text not null,
    version integer not null,
    -- JSON texts of the rule before and after; null where there was none or is none any more.
    before text,
    after text,
    reason text,
    principal_type text not null,
    principal_id text not null,
    changed_at timestamptz not null,
    primary key (organization_id, scope, subject, code, version),
    foreign key (organization_id, scope, subject, code) references control_rules
);
call protect_tenant_table('control_changes');
create policy platform on control_changes for select to openbell_tenant
    using (organization_id = '00000000-0000-0000-0000-000000000000');
create policy operator on control_changes to openbell_operator
    using (organization_id = nullif(current_setting('openbell.organization_id', true), '')::uuid);
grant select, insert on control_changes to openbell_tenant, openbell_operator;
create or replace trigger append_only before update or delete or truncate on control_changes
    for each statement execute function refuse_change();

-- apart
-- When commands were last judged by a rule of rates, newest first, no more than its limit: under the account's lock, and
-- locked in the order of the key where several accounts share one.
create table if not exists control_rates (
    organization_id uuid not null,
    scope text not null,
    subject text not null,
    judged timestamptz[] not null,
    primary key (organization_id, scope, subject)
) with (fillfactor = 50);
call protect_tenant_table('control_rates');
grant select, insert, update on control_rates to openbell_tenant;

-- apart
alter table organizations add column if not exists paper_enforcement text not null default 'enforce'
    check (paper_enforcement in ('enforce', 'shadow'));
grant update (paper_enforcement) on organizations to openbell_operator;
grant update (control_epoch) on organizations to openbell_tenant;
grant update (control_epoch) on organizations to openbell_writer;
-- A change for the whole platform begins a new epoch of every organization. To give a function away we must be one that may
-- act as its new owner, for this moment.
grant openbell_writer to current_user;
grant create on schema openbell to openbell_writer;
create or replace function begin_every_epoch() returns void language sql security definer
    set search_path = pg_catalog, openbell, pg_temp as
$$ update openbell.organizations set control_epoch = control_epoch + 1 $$;
alter function begin_every_epoch() owner to openbell_writer;
revoke execute on function begin_every_epoch() from public;
grant execute on function begin_every_epoch() to openbell_operator;
revoke create on schema openbell from openbell_writer;
revoke openbell_writer from current_user;

-- apart
alter table action_states add column if not exists deadline timestamptz;

-- apart
-- Refusals, at the accept step or at the door, are numbered and chained per account as actions are.
alter table account_counters add column if not exists refusal_no bigint not null default 0;
alter table account_counters add column if not exists refusal_head bytea not null
    default decode(repeat('00', 32), 'hex') check (octet_length(refusal_head) = 32);

-- apart
alter table receipts add column if not exists refusal_no bigint;
drop policy if exists refused_only on receipts;
create policy refused_only on receipts as restrictive for insert to openbell_tenant
    with check (verdict = 'REFUSED' and (refusal_no is not null or (intent_id is null and seq is null)));

-- apart
-- outside a transaction
drop index concurrently if exists openbell.receipts_refused;
create unique index concurrently receipts_refused on openbell.receipts (account_id, refusal_no)
    where refusal_no is not null;

-- apart
-- outside a transaction
drop index concurrently if exists openbell.receipts_of_intent;
create index concurrently receipts_of_intent on openbell.receipts (account_id, intent_id) where intent_id is not null;

-- apart
-- The statistics count what was refused before it was recorded; what was skipped at its door has an outcome of its own.
create or replace trigger count_refusal after insert on receipts
    for each row when (new.verdict = 'REFUSED' and new.seq is null) execute function count_refusal();
