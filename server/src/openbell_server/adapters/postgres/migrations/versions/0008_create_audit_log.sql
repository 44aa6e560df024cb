-- What operators do, and a role to do it in: it reads no order and no key's hash, lists organizations, and changes the one
-- that its transaction names. The processes' login is never given it; whoever migrates may take it.

do $$
begin
    create role openbell_operator nologin;
exception when duplicate_object or unique_violation then
    null;
end $$;
grant usage on schema openbell to openbell_operator;
grant openbell_operator to current_user;

-- apart
create table if not exists audit_log (
    organization_id uuid not null references organizations,
    audit_id uuid not null,
    principal_type text not null check (principal_type in ('API_KEY', 'USER', 'SERVICE', 'SYSTEM', 'OPERATOR')),
    principal_id text not null check (principal_id <> ''),
    operation text not null,
    object_id text not null,
    -- The object as JSON, without secrets; null where it was not there before.
    before text,
    after text not null,
    occurred_at timestamptz not null default clock_timestamp(),
    primary key (organization_id, audit_id)
);
create or replace trigger append_only before update or delete or truncate on audit_log
    for each statement execute function refuse_change();
call protect_tenant_table('audit_log');
grant insert on audit_log to openbell_operator;
create policy operator on audit_log for insert to openbell_operator
    with check (organization_id = nullif(current_setting('openbell.organization_id', true), '')::uuid);

-- apart
alter table organizations add column if not exists internal boolean not null default false;
grant select, insert on organizations to openbell_operator;
grant update (disabled, entitlements, internal, control_epoch) on organizations to openbell_operator;
drop policy if exists list_organizations on organizations;
create policy list_organizations on organizations for select to openbell_operator using (true);
drop policy if exists operator on organizations;
create policy operator on organizations to openbell_operator
    using (organization_id = nullif(current_setting('openbell.organization_id', true), '')::uuid);

-- apart
grant select (
    organization_id, api_key_id, key_id, name, environment, permissions, disabled, revoked_at, expires_at, created_at
) on api_keys to openbell_operator;
grant insert on api_keys to openbell_operator;
grant update (disabled, revoked_at) on api_keys to openbell_operator;
drop policy if exists find_key_to_change on api_keys;
create policy find_key_to_change on api_keys for select to openbell_operator using (true);
drop policy if exists operator on api_keys;
create policy operator on api_keys to openbell_operator
    using (organization_id = nullif(current_setting('openbell.organization_id', true), '')::uuid);

-- apart
grant insert on accounts to openbell_operator;
drop policy if exists operator on accounts;
create policy operator on accounts for insert to openbell_operator
    with check (organization_id = nullif(current_setting('openbell.organization_id', true), '')::uuid);

-- apart
grant select on this_incarnation to openbell_operator;
grant insert on account_counters to openbell_operator;
drop policy if exists operator on account_counters;
create policy operator on account_counters for insert to openbell_operator
    with check (organization_id = nullif(current_setting('openbell.organization_id', true), '')::uuid);
