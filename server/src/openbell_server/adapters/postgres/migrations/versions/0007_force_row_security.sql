-- From here on the database itself keeps organizations apart: a transaction sees and writes the rows of the organization it
-- names, and none if it names none. Code that does not name one must not run on this schema any more.

set local search_path = openbell, pg_catalog;

-- The one template of a tenant table's protection; every later table with an organization_id calls it.
create procedure protect_tenant_table(tenant_table regclass) language plpgsql as $$
begin
    execute format('alter table %s enable row level security', tenant_table);
    execute format('alter table %s force row level security', tenant_table);
    execute format(
        'create policy tenant on %s to openbell_tenant
            using (organization_id = nullif(current_setting(''openbell.organization_id'', true), '''')::uuid)',
        tenant_table
    );
end $$;

do $$
declare
    tenant_table text;
begin
    foreach tenant_table in array array[
        'organizations', 'api_keys', 'accounts', 'account_counters', 'orders', 'intent_actions', 'action_states',
        'receipts', 'intent_outbox', 'account_events', 'idempotency_keys', 'executions', 'positions', 'forgotten_orders'
    ] loop
        call protect_tenant_table(format('openbell.%I', tenant_table)::regclass);
    end loop;
    foreach tenant_table in array array[
        'organizations', 'account_counters', 'orders', 'intent_actions', 'action_states', 'receipts', 'intent_outbox',
        'account_events', 'idempotency_keys'
    ] loop
        execute format('create policy accept_step on %I to openbell_writer using (true)', tenant_table);
    end loop;
    foreach tenant_table in array array['accounts', 'account_counters', 'orders', 'action_states'] loop
        execute format('create policy find_work on %I for select to openbell_executor using (true)', tenant_table);
    end loop;
end $$;
create policy find_key on api_keys for select to openbell_keys using (true);
create policy relay on intent_outbox to openbell_relay using (true);
