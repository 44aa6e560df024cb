-- The vault: what accounts sign in with, sealed. Whoever writes an object cannot read it; the executors' login alone may
-- take the role that can, and only the executors have the key.

do $$
begin
    create role openbell_vault nologin;
exception when duplicate_object or unique_violation then
    null;
end $$;
grant usage on schema openbell to openbell_vault;

-- apart
create table if not exists vault_objects (
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
create index if not exists vault_objects_by_key on vault_objects (key_id);
call protect_tenant_table('vault_objects');
grant insert on vault_objects to openbell_tenant;
grant select, update (key_id, wrapped_key) on vault_objects to openbell_vault;
create policy vault on vault_objects to openbell_vault using (true);
-- The worker of the accounts' queue destroys objects that no credential needs any more.
grant select (organization_id, account_id, credential_id, version), delete on vault_objects to openbell_relay;
create policy relay on vault_objects to openbell_relay using (true);

-- apart
-- Whoever wraps keys anew says so in the audit log of the organization that the transaction names.
grant insert on audit_log to openbell_vault;
drop policy if exists vault on audit_log;
create policy vault on audit_log for insert to openbell_vault
    with check (organization_id = nullif(current_setting('openbell.organization_id', true), '')::uuid);
