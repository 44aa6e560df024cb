-- What was asked, how it stands, and what happened. Foreign keys always name organization and account. The narrow rows that
-- only accept_commands writes beside their action (receipts, outbox, events, idempotency keys) carry none: the function is
-- their guard, and a check per row would cost more than the row.

set local search_path = openbell, pg_catalog;

-- The order of an intent as facts; its id is the intent's.
create table orders (
    organization_id uuid not null,
    account_id uuid not null,
    order_id uuid not null,
    symbol text not null check (symbol ~ '^[A-Z0-9./:_-]{1,32}$'),
    order_side text not null check (order_side in ('BUY', 'SELL', 'SELL_SHORT')),
    order_type text not null check (order_type in ('MARKET', 'LIMIT', 'STOP', 'STOP_LIMIT')),
    route_strategy text not null,
    quantity numeric not null check (quantity > 0),
    limit_price numeric check (limit_price > 0),
    stop_price numeric check (stop_price > 0),
    time_in_force text not null,
    client_reference_id text check (length(client_reference_id) <= 128),
    filled_quantity numeric not null default 0 check (filled_quantity >= 0),
    filled_value numeric not null default 0,
    standing text not null default 'NONE' check (standing in ('NONE', 'WORKING', 'CLOSED')),
    close_reason text check (
        close_reason in ('FILLED', 'CANCELED', 'EXPIRED', 'REJECTED', 'SKIPPED', 'FAILED', 'RECONCILED_OUT')
    ),
    pending text not null default 'NEW' check (pending in ('NONE', 'NEW', 'REPLACE', 'CANCEL')),
    certainty text not null default 'CONFIRMED' check (certainty in ('CONFIRMED', 'UNKNOWN')),
    broker_order_ids text[] not null default '{}',
    created_at timestamptz not null,
    updated_at timestamptz not null,
    primary key (organization_id, account_id, order_id),
    foreign key (organization_id, account_id) references accounts,
    check ((order_type in ('LIMIT', 'STOP_LIMIT')) = (limit_price is not null)),
    check ((order_type in ('STOP', 'STOP_LIMIT')) = (stop_price is not null)),
    check ((standing = 'CLOSED') = (close_reason is not null)),
    check (standing <> 'CLOSED' or (pending = 'NONE' and certainty = 'CONFIRMED'))
) with (fillfactor = 80);
create index orders_open on orders (account_id, order_id) where standing <> 'CLOSED';

create table intent_actions (
    organization_id uuid not null,
    account_id uuid not null,
    intent_id uuid not null,
    seq integer not null check (seq > 0),
    action_id uuid not null,
    action_no bigint not null,
    -- First action number of the set this action was accepted with: the chain takes one step per set.
    chained_from bigint not null check (chained_from <= action_no),
    action_type text not null check (action_type in ('CREATE', 'REPLACE', 'CANCEL')),
    symbol text not null,
    order_side text not null,
    order_type text not null,
    route_strategy text not null,
    quantity numeric not null,
    limit_price numeric,
    stop_price numeric,
    time_in_force text not null,
    client_reference_id text,
    principal_type text not null check (principal_type in ('API_KEY', 'USER', 'SERVICE', 'SYSTEM')),
    principal_id text not null,
    receipt_id uuid not null,
    created_at timestamptz not null,
    hash bytea not null check (octet_length(hash) = 32),
    primary key (organization_id, account_id, intent_id, seq),
    unique (organization_id, account_id, action_no),
    foreign key (organization_id, account_id, intent_id) references orders (organization_id, account_id, order_id),
    check ((action_type = 'CREATE') = (seq = 1))
);

-- Where an action stands: the side row of an append-only record. QUEUED → DISPATCHING is the door.
create table action_states (
    organization_id uuid not null,
    account_id uuid not null,
    action_id uuid not null,
    intent_id uuid not null,
    seq integer not null,
    action_no bigint not null,
    action_type text not null,
    slot smallint not null,
    state text not null check (
        state in ('QUEUED', 'DISPATCHING', 'SENT', 'UNKNOWN', 'ACKED', 'REFUSED', 'SKIPPED', 'FAILED', 'ABANDONED')
    ),
    -- Who passed the door, and when by the database's clock; set once.
    attempt_id uuid,
    send_started_at timestamptz,
    unknown_since timestamptz,
    -- Look-ups made while the outcome was unknown: when, and whether the broker had the order.
    probes jsonb not null default '[]',
    reason_code text,
    broker_code text,
    broker_text text,
    queued_at timestamptz not null,
    updated_at timestamptz not null,
    settled_at timestamptz,
    primary key (account_id, action_id),
    foreign key (organization_id, account_id, intent_id, seq) references intent_actions,
    check ((settled_at is not null) = (state in ('ACKED', 'REFUSED', 'SKIPPED', 'FAILED', 'ABANDONED'))),
    check ((send_started_at is null) = (state in ('QUEUED', 'SKIPPED'))),
    check ((attempt_id is null) = (send_started_at is null)),
    check (state <> 'UNKNOWN' or unknown_since is not null)
) with (fillfactor = 50);
-- Only settled_at decides membership, so claims and state changes stay on their page.
create index action_states_unsettled on action_states (account_id, action_no) where settled_at is null;
create index action_states_cancels on action_states (account_id, action_no)
    where settled_at is null and action_type = 'CANCEL';
create unique index action_states_of_intent on action_states (account_id, intent_id, seq);

create table receipts (
    organization_id uuid not null,
    account_id uuid not null,
    receipt_id uuid not null,
    intent_id uuid,
    seq integer,
    verdict text not null check (verdict in ('PASSED', 'REFUSED')),
    -- Text, not jsonb: it is hashed byte for byte.
    body text not null,
    hash bytea not null check (octet_length(hash) = 32),
    created_at timestamptz not null,
    primary key (organization_id, account_id, receipt_id)
);

-- A hint for the relay, narrow, without payload. The partial index asks only for resolved_at, so that a claim changes no
-- indexed column; every claim must repeat `resolved_at is null`.
create table intent_outbox (
    outbox_id bigint generated always as identity primary key,
    organization_id uuid not null,
    account_id uuid not null,
    slot smallint not null,
    action_id uuid not null,
    status text not null default 'pending' check (status in ('pending', 'processing', 'completed', 'failed')),
    attempts integer not null default 0,
    claim_token bigint not null default 0,
    claimed_at timestamptz,
    available_at timestamptz not null,
    created_at timestamptz not null,
    resolved_at timestamptz,
    check ((status = 'processing') = (claimed_at is not null)),
    check ((status in ('completed', 'failed')) = (resolved_at is not null))
) with (fillfactor = 50);
create index intent_outbox_unresolved on intent_outbox (outbox_id) where resolved_at is null;

create table account_events (
    organization_id uuid not null,
    account_id uuid not null,
    event_no bigint not null,
    kind smallint not null,
    intent_id uuid not null,
    seq integer not null,
    -- Null for an action just recorded: the reader joins the action.
    body text,
    occurred_at timestamptz not null,
    primary key (account_id, event_no)
);

create table idempotency_keys (
    organization_id uuid not null,
    account_id uuid not null,
    key text not null check (length(key) between 1 and 255),
    command_hash bytea not null,
    intent_id uuid not null,
    seq integer not null,
    created_at timestamptz not null,
    primary key (account_id, key)
);

create table executions (
    organization_id uuid not null,
    account_id uuid not null,
    execution_id text not null,
    order_id uuid not null,
    quantity numeric not null check (quantity > 0),
    price numeric not null check (price > 0),
    executed_at timestamptz not null,
    recorded_at timestamptz not null,
    primary key (account_id, execution_id),
    foreign key (organization_id, account_id, order_id) references orders
);
create index executions_of_order on executions (account_id, order_id);

create table positions (
    organization_id uuid not null,
    account_id uuid not null,
    symbol text not null,
    quantity numeric not null,
    updated_at timestamptz not null,
    primary key (account_id, symbol),
    foreign key (organization_id, account_id) references accounts
) with (fillfactor = 80);

-- An action with where it stands, its order, and the action whose client order id the broker knows the order by.
create view tracked_actions with (security_invoker = true) as
select s.organization_id, s.account_id, s.action_id, s.intent_id, s.seq, s.action_no, s.action_type, s.state, s.attempt_id,
    s.send_started_at, s.probes, s.settled_at, first.action_id as order_action_id,
    exists (
        select 1 from action_states e
        where e.account_id = s.account_id and e.intent_id = s.intent_id and e.seq < s.seq and e.settled_at is null
    ) as earlier_unsettled,
    o.quantity, o.filled_quantity, o.filled_value, o.standing, o.close_reason, o.pending, o.certainty,
    o.broker_order_ids, o.symbol, o.order_side, o.order_type, o.route_strategy, o.limit_price, o.stop_price,
    o.time_in_force, o.client_reference_id
from action_states s
join orders o
    on o.organization_id = s.organization_id and o.account_id = s.account_id and o.order_id = s.intent_id
join action_states first on first.account_id = s.account_id and first.intent_id = s.intent_id and first.seq = 1;

create function refuse_change() returns trigger language plpgsql as $$
begin
    raise exception '% is append-only', tg_table_name using errcode = 'OB001';
end $$;

create trigger append_only before update or delete or truncate on intent_actions
    for each statement execute function refuse_change();
create trigger append_only before update or delete or truncate on receipts
    for each statement execute function refuse_change();
create trigger append_only before update or delete or truncate on account_events
    for each statement execute function refuse_change();
create trigger append_only before update or delete or truncate on executions
    for each statement execute function refuse_change();
