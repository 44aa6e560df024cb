-- What it takes to tell the truth about an order whatever its broker does: facts of rare events, orders that are not ours,
-- and accounts that stopped by themselves.

alter table orders add column if not exists triggered boolean not null default false;
alter table orders add column if not exists terms_version integer not null default 1;
alter table orders add column if not exists highest_quantity numeric;
alter table orders add column if not exists busted_quantity numeric not null default 0;
alter table orders add column if not exists executions_changed boolean not null default false;
-- An end that the broker told where the close reason does not say it: fills that it counts are missing, or the order is full.
alter table orders add column if not exists ended text;
alter table orders add column if not exists ended_filled numeric not null default 0;
-- Orders of brokers that know no ids of ours are found by the broker's own.
create index if not exists orders_of_broker on orders using gin (broker_order_ids);

-- apart
-- Writes after the first, and since when somebody should look at it.
alter table action_states add column if not exists resends integer not null default 0;
alter table action_states add column if not exists flagged_at timestamptz;
create index if not exists action_states_flagged on action_states (account_id) where flagged_at is not null and settled_at is null;
grant select (flagged_at, unknown_since) on action_states to openbell_executor;

-- apart
-- What a broker says of an execution afterwards: quantity 0 takes it back.
create table if not exists execution_changes (
    organization_id uuid not null,
    account_id uuid not null,
    execution_id text not null,
    revision integer not null,
    order_id uuid not null,
    quantity numeric not null check (quantity >= 0),
    price numeric not null check (price >= 0),
    recorded_at timestamptz not null,
    primary key (account_id, execution_id, revision),
    foreign key (organization_id, account_id, order_id) references orders
);
create index if not exists execution_changes_of_order on execution_changes (account_id, order_id);
create or replace trigger append_only before update or delete or truncate on execution_changes
    for each statement execute function refuse_change();
call protect_tenant_table('execution_changes');
grant select, insert on execution_changes to openbell_tenant;

-- apart
-- Orders that a broker has and nobody asked for here, as it tells them.
create table if not exists external_orders (
    organization_id uuid not null,
    account_id uuid not null,
    broker_order_id text not null,
    client_order_id text,
    symbol text not null,
    order_side text not null,
    order_type text not null,
    quantity numeric,
    limit_price numeric,
    stop_price numeric,
    time_in_force text,
    status text not null,
    filled_quantity numeric not null,
    accepted_at timestamptz not null,
    found_at timestamptz not null,
    updated_at timestamptz not null,
    primary key (account_id, broker_order_id),
    foreign key (organization_id, account_id) references accounts
);
call protect_tenant_table('external_orders');
grant select, insert, update on external_orders to openbell_tenant;

-- apart
-- Why an account sends nothing but cancels until an operator lifts it.
alter table account_counters add column if not exists halt_code text;
alter table account_counters add column if not exists halt_detail text;
alter table account_counters add column if not exists halted_at timestamptz;
grant select (halt_code) on account_counters to openbell_executor;

-- apart
create or replace view tracked_actions with (security_invoker = true) as
select s.organization_id, s.account_id, s.action_id, s.intent_id, s.seq, s.action_no, s.action_type, s.state, s.attempt_id,
    s.send_started_at, s.probes, s.settled_at, coalesce(first.known_as, first.action_id) as order_action_id,
    exists (
        select 1 from action_states e
        where e.account_id = s.account_id and e.intent_id = s.intent_id and e.seq < s.seq and e.settled_at is null
    ) as earlier_unsettled,
    o.quantity, o.filled_quantity, o.filled_value, o.standing, o.close_reason, o.pending, o.certainty,
    o.broker_order_ids, o.symbol, o.order_side, o.order_type, o.route_strategy, o.limit_price, o.stop_price,
    o.time_in_force, o.client_reference_id,
    s.unknown_since, s.resends, s.flagged_at, o.triggered, o.terms_version, o.highest_quantity, o.busted_quantity,
    o.executions_changed, o.ended, o.ended_filled
from action_states s
join orders o
    on o.organization_id = s.organization_id and o.account_id = s.account_id and o.order_id = s.intent_id
join action_states first on first.account_id = s.account_id and first.intent_id = s.intent_id and first.seq = 1;
