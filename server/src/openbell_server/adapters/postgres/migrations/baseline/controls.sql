-- Controls: rules and switches at every scope, market calendars, and the market data that rules compare with.

create table symbol_controls (
    organization_id uuid not null,
    account_id uuid not null,
    symbol text not null check (symbol ~ '^[A-Z0-9./:_-]{1,32}$'),
    manually_disabled boolean not null,
    manual_reason text check (length(manual_reason) between 1 and 500),
    created_at timestamptz not null,
    updated_at timestamptz not null,
    version integer not null default 1,
    -- The last change; the audit log has all.
    principal_type text not null check (principal_type in ('API_KEY', 'USER', 'SERVICE', 'SYSTEM')),
    principal_id text not null,
    -- Fields that a user set: a key needs the permission control:loosen to undo them.
    set_by_users text[] not null default '{}',
    primary key (organization_id, account_id, symbol),
    foreign key (organization_id, account_id) references accounts
);
comment on table symbol_controls is
    'Whether a symbol may be traded on an account. A change holds the account''s lock and starts a new epoch of it; an account at epoch 1 has no controls.';
call protect_tenant_table('symbol_controls');
grant select, insert, update on symbol_controls to openbell_tenant;
grant select on symbol_controls to openbell_execution;

create table symbol_time_controls (
    organization_id uuid not null,
    account_id uuid not null,
    symbol text not null check (symbol ~ '^[A-Z0-9./:_-]{1,32}$'),
    trading_start time(0),
    trading_end time(0),
    timezone text,
    days text[] check (days <@ '{MON,TUE,WED,THU,FRI,SAT,SUN}' and days <> '{}'),
    calendar text,
    session text check (session in ('REGULAR', 'EXTENDED', 'OVERNIGHT', 'ANY')),
    on_close text check (on_close in ('LEAVE', 'CANCEL')),
    stale_order_millis integer check (stale_order_millis between 1 and 86400000),
    max_resting_millis bigint check (max_resting_millis between 1000 and 2592000000),
    created_at timestamptz not null,
    updated_at timestamptz not null,
    version integer not null default 1,
    principal_type text not null check (principal_type in ('API_KEY', 'USER', 'SERVICE', 'SYSTEM')),
    principal_id text not null,
    -- Fields that a user set: a key needs the permission control:loosen to undo them.
    set_by_users text[] not null default '{}',
    primary key (organization_id, account_id, symbol),
    foreign key (organization_id, account_id) references accounts,
    check (trading_end <> coalesce(trading_start, '00:00:00'))
);
comment on table symbol_time_controls is 'When a symbol may be traded on an account, and how long its orders may wait or rest.';
create index symbol_time_controls_resting on symbol_time_controls (account_id) where max_resting_millis is not null;
create index symbol_time_controls_closing on symbol_time_controls (account_id) where on_close = 'CANCEL';
call protect_tenant_table('symbol_time_controls');
grant select, insert, update on symbol_time_controls to openbell_tenant;
grant select on symbol_time_controls to openbell_execution;
-- Executors find accounts with orders to cancel.
grant select (organization_id, account_id, max_resting_millis, on_close) on symbol_time_controls to openbell_executor;
create policy find_work on symbol_time_controls for select to openbell_executor using (true);

create table control_rules (
    organization_id uuid not null,
    scope text not null check (scope in ('PLATFORM', 'ORGANIZATION', 'ACCOUNT', 'SYMBOL', 'KEY')),
    -- Depends on the scope: empty, an account, an account and a symbol, or a key.
    subject text not null,
    code text not null check (code ~ '^[A-Z][A-Z0-9_]{1,39}$'),
    -- The account of the rule; null where it covers many. Not named account_id because it is no foreign key.
    of_account uuid,
    -- JSON texts; null while there are none. The override is in force until it expires.
    terms text,
    override_terms text,
    override_expires_at timestamptz,
    reason text check (length(reason) between 1 and 500),
    -- Both texts are null after the rule was removed. Versions continue, so that no version is used twice.
    version integer not null default 1,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    principal_type text not null check (principal_type in ('API_KEY', 'USER', 'SERVICE', 'SYSTEM', 'OPERATOR')),
    principal_id text not null,
    primary key (organization_id, scope, subject, code),
    check ((organization_id = '00000000-0000-0000-0000-000000000000') = (scope = 'PLATFORM')),
    check ((of_account is not null) = (scope in ('ACCOUNT', 'SYMBOL'))),
    check ((override_terms is null) = (override_expires_at is null))
);
comment on table control_rules is
    'Rules and switches of every scope. The platform''s rules belong to the organization of all zeros, which every organization may read.';
create index control_rules_of_account on control_rules (of_account) where of_account is not null;
create index control_rules_switches on control_rules (organization_id) where code = 'SWITCH';
call protect_tenant_table('control_rules');
grant select, insert, update on control_rules to openbell_tenant, openbell_operator;
grant select on control_rules to openbell_execution;
-- As for tables with a column account_id.
create policy own_account on control_rules as restrictive for insert to openbell_reader
    with check (
        of_account is null or exists (select 1 from openbell.accounts a where a.account_id = control_rules.of_account)
    );
create policy platform on control_rules for select to openbell_reader
    using (organization_id = '00000000-0000-0000-0000-000000000000');
-- A transaction may name the organization of all zeros; only an operator's writes there.
create policy not_operators on control_rules as restrictive to openbell_tenant
    using (true) with check (scope <> 'PLATFORM' and principal_type <> 'OPERATOR');
-- An operator changes the rules of the platform in a transaction that names the organization of all zeros.
create policy operator on control_rules to openbell_operator
    using (organization_id = nullif(current_setting('openbell.organization_id', true), '')::uuid);
create policy list_halts on control_rules for select to openbell_operator using (code = 'SWITCH');
grant select (
    organization_id, scope, subject, code, of_account, version, updated_at, terms, override_terms, override_expires_at
) on control_rules to openbell_executor;
create policy find_work on control_rules for select to openbell_executor using (true);
grant select (
    organization_id, scope, subject, code, of_account, version, updated_at, terms, override_terms, override_expires_at
) on control_rules to openbell_health;
create policy health on control_rules for select to openbell_health using (code = 'SWITCH');

create table control_changes (
    organization_id uuid not null,
    change_no bigint generated always as identity,
    scope text not null,
    subject text not null,
    code text not null,
    version integer not null,
    -- JSON texts of the rule before and after; null where there was no rule, or is none any more.
    before text,
    after text,
    reason text,
    principal_type text not null,
    principal_id text not null,
    changed_at timestamptz not null,
    primary key (organization_id, scope, subject, code, version),
    foreign key (organization_id, scope, subject, code) references control_rules
);
comment on table control_changes is 'Every version of every rule. Append-only.';
create trigger append_only before update or delete or truncate on control_changes
    for each statement execute function refuse_change();
call protect_tenant_table('control_changes');
grant select, insert on control_changes to openbell_tenant, openbell_operator;
grant select on control_changes to openbell_execution;
create policy not_operators on control_changes as restrictive to openbell_tenant
    using (true) with check (scope <> 'PLATFORM' and principal_type <> 'OPERATOR');
create policy platform on control_changes for select to openbell_reader
    using (organization_id = '00000000-0000-0000-0000-000000000000');
create policy operator on control_changes to openbell_operator
    using (organization_id = nullif(current_setting('openbell.organization_id', true), '')::uuid);

create table control_rates (
    organization_id uuid not null,
    scope text not null,
    subject text not null,
    judged timestamptz[] not null,
    primary key (organization_id, scope, subject)
) with (fillfactor = 50);
comment on table control_rates is
    'When a rate rule last evaluated commands, newest first, no more entries than its limit. Written under the account''s lock; where several accounts share a row, rows are locked in the order of the key.';
call protect_tenant_table('control_rates');
grant select, insert, update on control_rates to openbell_tenant;

-- Switches that stop something now. A switch that is in force because an override expired is in force since then.
create view switches_in_force with (security_invoker = true) as
select r.organization_id, r.scope, r.subject, r.of_account, r.version, t.terms #>> '{parameters,status}' as state,
    coalesce((t.terms #>> '{parameters,cancel_working}')::boolean, false) as cancel_working,
    case when t.is_override then r.updated_at else greatest(r.updated_at, r.override_expires_at) end as halted_at
from control_rules r
cross join lateral (
    select coalesce(r.override_expires_at > clock_timestamp(), false) as is_override,
        case when r.override_expires_at > clock_timestamp() then r.override_terms else r.terms end::jsonb as terms
) t
where r.code = 'SWITCH' and t.terms ->> 'mode' = 'HARD' and t.terms #>> '{parameters,status}' in ('REDUCE_ONLY', 'HALTED');
grant select on switches_in_force
    to openbell_tenant, openbell_execution, openbell_executor, openbell_operator, openbell_health;

create table account_halts (
    organization_id uuid not null,
    account_id uuid not null,
    -- The switch. An override may differ in the state under the same version.
    scope text not null check (scope in ('PLATFORM', 'ORGANIZATION', 'ACCOUNT', 'SYMBOL', 'KEY')),
    subject text not null,
    version integer not null,
    state text not null check (state in ('REDUCE_ONLY', 'HALTED')),
    cancel_working boolean not null,
    -- Since when the switch closes doors, when an executor detected it, when the broker's list first showed nothing open,
    -- and when the switch ended.
    halted_at timestamptz not null,
    noticed_at timestamptz not null,
    compared_at timestamptz,
    lifted_at timestamptz,
    primary key (organization_id, account_id, scope, subject, version, state),
    foreign key (organization_id, account_id) references accounts
);
comment on table account_halts is 'Each halt of each account: which switch, since when, and when it was lifted.';
create index account_halts_in_force on account_halts (account_id) where lifted_at is null;
call protect_tenant_table('account_halts');
grant select on account_halts to openbell_tenant;
grant select, insert, update on account_halts to openbell_execution;
grant select on account_halts to openbell_executor;
create policy find_work on account_halts for select to openbell_executor using (true);

create table calendar_overrides (
    change_no bigint generated always as identity primary key,
    calendar text not null check (calendar ~ '^[A-Z0-9_]{2,16}$'),
    trade_date date not null,
    session text not null check (session in ('REGULAR', 'EXTENDED', 'OVERNIGHT')),
    -- The calendar's own hours apply again.
    is_reset boolean not null,
    -- Both null: closed that day.
    opens_at timestamptz,
    closes_at timestamptz check (closes_at > opens_at),
    reason text not null check (length(reason) between 1 and 500),
    principal_id text not null check (principal_id <> ''),
    changed_at timestamptz not null default clock_timestamp(),
    check ((opens_at is null) = (closes_at is null)),
    check (not is_reset or opens_at is null)
);
comment on table calendar_overrides is
    'Trading days that operators changed. Append-only: of one session of one day the newest change applies.';
create index calendar_overrides_newest on calendar_overrides (calendar, trade_date, session, change_no desc);
create trigger append_only before update or delete or truncate on calendar_overrides
    for each statement execute function refuse_change();
grant select on calendar_overrides to openbell_reader, openbell_executor;
grant select, insert on calendar_overrides to openbell_operator;

-- Market data belongs to an organization: what one learned from its broker or its fills is not shown to another.
create table instruments (
    organization_id uuid not null references organizations,
    broker text not null,
    symbol text not null check (symbol ~ '^[A-Z0-9./:_-]{1,32}$'),
    -- Null: the broker does not know the symbol.
    asset_class text,
    quote_currency text,
    tradable boolean not null,
    fractional boolean not null,
    tick numeric check (tick > 0),
    lot numeric check (lot > 0),
    multiplier numeric not null default 1 check (multiplier > 0),
    as_of timestamptz not null,
    primary key (organization_id, broker, symbol),
    check ((asset_class is null) = (quote_currency is null))
);
comment on table instruments is 'What brokers report about symbols: tick, lot, multiplier, currency.';
call protect_tenant_table('instruments');
grant select on instruments to openbell_tenant;
grant select, insert, update on instruments to openbell_execution;

create table reference_prices (
    organization_id uuid not null references organizations,
    broker text not null,
    symbol text not null check (symbol ~ '^[A-Z0-9./:_-]{1,32}$'),
    price numeric not null check (price > 0),
    bid numeric check (bid > 0),
    ask numeric check (ask > 0),
    source text not null check (source in ('quote', 'fill', 'given')),
    as_of timestamptz not null,
    primary key (organization_id, broker, symbol)
) with (fillfactor = 50);
comment on table reference_prices is 'The latest price of each symbol that rules compare an order with.';
call protect_tenant_table('reference_prices');
grant select, insert, update on reference_prices to openbell_tenant, openbell_execution;

create table exchange_rates (
    organization_id uuid not null references organizations,
    from_currency text not null check (from_currency ~ '^[A-Z]{3}$'),
    to_currency text not null check (to_currency ~ '^[A-Z]{3}$'),
    rate numeric not null check (rate > 0),
    as_of timestamptz not null,
    primary key (organization_id, from_currency, to_currency)
);
comment on table exchange_rates is 'Exchange rates that rules convert notional values with.';
call protect_tenant_table('exchange_rates');
grant select, insert, update on exchange_rates to openbell_tenant;
grant select on exchange_rates to openbell_execution;

create table wanted_symbols (
    organization_id uuid not null,
    account_id uuid not null,
    symbol text not null check (symbol ~ '^[A-Z0-9./:_-]{1,32}$'),
    wanted_at timestamptz not null,
    primary key (organization_id, account_id, symbol),
    foreign key (organization_id, account_id) references accounts
) with (fillfactor = 50);
comment on table wanted_symbols is 'Symbols that a rule evaluated lately: executors refresh their prices and instruments.';
call protect_tenant_table('wanted_symbols');
grant select, insert, update on wanted_symbols to openbell_tenant;
grant select on wanted_symbols to openbell_executor;
create policy find_work on wanted_symbols for select to openbell_executor using (true);
