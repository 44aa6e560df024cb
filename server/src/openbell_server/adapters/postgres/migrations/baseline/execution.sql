-- Execution: orders, the state of their actions, their fills at the broker, and positions.

-- The terms that an order may have. Not a CHECK constraint, as the next two are none: PostgreSQL reads and prepares those of
-- a table again for each statement, which was a sixth of the cost of a command. The functions that write for everybody,
-- accept_commands and work_tick, compare these conditions, and a policy does for the one role that writes by itself.
create function are_order_terms(
    symbol text, order_side text, order_type text, quantity numeric, limit_price numeric, stop_price numeric,
    client_reference_id text
) returns boolean language sql immutable parallel safe as $$
    select symbol ~ '^[A-Z0-9./:_-]{1,32}$' and order_side in ('BUY', 'SELL', 'SELL_SHORT')
        and order_type in ('MARKET', 'LIMIT', 'STOP', 'STOP_LIMIT') and quantity > 0
        and (order_type in ('LIMIT', 'STOP_LIMIT')) = (limit_price is not null)
        and (order_type in ('STOP', 'STOP_LIMIT')) = (stop_price is not null)
        and coalesce(limit_price > 0, true) and coalesce(stop_price > 0, true)
        and coalesce(length(client_reference_id) <= 128, true)
$$;
-- What an order may be at the broker.
create function is_order_state(
    filled_quantity numeric, standing text, close_reason text, pending text, certainty text
) returns boolean language sql immutable parallel safe as $$
    select filled_quantity >= 0 and standing in ('NONE', 'WORKING', 'CLOSED')
        and pending in ('NONE', 'NEW', 'REPLACE', 'CANCEL') and certainty in ('CONFIRMED', 'UNKNOWN')
        and (standing = 'CLOSED') = (close_reason is not null)
        and coalesce(
            close_reason in ('FILLED', 'CANCELED', 'EXPIRED', 'REJECTED', 'SKIPPED', 'FAILED', 'RECONCILED_OUT'), true
        )
        and (standing <> 'CLOSED' or (pending = 'NONE' and certainty = 'CONFIRMED'))
$$;
-- The states of an action, and what is known in each of them.
create function is_action_state(
    state text, attempt_id uuid, send_started_at timestamptz, unknown_since timestamptz, settled_at timestamptz
) returns boolean language sql immutable parallel safe as $$
    select state in ('QUEUED', 'DISPATCHING', 'SENT', 'UNKNOWN', 'ACKED', 'REFUSED', 'SKIPPED', 'FAILED', 'ABANDONED')
        and (settled_at is not null) = (state in ('ACKED', 'REFUSED', 'SKIPPED', 'FAILED', 'ABANDONED'))
        and (send_started_at is null) = (state in ('QUEUED', 'SKIPPED'))
        and (attempt_id is null) = (send_started_at is null)
        and (state <> 'UNKNOWN' or unknown_since is not null)
$$;

create table orders (
    organization_id uuid not null,
    account_id uuid not null,
    order_id uuid not null,
    symbol text not null,
    order_side text not null,
    order_type text not null,
    route_strategy text not null,
    quantity numeric not null,
    limit_price numeric,
    stop_price numeric,
    time_in_force text not null,
    client_reference_id text,
    filled_quantity numeric not null default 0,
    filled_value numeric not null default 0,
    standing text not null default 'NONE',
    close_reason text,
    pending text not null default 'NEW',
    certainty text not null default 'CONFIRMED',
    broker_order_ids text[] not null default '{}',
    triggered boolean not null default false,
    terms_version integer not null default 1,
    highest_quantity numeric,
    busted_quantity numeric not null default 0,
    executions_changed boolean not null default false,
    -- An end that the broker reported and close_reason does not show: fills that the broker counts are missing here, or
    -- the order is already full.
    ended text,
    ended_filled numeric not null default 0,
    -- Every change of the order, and every later action of its intent, starts a new one.
    version integer not null default 1,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    primary key (organization_id, account_id, order_id)
) with (fillfactor = 80);
comment on table orders is 'The order of each intent, as facts: its terms, its fills and its state at the broker. Its id is the intent''s.';
create index orders_open on orders (account_id, order_id) where standing <> 'CLOSED';
create index orders_open_of_organization on orders (organization_id, order_id) where standing <> 'CLOSED';
-- Brokers that know no ids of ours report orders by their own. Partial: most orders have no broker id when they are written.
create index orders_named_by_broker on orders using gin (broker_order_ids) where broker_order_ids <> '{}';
call protect_tenant_table('orders');
grant select on orders to openbell_reader;
grant update on orders to openbell_execution;
create policy valid_only on orders as restrictive for update to openbell_execution with check (
    are_order_terms(symbol, order_side, order_type, quantity, limit_price, stop_price, client_reference_id)
    and is_order_state(filled_quantity, standing, close_reason, pending, certainty)
);
grant select, insert, update on orders to openbell_writer;
create policy accept_step on orders to openbell_writer using (true);
grant select (organization_id, account_id, order_id, standing, created_at) on orders to openbell_executor;
create policy find_work on orders for select to openbell_executor using (true);

create table action_states (
    organization_id uuid not null,
    account_id uuid not null,
    action_id uuid not null,
    intent_id uuid not null,
    seq integer not null,
    action_no bigint not null,
    action_type text not null,
    slot smallint not null,
    state text not null,
    -- Which attempt passed the door, and when by the database's clock; set once.
    attempt_id uuid,
    send_started_at timestamptz,
    deadline timestamptz,
    unknown_since timestamptz,
    -- Look-ups while the outcome was unknown: when, and whether the broker had the order.
    probes jsonb not null default '[]',
    -- Sends after the first, and since when an operator should look at the action.
    resends integer not null default 0,
    flagged_at timestamptz,
    -- Orders at the broker that may be this action's, where the broker knows no ids of ours; none is picked by guessing.
    candidates text[] not null default '{}',
    -- The action under whose id the broker knows this one: set where a command came again after a restore lost the first.
    known_as uuid,
    reason_code text,
    broker_code text,
    broker_text text,
    queued_at timestamptz not null,
    updated_at timestamptz not null,
    settled_at timestamptz,
    primary key (account_id, action_id)
) with (fillfactor = 50);
comment on table action_states is
    'The current state of each action; the action itself is append-only. QUEUED to DISPATCHING is the door.';
-- Only settled_at decides membership, so a change of state updates no index.
create index action_states_unsettled on action_states (account_id, action_no) where settled_at is null;
create index action_states_cancels on action_states (account_id, action_no)
    where settled_at is null and action_type = 'CANCEL';
create unique index action_states_of_intent on action_states (account_id, intent_id, seq);
create unique index action_states_known_as on action_states (account_id, known_as) where known_as is not null;
create index action_states_flagged on action_states (account_id) where flagged_at is not null and settled_at is null;
call protect_tenant_table('action_states');
grant select on action_states to openbell_reader;
grant select (account_id, action_id, state) on action_states to openbell_relay;
create policy relay on action_states for select to openbell_relay using (true);
grant update (deadline) on action_states to openbell_tenant;
grant update on action_states to openbell_execution;
create policy valid_only on action_states as restrictive for update to openbell_execution
    with check (is_action_state(state, attempt_id, send_started_at, unknown_since, settled_at));
grant select, insert on action_states to openbell_writer;
create policy accept_step on action_states to openbell_writer using (true);
grant select (
    organization_id, account_id, action_id, intent_id, seq, slot, state, queued_at, send_started_at, unknown_since,
    flagged_at, known_as, updated_at, settled_at, probes
) on action_states to openbell_executor;
create policy find_work on action_states for select to openbell_executor using (true);
grant select (
    organization_id, account_id, action_no, state, queued_at, settled_at, unknown_since, flagged_at
) on action_states to openbell_health;
create policy health on action_states for select to openbell_health using (true);
-- Operators see which actions are in doubt, and of which organization; never the terms of the order.
grant select (
    organization_id, account_id, action_id, intent_id, seq, action_type, state, send_started_at, unknown_since, flagged_at,
    resends, probes, settled_at
) on action_states to openbell_operator;
create policy list_actions on action_states for select to openbell_operator using (true);

-- An action with its state, its order, and the action whose client order id the broker knows the order by. Each `limit 1`
-- forces a look-up by the whole key: a plan that was made while an account had few rows would join all that it has later.
create view tracked_actions with (security_invoker = true) as
select s.organization_id, s.account_id, s.action_id, s.intent_id, s.seq, s.action_no, s.action_type, s.state, s.attempt_id,
    s.send_started_at, s.probes, s.settled_at, coalesce(first.known_as, first.action_id) as order_action_id,
    s.seq > 1 and exists (
        select 1 from (
            -- Apart from settled_at, so that the planner does not read all unsettled actions of the account instead.
            select e.settled_at from action_states e
            where e.account_id = s.account_id and e.intent_id = s.intent_id and e.seq < s.seq
            order by e.intent_id, e.seq
            offset 0
        ) earlier
        where earlier.settled_at is null
    ) as earlier_unsettled,
    o.quantity, o.filled_quantity, o.filled_value, o.standing, o.close_reason, o.pending, o.certainty,
    o.broker_order_ids, o.symbol, o.order_side, o.order_type, o.route_strategy, o.limit_price, o.stop_price,
    o.time_in_force, o.client_reference_id,
    s.unknown_since, s.resends, s.flagged_at, o.triggered, o.terms_version, o.highest_quantity, o.busted_quantity,
    o.executions_changed, o.ended, o.ended_filled
from action_states s
cross join lateral (
    select * from orders o
    where o.organization_id = s.organization_id and o.account_id = s.account_id and o.order_id = s.intent_id
    limit 1
) o
cross join lateral (
    select f.action_id, f.known_as from action_states f
    where f.account_id = s.account_id and f.intent_id = s.intent_id and f.seq = 1
    limit 1
) first;
grant select on tracked_actions to openbell_reader;

-- The CREATE actions of open orders. By account alone, whose index has only open orders; the organization is compared by
-- the row's policy and by every reader of the view.
create view open_orders with (security_invoker = true) as
select t.*, w.updated_at
from (select account_id, order_id, updated_at from orders where standing <> 'CLOSED') w
cross join lateral (
    select * from tracked_actions t
    where t.account_id = w.account_id and t.intent_id = w.order_id and t.seq = 1
    limit 1
) t;
grant select on open_orders to openbell_reader;

create table executions (
    organization_id uuid not null,
    account_id uuid not null,
    execution_id text not null,
    order_id uuid not null,
    quantity numeric not null check (quantity > 0),
    price numeric not null check (price > 0),
    -- In the quote currency of the instrument, negative if it is a rebate; null if the broker does not report fees.
    fee numeric,
    executed_at timestamptz not null,
    recorded_at timestamptz not null,
    -- No foreign key: its check is a statement of its own for each row. work_tick takes the order from its unit; others are
    -- held to it by a policy. Orders are never deleted.
    primary key (account_id, execution_id)
);
comment on table executions is 'Fills that brokers reported. Append-only.';
-- Not the account first: on a table without statistics the planner would use it for look-ups by execution.
create index executions_of_order on executions (order_id, account_id);
create index executions_of_organization on executions (organization_id, recorded_at, execution_id);
create trigger append_only before update or delete or truncate on executions
    for each statement execute function refuse_change();
call protect_tenant_table('executions');
grant select on executions to openbell_tenant;
grant select, insert on executions to openbell_execution;
create policy of_an_order on executions as restrictive for insert to openbell_execution with check (
    exists (
        select 1 from orders o
        where o.organization_id = executions.organization_id and o.account_id = executions.account_id
            and o.order_id = executions.order_id
    )
);

create table execution_changes (
    organization_id uuid not null,
    account_id uuid not null,
    execution_id text not null,
    revision integer not null,
    order_id uuid not null,
    quantity numeric not null check (quantity >= 0),
    price numeric not null check (price >= 0),
    -- Null: the fee stays.
    fee numeric,
    recorded_at timestamptz not null,
    primary key (account_id, execution_id, revision),
    foreign key (organization_id, account_id, order_id) references orders
);
comment on table execution_changes is 'Corrections of fills that brokers reported later; quantity 0 cancels the fill. Append-only.';
create index execution_changes_of_order on execution_changes (account_id, order_id);
create trigger append_only before update or delete or truncate on execution_changes
    for each statement execute function refuse_change();
call protect_tenant_table('execution_changes');
grant select on execution_changes to openbell_tenant;
grant select, insert on execution_changes to openbell_execution;

create table positions (
    organization_id uuid not null,
    account_id uuid not null,
    symbol text not null,
    quantity numeric not null,
    updated_at timestamptz not null,
    primary key (account_id, symbol),
    foreign key (organization_id, account_id) references accounts
) with (fillfactor = 80);
comment on table positions is 'What each account holds: the sum of its changes.';
call protect_tenant_table('positions');
grant select on positions to openbell_reader;
grant insert, update on positions to openbell_execution;

create table position_changes (
    organization_id uuid not null,
    account_id uuid not null,
    change_no bigint generated always as identity,
    symbol text not null,
    -- OPENING and UNEXPLAINED: where the broker's position differed from what the fills add up to.
    cause text not null check (cause in ('EXECUTION', 'EXTERNAL_ORDER', 'OPENING', 'UNEXPLAINED')),
    intent_id uuid check ((intent_id is not null) = (cause = 'EXECUTION')),
    change numeric not null check (change <> 0),
    quantity numeric not null,
    -- Of the fills of an external order, negative for sells; null: unknown.
    value numeric check (value is null or cause = 'EXTERNAL_ORDER'),
    -- The broker's, of the whole position after it was adopted; null: unknown.
    average_price numeric check (average_price is null or cause in ('OPENING', 'UNEXPLAINED')),
    changed_at timestamptz not null,
    -- No foreign key: the policy own_account does the same for everybody but work_tick.
    primary key (account_id, change_no)
);
comment on table position_changes is 'Each change of a position, its cause and the position after it. Append-only.';
create index position_changes_of_symbol on position_changes (account_id, symbol, change_no);
create trigger append_only before update or delete or truncate on position_changes
    for each statement execute function refuse_change();
call protect_tenant_table('position_changes');
grant select on position_changes to openbell_reader;
grant select, insert on position_changes to openbell_execution;

create table external_orders (
    organization_id uuid not null,
    account_id uuid not null,
    broker_order_id text not null,
    -- The order's place in the account's list: the account's lock is held when one is found.
    number bigint generated by default as identity,
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
    -- Quantity multiplied by price, of all fills; null: unknown.
    filled_value numeric,
    accepted_at timestamptz not null,
    found_at timestamptz not null,
    updated_at timestamptz not null,
    primary key (account_id, broker_order_id),
    foreign key (organization_id, account_id) references accounts
);
comment on table external_orders is 'Orders at the broker that were not submitted through Openbell, as the broker reports them.';
create unique index external_orders_listed on external_orders (account_id, number);
create index external_orders_open on external_orders (account_id) where status in ('WORKING', 'DONE_FOR_DAY');
call protect_tenant_table('external_orders');
grant select on external_orders to openbell_reader;
grant insert, update on external_orders to openbell_execution;
