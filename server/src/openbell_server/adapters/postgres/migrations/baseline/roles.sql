-- Roles: the schema, its roles, and the templates that protect its tables and functions.

create schema if not exists openbell;
set local search_path = openbell, pg_catalog;

-- The login of a process owns nothing and inherits nothing: each transaction takes one of these roles, and with it the
-- organization that it works for. Roles belong to the whole PostgreSQL server, so another database may have created them.
do $$
declare
    role_name text;
begin
    foreach role_name in array array[
        -- Reads the accounts, orders and events of one organization: the one that the transaction names.
        'openbell_reader',
        -- The next three may do the same, and write for that organization. The api: what callers manage.
        'openbell_tenant',
        -- Executors: orders, executions and positions.
        'openbell_execution',
        -- The relay: how far webhooks were delivered, and that a credential expires.
        'openbell_delivery',
        -- Runs accept_commands, and nothing else.
        'openbell_accept',
        -- Owns the functions that write for others; no process acts as this role.
        'openbell_writer',
        -- Owns the functions that record the work of executors in sets; no process acts as this role.
        'openbell_worker',
        -- Finds an API key, or the organization of a token, before the organization is known.
        'openbell_keys',
        -- Claims and resolves outbox rows, prunes events, sends webhooks.
        'openbell_relay',
        -- Finds accounts that need work and leases slots; cannot read the terms of an order.
        'openbell_executor',
        -- Lists what operators need across organizations and changes the one that its transaction names. Cannot read
        -- orders or key hashes. Processes do not receive it; whoever migrates may take it.
        'openbell_operator',
        -- Counts what waits, failed or was halted, for metrics and doctor; reads ids, states and times.
        'openbell_health',
        -- Reads sealed credentials. Only the executors' login receives it, and only executors have the key.
        'openbell_vault',
        -- Keeps the sessions of the console, and reads no other table.
        'openbell_console'
    ] loop
        begin
            execute format('create role %I nologin', role_name);
        exception when duplicate_object or unique_violation then
            null;
        end;
        execute format('grant usage on schema openbell to %I', role_name);
    end loop;
end $$;
grant openbell_reader to openbell_tenant, openbell_execution, openbell_delivery;
-- Who migrates may run the commands of operators.
grant openbell_operator, openbell_execution, openbell_executor to current_user;

-- Every login may read which revision the schema has, before it takes a role.
grant usage on schema public to public;
grant select on public.alembic_version to public;

-- Protects a table that has an organization_id: a transaction reads and writes only the rows of the organization that it
-- names, and none if it names none. Every tenant table calls this. It may run twice on the same table.
create procedure protect_tenant_table(tenant_table regclass) language plpgsql as $$
declare
    earlier name;
begin
    for earlier in select polname from pg_policy where polrelid = tenant_table loop
        execute format('drop policy %I on %s', earlier, tenant_table);
    end loop;
    execute format('alter table %s enable row level security', tenant_table);
    execute format('alter table %s force row level security', tenant_table);
    execute format(
        'create policy tenant on %s to openbell_reader
            using (organization_id = nullif(current_setting(''openbell.organization_id'', true), '''')::uuid)',
        tenant_table
    );
    -- Numbers and ids are unique per account. A row for an account of another organization would take a number from its
    -- owner, or show by the error that the number is taken. The policy rejects the row before any key is checked.
    if tenant_table is distinct from to_regclass('openbell.accounts') and exists (
        select 1 from pg_attribute where attrelid = tenant_table and attname = 'account_id' and not attisdropped
    ) then
        execute format(
            'create policy own_account on %1$s as restrictive for insert to openbell_reader
                with check (exists (select 1 from openbell.accounts a where a.account_id = %1$s.account_id))',
            tenant_table
        );
    end if;
end $$;

-- Makes a function run with the rights of its owner, for these callers only. The caller of a trigger function is the role
-- that creates the trigger.
create procedure run_as(owner name, definer_function regproc, variadic callers name[]) language plpgsql as $$
declare
    caller name;
begin
    -- The new owner of a function must be a role that we may act as, and may create in the schema, for this moment.
    execute format('grant %I to %I', owner, current_user);
    execute format('grant create on schema openbell to %I', owner);
    execute format('alter function %s security definer', definer_function);
    execute format('alter function %s set search_path = pg_catalog, openbell, pg_temp', definer_function);
    execute format('alter function %s owner to %I', definer_function, owner);
    execute format('revoke execute on function %s from public', definer_function);
    foreach caller in array callers loop
        execute format('grant execute on function %s to %I', definer_function, caller);
    end loop;
    execute format('revoke create on schema openbell from %I', owner);
    execute format('revoke %I from %I', owner, current_user);
end $$;

-- The trigger of append-only tables.
create function refuse_change() returns trigger language plpgsql as $$
begin
    raise exception '% is append-only', tg_table_name using errcode = 'OB001';
end $$;

create table write_checks (
    only_row boolean primary key default true check (only_row),
    written_at timestamptz not null
) with (fillfactor = 20);
comment on table write_checks is
    'One row that the readiness check updates: a server that answers but cannot write is not ready.';
insert into write_checks (written_at) values (clock_timestamp());
grant select, update on write_checks to openbell_reader;
