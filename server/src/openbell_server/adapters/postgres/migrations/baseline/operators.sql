-- Operators: who changed what.

create table audit_log (
    -- All zeros: the platform itself.
    organization_id uuid not null,
    -- The trigger below sets the number, the time, the login and the hash, whatever the statement names.
    entry_no bigint not null,
    audit_id uuid not null,
    occurred_at timestamptz not null,
    -- Who was connected to the database (session_user); the principal is whom that login named.
    login text not null,
    principal_type text not null check (principal_type in ('API_KEY', 'USER', 'SERVICE', 'SYSTEM', 'OPERATOR')),
    principal_id text not null check (principal_id <> ''),
    operation text not null,
    object_id text not null,
    -- The object as JSON, without secrets; null if it did not exist before. Text, because the hash covers every byte.
    before text,
    after text not null,
    hash bytea not null check (octet_length(hash) = 32),
    -- The only key: no insert can take a number and then be left out as a duplicate.
    primary key (organization_id, entry_no)
);
comment on table audit_log is
    'Every change by an operator, an admin or a key, written in the transaction that makes the change. Append-only, numbered without gaps and chained by hash per organization.';
create trigger append_only before update or delete or truncate on audit_log
    for each statement execute function refuse_change();
call protect_tenant_table('audit_log');
-- Operators read every log, the api that of the organization which the transaction names. Rotating the vault's key is a
-- change too.
grant insert (organization_id, audit_id, principal_type, principal_id, operation, object_id, before, after) on audit_log
    to openbell_tenant, openbell_execution, openbell_delivery, openbell_operator, openbell_vault;
grant select on audit_log to openbell_operator, openbell_tenant;
-- Each role records its own kind of principal: nobody but an operator's login writes a row in the name of an operator.
-- The api also records a halt because of a missed heartbeat.
create policy callers on audit_log as restrictive for insert to openbell_tenant
    with check (
        principal_type in ('API_KEY', 'USER', 'SERVICE') or (principal_type = 'SYSTEM' and principal_id = 'heartbeat')
    );
create policy processes on audit_log as restrictive for insert to openbell_execution, openbell_delivery
    with check (principal_type = 'SYSTEM');
create policy list_entries on audit_log for select to openbell_operator using (true);
create policy operator on audit_log for insert to openbell_operator
    with check (organization_id = nullif(current_setting('openbell.organization_id', true), '')::uuid);
create policy vault on audit_log for insert to openbell_vault
    with check (organization_id = nullif(current_setting('openbell.organization_id', true), '')::uuid);
create policy rotation on audit_log as restrictive for insert to openbell_vault with check (operation = 'vault rotate');

create table audit_heads (
    organization_id uuid primary key,
    entry_no bigint not null default 1,
    chain_head bytea not null default decode(repeat('00', 32), 'hex') check (octet_length(chain_head) = 32)
) with (fillfactor = 50);
comment on table audit_heads is
    'The number and the hash of the last entry of each organization''s audit log. Its row lock puts the entries in order.';
call protect_tenant_table('audit_heads');
grant select, insert, update on audit_heads to openbell_writer;
create policy chain on audit_heads to openbell_writer
    using (organization_id = nullif(current_setting('openbell.organization_id', true), '')::uuid);
grant select on audit_heads to openbell_operator;
create policy list_entries on audit_heads for select to openbell_operator using (true);

-- Numbers an entry and chains it to the one before. The head stays locked until the transaction ends, so the insert comes
-- after every other lock that the transaction waits for. domain/access/audit_chain.py computes the same hash.
create function chain_audit_entry() returns trigger language plpgsql as $$
declare
    v_head bytea;
begin
    insert into audit_heads as h (organization_id) values (new.organization_id)
    on conflict (organization_id) do update set entry_no = h.entry_no + 1
    returning h.entry_no, h.chain_head into new.entry_no, v_head;
    new.occurred_at := clock_timestamp();
    new.login := session_user;
    new.hash := sha256(v_head || convert_to(
        concat(
            canonical_field(new.organization_id::text), canonical_field(new.entry_no::text),
            canonical_field(new.audit_id::text),
            canonical_field(to_char(new.occurred_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')),
            canonical_field(new.login), canonical_field(new.principal_type), canonical_field(new.principal_id),
            canonical_field(new.operation), canonical_field(new.object_id), canonical_field(new.before),
            canonical_field(new.after)
        ),
        'UTF8'
    ));
    update audit_heads set chain_head = new.hash where organization_id = new.organization_id;
    return new;
end $$;
call run_as('openbell_writer', 'chain_audit_entry', current_user);
create trigger chain before insert on audit_log for each row execute function chain_audit_entry();
