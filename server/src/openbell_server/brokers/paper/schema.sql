-- The paper broker's ledger. Applied at every start; never changes recorded rows.
select pg_advisory_xact_lock(7302301801);

-- Every received command and sign-in with its result: accepted, or the code of the refusal.
create table if not exists requests (
    number bigint generated always as identity primary key,
    kind text not null,
    account_id uuid not null,
    client_order_id text,
    received_at timestamptz not null,
    done text not null
);

-- Ledgers created before REPLACE existed allow only two kinds.
alter table requests drop constraint if exists requests_kind_check;
-- The key that signed the command; its secret is never stored.
alter table requests add column if not exists key_id text;
create index if not exists requests_signed on requests (account_id, number) where key_id is not null;

create table if not exists orders (
    number bigint primary key,
    account_id uuid not null,
    client_order_id text not null,
    symbol text not null,
    order_side text not null,
    order_type text not null,
    quantity numeric not null check (quantity > 0),
    limit_price numeric check (limit_price > 0),
    stop_price numeric check (stop_price > 0),
    time_in_force text not null,
    accepted_at timestamptz not null,
    status text not null check (status in ('WORKING', 'FILLED', 'CANCELED', 'EXPIRED')),
    triggered boolean not null,
    filled_quantity numeric not null check (filled_quantity between 0 and quantity),
    unique (account_id, client_order_id)
);

-- End of the order's day or time of its auction; null: never, also for orders from before this column.
alter table orders add column if not exists due_at timestamptz;

-- The profile that accepted the order. Some profiles have no client ids, others accept an id twice.
alter table orders add column if not exists profile text not null default 'paper';
alter table orders alter column client_order_id drop not null;
alter table orders drop constraint if exists orders_account_id_client_order_id_key;
create unique index if not exists orders_refuse_ids on orders (account_id, client_order_id) where profile = 'paper';
-- Not the account first: while the table has no statistics, the planner takes any index of the account for a look-up by
-- id. Statements compare the account and the profile after the id.
drop index if exists orders_by_client_id;
create index if not exists orders_named on orders (client_order_id);

create index if not exists orders_by_account on orders (account_id, number);
create index if not exists orders_by_time on orders (account_id, accepted_at);
create index if not exists orders_working on orders (symbol, number) where status = 'WORKING';
create index if not exists orders_due on orders (due_at) where status = 'WORKING';
create index if not exists orders_working_of on orders (account_id) where status = 'WORKING';

create table if not exists executions (
    order_number bigint not null references orders,
    ordinal integer not null,
    quantity numeric not null check (quantity > 0),
    price numeric not null check (price > 0),
    executed_at timestamptz not null,
    primary key (order_number, ordinal)
);
alter table executions add column if not exists fee numeric not null default 0 check (fee >= 0);

-- All replacements in order; the order row has the latest terms.
create table if not exists replacements (
    account_id uuid not null,
    client_order_id text not null,
    order_number bigint not null references orders,
    quantity numeric not null check (quantity > 0),
    limit_price numeric,
    stop_price numeric,
    time_in_force text not null,
    replaced_at timestamptz not null,
    primary key (account_id, client_order_id)
);
-- The single writer checks ids before it inserts; a profile that only echoes ids accepts one twice.
alter table replacements drop constraint if exists replacements_pkey;
alter table replacements alter column client_order_id drop not null;
create index if not exists replacements_by_client_id on replacements (account_id, client_order_id);
create index if not exists replacements_by_order on replacements (order_number);

-- Later changes of executions; quantity 0 is a bust.
create table if not exists execution_changes (
    order_number bigint not null,
    ordinal integer not null,
    revision integer not null,
    quantity numeric not null check (quantity >= 0),
    price numeric not null check (price > 0),
    changed_at timestamptz not null,
    primary key (order_number, ordinal, revision),
    foreign key (order_number, ordinal) references executions (order_number, ordinal)
);

-- Fault plans of accounts.
create table if not exists account_faults (
    account_id uuid primary key,
    seed bigint not null,
    faults jsonb not null,
    set_at timestamptz not null
);

-- What accounts are permitted beyond the process's settings.
create table if not exists account_rules (
    account_id uuid primary key,
    shorting boolean not null,
    any_tick boolean not null
);

-- The updates of the feed, numbered without gaps in commit order, because there is one writer.
create table if not exists updates (
    number bigint primary key,
    order_number bigint not null references orders,
    status text not null,
    filled_quantity numeric not null,
    execution_ordinal integer,
    happened_at timestamptz not null,
    foreign key (order_number, execution_ordinal) references executions (order_number, ordinal)
);

-- The execution change that the update reports.
alter table updates add column if not exists revision integer;

create table if not exists prices (
    symbol text primary key,
    price numeric not null check (price > 0)
);
-- Quantity each order may take at that price; null: unlimited.
alter table prices add column if not exists size numeric check (size > 0);

-- Deposits to accounts; withdrawals are negative.
create table if not exists deposits (
    number bigint generated always as identity primary key,
    account_id uuid not null,
    amount numeric not null,
    made_at timestamptz not null
);

-- Running totals, so that no command has to sum a history: positions from executions, balances from executions and
-- deposits.
do $$
begin
    if to_regclass('balances') is null then
        create table positions (
            account_id uuid not null,
            symbol text not null,
            quantity numeric not null,
            primary key (account_id, symbol)
        );
        create table balances (
            account_id uuid primary key,
            flow numeric not null,
            fees numeric not null
        );
        insert into positions
        select account_id, symbol, sum(case order_side when 'BUY' then e.quantity else -e.quantity end)
        from executions as e join orders on orders.number = e.order_number
        group by account_id, symbol;
        insert into balances
        select account_id, sum(case order_side when 'BUY' then -e.quantity else e.quantity end * e.price - e.fee), sum(e.fee)
        from executions as e join orders on orders.number = e.order_number
        group by account_id;
    end if;
end
$$;

create or replace function refuse_change() returns trigger language plpgsql as $$
begin
    raise exception 'the ledger is append-only: % on %', tg_op, tg_table_name;
end
$$;

create or replace trigger requests_append_only before update or delete or truncate on requests
    for each statement execute function refuse_change();
create or replace trigger executions_append_only before update or delete or truncate on executions
    for each statement execute function refuse_change();
create or replace trigger replacements_append_only before update or delete or truncate on replacements
    for each statement execute function refuse_change();
create or replace trigger updates_append_only before update or delete or truncate on updates
    for each statement execute function refuse_change();
create or replace trigger deposits_append_only before update or delete or truncate on deposits
    for each statement execute function refuse_change();
create or replace trigger execution_changes_append_only before update or delete or truncate on execution_changes
    for each statement execute function refuse_change();
create or replace trigger orders_are_kept before delete or truncate on orders
    for each statement execute function refuse_change();
