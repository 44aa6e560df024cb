-- How long an order may work: a limit of the time control, and what executors need to find accounts with older orders.

alter table symbol_time_controls
    add column if not exists max_resting_millis bigint check (max_resting_millis between 1000 and 2592000000);

-- apart
create index if not exists symbol_time_controls_resting on symbol_time_controls (account_id)
    where max_resting_millis is not null;
grant select (organization_id, account_id, max_resting_millis) on symbol_time_controls to openbell_executor;
drop policy if exists find_work on symbol_time_controls;
create policy find_work on symbol_time_controls for select to openbell_executor using (true);

-- apart
grant select (created_at) on orders to openbell_executor;
