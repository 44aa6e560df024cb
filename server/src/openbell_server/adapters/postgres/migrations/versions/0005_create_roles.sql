-- Who may do what. The platform's login owns nothing and inherits nothing: every transaction takes one of these roles, and
-- with it the organization it works for. Roles belong to the whole server, so another database may have made them.

set local search_path = openbell, pg_catalog;

do $$
declare
    role_name text;
begin
    foreach role_name in array array[
        -- Everything of one organization, the one that the transaction names.
        'openbell_tenant',
        -- May run the accept step, and nothing else.
        'openbell_accept',
        -- Whose rights the accept step has; nobody acts as it.
        'openbell_writer',
        -- Find an API key before its organization is known.
        'openbell_keys',
        -- Claim and resolve outbox rows.
        'openbell_relay',
        -- Find accounts that need work, hold slots; sees no terms of any order.
        'openbell_executor'
    ] loop
        begin
            execute format('create role %I nologin', role_name);
        exception when duplicate_object or unique_violation then
            null;
        end;
        execute format('grant usage on schema openbell to %I', role_name);
    end loop;
end $$;

grant select, insert on organizations, api_keys, accounts to openbell_tenant;
grant select, insert, update on account_counters, positions to openbell_tenant;
grant select, update on orders, action_states to openbell_tenant;
grant select, insert on account_events, executions to openbell_tenant;
grant select on intent_actions, receipts, idempotency_keys, tracked_actions to openbell_tenant;

grant select on organizations to openbell_writer;
grant select, update on account_counters to openbell_writer;
grant select, insert, update on orders to openbell_writer;
grant select, insert on intent_actions, action_states, receipts, intent_outbox, account_events, idempotency_keys
    to openbell_writer;

grant select on api_keys to openbell_keys;
grant select, update on intent_outbox to openbell_relay;
grant select (organization_id, account_id, broker, slot) on accounts to openbell_executor;
grant select (
    organization_id, account_id, action_id, intent_id, seq, slot, state, queued_at, send_started_at, updated_at,
    settled_at, probes
) on action_states to openbell_executor;
grant select (organization_id, account_id, order_id, standing) on orders to openbell_executor;
grant select, insert, update, delete on executors to openbell_executor;
grant select, update on slot_leases to openbell_executor;

-- Every login may ask which schema this is, before it takes a role.
grant usage on schema public to public;
grant select on public.alembic_version to public;

-- A function's new owner must be one that we may act as, and must be allowed to create in its schema, for this moment.
grant openbell_writer to current_user;
grant create on schema openbell to openbell_writer;
revoke execute on function accept_commands from public;
grant execute on function accept_commands to openbell_accept;
alter function accept_commands security definer;
alter function accept_commands owner to openbell_writer;
revoke create on schema openbell from openbell_writer;
revoke openbell_writer from current_user;

-- Readiness writes here: a server that answers and cannot write is not ready.
create table write_checks (
    only_row boolean primary key default true check (only_row),
    written_at timestamptz not null
) with (fillfactor = 20);
insert into write_checks (written_at) values (clock_timestamp());
grant select, update on write_checks to openbell_tenant;
