-- Operators: who changed what.

create table audit_log (
    organization_id uuid not null references organizations,
    audit_id uuid not null,
    principal_type text not null check (principal_type in ('API_KEY', 'USER', 'SERVICE', 'SYSTEM', 'OPERATOR')),
    principal_id text not null check (principal_id <> ''),
    operation text not null,
    object_id text not null,
    -- The object as JSON, without secrets; null if it did not exist before.
    before text,
    after text not null,
    occurred_at timestamptz not null default clock_timestamp(),
    primary key (organization_id, audit_id)
);
comment on table audit_log is
    'Every change by an operator, an admin or a key, written in the transaction that makes the change. Append-only.';
create trigger append_only before update or delete or truncate on audit_log
    for each statement execute function refuse_change();
call protect_tenant_table('audit_log');
grant insert on audit_log to openbell_tenant;
grant select, insert on audit_log to openbell_operator;
create policy list_entries on audit_log for select to openbell_operator using (true);
create policy operator on audit_log for insert to openbell_operator
    with check (organization_id = nullif(current_setting('openbell.organization_id', true), '')::uuid);
-- Wrapping a vault object's key anew is a change too.
grant insert on audit_log to openbell_vault;
create policy vault on audit_log for insert to openbell_vault
    with check (organization_id = nullif(current_setting('openbell.organization_id', true), '')::uuid);
