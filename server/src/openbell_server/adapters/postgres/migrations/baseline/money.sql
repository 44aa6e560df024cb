-- Money: what the positions of an account cost, and what its trades brought.

create table book_heads (
    organization_id uuid not null,
    account_id uuid primary key,
    -- All trades up to this event are in the account's books and figures, and none after it.
    event_no bigint not null,
    saved_at timestamptz not null,
    foreign key (organization_id, account_id) references accounts
) with (fillfactor = 50);
comment on table book_heads is
    'Up to which event the books of an account are saved. Later trades, a few seconds of them, are read from the log.';
call protect_tenant_table('book_heads');
grant select on book_heads to openbell_reader;
grant insert, update on book_heads to openbell_execution;
grant select on book_heads to openbell_executor;
create policy find_work on book_heads for select to openbell_executor using (true);

create table books (
    organization_id uuid not null,
    account_id uuid not null,
    symbol text not null,
    quantity numeric not null,
    -- Of the open units by average cost, negative if they are short; null while the cost of some is unknown.
    cost numeric,
    -- The open units by the trades that opened them, oldest first: lists of quantity, price, time and trade.
    lots jsonb not null,
    -- The last trade that is counted: an older one makes the book anew.
    last_traded_at timestamptz not null,
    last_trade_id text not null,
    -- The sum of the symbol's profit_figures.
    realized_average numeric not null,
    realized_fifo numeric not null,
    fees numeric not null,
    bought_quantity numeric not null,
    bought_value numeric not null,
    sold_quantity numeric not null,
    sold_value numeric not null,
    trades bigint not null,
    unknown bigint not null,
    without_fee bigint not null,
    primary key (account_id, symbol),
    foreign key (organization_id, account_id) references accounts
) with (fillfactor = 80);
comment on table books is 'What each position cost, as of its account''s book head. Made from executions and position_changes, and again from them if a trade is reported late or changed.';
call protect_tenant_table('books');
grant select on books to openbell_reader;
grant insert, update on books to openbell_execution;

create table profit_figures (
    organization_id uuid not null,
    account_id uuid not null,
    symbol text not null,
    -- The start of a quarter hour: in every time zone a day is a whole number of them.
    period timestamptz not null,
    realized_average numeric not null,
    realized_fifo numeric not null,
    fees numeric not null,
    bought_quantity numeric not null,
    bought_value numeric not null,
    sold_quantity numeric not null,
    sold_value numeric not null,
    trades bigint not null,
    -- Changes whose price or cost is unknown, and trades whose fee the broker did not report.
    unknown bigint not null,
    without_fee bigint not null,
    primary key (account_id, symbol, period),
    foreign key (organization_id, account_id) references accounts
) with (fillfactor = 80);
comment on table profit_figures is 'What the trades of each quarter hour brought, as of the account''s book head.';
create index profit_figures_by_time on profit_figures (account_id, period);
call protect_tenant_table('profit_figures');
grant select on profit_figures to openbell_reader;
grant insert, update, delete on profit_figures to openbell_execution;

-- Money: what each account has at its broker.

create table account_balances (
    organization_id uuid not null,
    account_id uuid not null,
    currency text not null check (currency ~ '^[A-Z]{3}$'),
    -- Null: the broker does not report it.
    cash numeric,
    equity numeric,
    buying_power numeric,
    initial_margin numeric,
    maintenance_margin numeric,
    -- The balances are not older than this, and were stored at that.
    as_of timestamptz not null,
    read_at timestamptz not null,
    primary key (account_id),
    foreign key (organization_id, account_id) references accounts
) with (fillfactor = 50);
comment on table account_balances is 'Cash, equity, buying power and margin of each account, as its broker last reported them.';
call protect_tenant_table('account_balances');
grant select on account_balances to openbell_reader;
grant insert, update on account_balances to openbell_execution;
-- Executors find the accounts whose balances are old; they read no amount across organizations.
grant select (organization_id, account_id, read_at) on account_balances to openbell_executor;
create policy find_work on account_balances for select to openbell_executor using (true);

create table loss_marks (
    organization_id uuid not null,
    account_id uuid not null,
    currency text not null check (currency ~ '^[A-Z]{3}$'),
    timezone text not null,
    day date not null,
    -- The profit of everything that was ever traded: when the day began, at its highest, and at the last measurement.
    opening numeric not null,
    highest numeric not null,
    profit numeric not null,
    -- The largest losses of the day.
    lost_from_opening numeric not null,
    lost_from_highest numeric not null,
    as_of timestamptz not null,
    -- The rules, with their version, whose breach is in the account's log.
    announced text[] not null,
    primary key (account_id, currency, timezone),
    foreign key (organization_id, account_id) references accounts
) with (fillfactor = 50);
comment on table loss_marks is 'What each account with a limit on losses has lost on its last measured day, in the currency and time zone of the limit.';
call protect_tenant_table('loss_marks');
grant select on loss_marks to openbell_reader;
grant insert, update on loss_marks to openbell_execution;

create table reserved_funds (
    organization_id uuid not null,
    account_id uuid not null,
    action_id uuid not null,
    currency text not null,
    amount numeric not null,
    primary key (account_id, action_id),
    foreign key (organization_id, account_id) references accounts
);
comment on table reserved_funds is 'What each command may cost that a rule on buying power accepted, until a report of the broker includes it.';
call protect_tenant_table('reserved_funds');
grant select on reserved_funds to openbell_reader;
grant insert, delete on reserved_funds to openbell_tenant, openbell_execution;

create table wanted_balances (
    organization_id uuid not null,
    account_id uuid not null,
    wanted_at timestamptz not null,
    primary key (account_id),
    foreign key (organization_id, account_id) references accounts
) with (fillfactor = 50);
comment on table wanted_balances is 'Accounts whose balances somebody read lately: executors keep them fresh.';
create index wanted_balances_by_time on wanted_balances (wanted_at);
call protect_tenant_table('wanted_balances');
grant select, insert, update on wanted_balances to openbell_tenant;
grant select on wanted_balances to openbell_executor;
create policy find_work on wanted_balances for select to openbell_executor using (true);
