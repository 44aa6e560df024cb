-- Intents: what callers submitted, in order, with a receipt of each decision. Rows that only accept_commands writes have no
-- foreign keys: the function takes each from the row that it refers to, under the account's lock, and nothing of them is
-- ever deleted. A check per row would lock rows that are there anyway, and cost more than the row. For the same reason
-- intent_actions has no CHECK constraints: they would repeat what accept_commands decides.

-- The low fill factor keeps the many updates of a row on one page. At 15 % every reader found dead rows to remove.
create table account_counters (
    organization_id uuid not null,
    account_id uuid primary key,
    slot smallint not null,
    -- Each change of a control at the scope of the account or one of its symbols starts a new epoch.
    control_epoch bigint not null default 1,
    action_no bigint not null default 0,
    -- Head of the chain over the hashes of the account's actions and receipts; it starts as 32 zero bytes.
    chain_head bytea not null default decode(repeat('00', 32), 'hex') check (octet_length(chain_head) = 32),
    -- Refusals, at the accept step or at the door, are numbered and chained as actions are.
    refusal_no bigint not null default 0,
    refusal_head bytea not null default decode(repeat('00', 32), 'hex') check (octet_length(refusal_head) = 32),
    event_no bigint not null default 0,
    -- Events up to the floor are pruned; from there to the newest there is every one. The newest pruned event happened at
    -- event_floor_at: a reader that starts later misses nothing.
    event_floor bigint not null default 0 check (event_floor between 0 and event_no),
    event_floor_at timestamptz,
    -- The epoch of the incarnation in which the account was last compared with its broker; no door opens in another.
    recovered_epoch bigint not null default 1,
    -- Up to when the account's list at the broker was read, and after which event reconciliation skips the account because
    -- nothing more can happen to its orders.
    reconciled_at timestamptz,
    reconciled_event_no bigint not null default 0,
    -- When positions were last taken from the broker; null: never.
    positions_as_of timestamptz,
    -- Why the account sends nothing but cancels until an operator resumes it, and when an operator last did.
    halt_code text,
    halt_detail text,
    halted_at timestamptz,
    resumed_at timestamptz,
    foreign key (organization_id, account_id) references accounts
) with (fillfactor = 50);
comment on table account_counters is
    'One row per account, and its lock: a transaction that numbers an action or an event locks the row, so numbers have no gaps and follow the order of commits.';
create index account_counters_recovered on account_counters (recovered_epoch);
call protect_tenant_table('account_counters');
grant select on account_counters to openbell_reader;
grant insert, update (control_epoch, refusal_no, refusal_head) on account_counters to openbell_tenant;
grant update (
    control_epoch, refusal_no, refusal_head, recovered_epoch, reconciled_at, reconciled_event_no, positions_as_of,
    halt_code, halt_detail, halted_at
) on account_counters to openbell_execution;
grant update (control_epoch) on account_counters to openbell_delivery;
grant select, update on account_counters to openbell_writer;
create policy accept_step on account_counters to openbell_writer using (true);
grant select (account_id, slot, event_no, recovered_epoch, reconciled_event_no, positions_as_of, halt_code)
    on account_counters to openbell_executor;
create policy find_work on account_counters for select to openbell_executor using (true);
grant select (organization_id, account_id, event_no) on account_counters to openbell_relay;
create policy relay on account_counters for select to openbell_relay using (true);
grant select (organization_id, account_id, event_no, halt_code) on account_counters to openbell_health;
create policy health on account_counters for select to openbell_health using (true);
grant select (organization_id, account_id, control_epoch, event_no, halt_code, halt_detail, halted_at, resumed_at), insert,
    update (control_epoch, halt_code, halt_detail, halted_at, resumed_at) on account_counters to openbell_operator;
create policy list_accounts on account_counters for select to openbell_operator using (true);
create policy operator on account_counters to openbell_operator
    using (organization_id = nullif(current_setting('openbell.organization_id', true), '')::uuid);

create table intent_actions (
    organization_id uuid not null,
    account_id uuid not null,
    intent_id uuid not null,
    seq integer not null,
    action_id uuid not null,
    action_no bigint not null,
    -- The first action number of the batch that this action was accepted with: the chain takes one step per batch.
    chained_from bigint not null,
    action_type text not null,
    symbol text not null,
    order_side text not null,
    order_type text not null,
    route_strategy text not null,
    quantity numeric not null,
    limit_price numeric,
    stop_price numeric,
    time_in_force text not null,
    client_reference_id text,
    principal_type text not null,
    principal_id text not null,
    receipt_id uuid not null,
    created_at timestamptz not null,
    hash bytea not null,
    primary key (organization_id, account_id, intent_id, seq),
    unique (organization_id, account_id, action_no)
);
comment on table intent_actions is
    'Every accepted command with a full snapshot of its order''s terms. Append-only and chained by hash.';
-- For the filters of lists. None begins with the account: on a table without statistics the planner would use them for
-- look-ups by the account and another column.
create index intent_actions_of_symbol on intent_actions (symbol, account_id, action_no);
create index intent_actions_of_reference on intent_actions (client_reference_id, account_id, action_no)
    where client_reference_id is not null;
create index intent_actions_of_type on intent_actions (action_type, account_id, action_no) where action_type <> 'CREATE';
-- The intents of an organization in the order of their ids.
create index intent_actions_first on intent_actions (organization_id, intent_id) where seq = 1;
create trigger append_only before update or delete or truncate on intent_actions
    for each statement execute function refuse_change();
call protect_tenant_table('intent_actions');
grant select on intent_actions to openbell_reader;
grant select, insert on intent_actions to openbell_writer;
create policy accept_step on intent_actions to openbell_writer using (true);

create table receipts (
    organization_id uuid not null,
    account_id uuid not null,
    receipt_id uuid not null,
    intent_id uuid,
    seq integer,
    -- Set for refusals only.
    refusal_no bigint,
    verdict text not null check (verdict in ('PASSED', 'REFUSED')),
    -- Text, not jsonb: it is hashed byte for byte.
    body text not null,
    hash bytea not null check (octet_length(hash) = 32),
    created_at timestamptz not null,
    primary key (organization_id, account_id, receipt_id)
);
comment on table receipts is 'Why a command was accepted or refused: the rules that were evaluated, their limits and what was observed.';
create unique index receipts_refused on receipts (account_id, refusal_no) where refusal_no is not null;
create index receipts_of_intent on receipts (account_id, intent_id) where intent_id is not null;
create trigger append_only before update or delete or truncate on receipts
    for each statement execute function refuse_change();
call protect_tenant_table('receipts');
grant select, insert on receipts to openbell_tenant, openbell_execution;
-- Receipts of refusals. Those of accepted actions are written by the accept step alone.
create policy refused_only on receipts as restrictive for insert to openbell_reader
    with check (verdict = 'REFUSED' and (refusal_no is not null or (intent_id is null and seq is null)));
grant select, insert on receipts to openbell_writer;
create policy accept_step on receipts to openbell_writer using (true);

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
comment on table idempotency_keys is 'Which action an idempotency key already has: a command that is sent again gets the first result.';
call protect_tenant_table('idempotency_keys');
grant select on idempotency_keys to openbell_tenant, openbell_execution;
grant select, insert on idempotency_keys to openbell_writer;
create policy accept_step on idempotency_keys to openbell_writer using (true);
