-- From here on the database itself keeps organizations apart: a transaction sees and writes the rows of the organization it
-- names, and none if it names none. Code that does not name one must not run on this schema any more. One table at a time:
-- whoever holds one lock only is never waited for by those it waits for.

-- The one template of a tenant table's protection; every later table with an organization_id calls it.
create or replace procedure protect_tenant_table(tenant_table regclass) language plpgsql as $$
declare
    earlier name;
begin
    for earlier in select polname from pg_policy where polrelid = tenant_table loop
        execute format('drop policy %I on %s', earlier, tenant_table);
    end loop;
    execute format('alter table %s enable row level security', tenant_table);
    execute format('alter table %s force row level security', tenant_table);
    execute format(
        'create policy tenant on %s to openbell_tenant
            using (organization_id = nullif(current_setting(''openbell.organization_id'', true), '''')::uuid)',
        tenant_table
    );
    -- Numbers and ids are unique per account, whoever's it is: a row for another's account would take one from its owner,
    -- or show by the error that it is taken. So the policy refuses it before any key is looked at.
    if tenant_table <> 'openbell.accounts'::regclass and exists (
        select 1 from pg_attribute where attrelid = tenant_table and attname = 'account_id' and not attisdropped
    ) then
        execute format(
            'create policy own_account on %1$s as restrictive for insert to openbell_tenant
                with check (exists (select 1 from openbell.accounts a where a.account_id = %1$s.account_id))',
            tenant_table
        );
    end if;
end $$;

-- apart
call protect_tenant_table('organizations');
create policy accept_step on organizations to openbell_writer using (true);

-- apart
call protect_tenant_table('api_keys');
create policy find_key on api_keys for select to openbell_keys using (true);

-- apart
call protect_tenant_table('accounts');
create policy find_work on accounts for select to openbell_executor using (true);

-- apart
call protect_tenant_table('account_counters');
create policy accept_step on account_counters to openbell_writer using (true);
create policy find_work on account_counters for select to openbell_executor using (true);

-- apart
call protect_tenant_table('orders');
create policy accept_step on orders to openbell_writer using (true);
create policy find_work on orders for select to openbell_executor using (true);

-- apart
call protect_tenant_table('intent_actions');
create policy accept_step on intent_actions to openbell_writer using (true);

-- apart
call protect_tenant_table('action_states');
create policy accept_step on action_states to openbell_writer using (true);
create policy find_work on action_states for select to openbell_executor using (true);

-- apart
call protect_tenant_table('receipts');
create policy accept_step on receipts to openbell_writer using (true);

-- apart
call protect_tenant_table('intent_outbox');
create policy accept_step on intent_outbox to openbell_writer using (true);
create policy relay on intent_outbox to openbell_relay using (true);

-- apart
call protect_tenant_table('account_events');
create policy accept_step on account_events to openbell_writer using (true);

-- apart
call protect_tenant_table('idempotency_keys');
create policy accept_step on idempotency_keys to openbell_writer using (true);

-- apart
call protect_tenant_table('executions');

-- apart
call protect_tenant_table('positions');

-- apart
call protect_tenant_table('forgotten_orders');
create policy find_work on forgotten_orders for select to openbell_executor using (true);
