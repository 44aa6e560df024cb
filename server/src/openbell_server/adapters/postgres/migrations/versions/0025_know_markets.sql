-- What rules judge by: instruments, reference prices, rates of exchange, and positions by the broker's word. All of it is an
-- organization's own: what one learned from its broker or its fills tells no other anything.

create table if not exists instruments (
    organization_id uuid not null references organizations,
    broker text not null,
    symbol text not null check (symbol ~ '^[A-Z0-9./:_-]{1,32}$'),
    -- Null: the broker does not know it.
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
call protect_tenant_table('instruments');
grant select, insert, update on instruments to openbell_tenant;

-- apart
create table if not exists reference_prices (
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
call protect_tenant_table('reference_prices');
grant select, insert, update on reference_prices to openbell_tenant;

-- apart
create table if not exists exchange_rates (
    organization_id uuid not null references organizations,
    from_currency text not null check (from_currency ~ '^[A-Z]{3}$'),
    to_currency text not null check (to_currency ~ '^[A-Z]{3}$'),
    rate numeric not null check (rate > 0),
    as_of timestamptz not null,
    primary key (organization_id, from_currency, to_currency)
);
call protect_tenant_table('exchange_rates');
grant select, insert, update on exchange_rates to openbell_tenant;

-- apart
-- Symbols of an account that a rule asked about lately: executors keep their prices and instruments fresh.
create table if not exists wanted_symbols (
    organization_id uuid not null,
    account_id uuid not null,
    symbol text not null check (symbol ~ '^[A-Z0-9./:_-]{1,32}$'),
    wanted_at timestamptz not null,
    primary key (organization_id, account_id, symbol),
    foreign key (organization_id, account_id) references accounts
) with (fillfactor = 50);
call protect_tenant_table('wanted_symbols');
create policy find_work on wanted_symbols for select to openbell_executor using (true);
grant select, insert, update on wanted_symbols to openbell_tenant;
grant select on wanted_symbols to openbell_executor;

-- apart
-- The broker's word on what an account holds: when it was last taken over; null: never.
alter table account_counters add column if not exists positions_as_of timestamptz;
grant select (positions_as_of) on account_counters to openbell_executor;

-- apart
-- Where the broker's word differed from what we had counted: a position is what was filled, and these.
create table if not exists position_adjustments (
    organization_id uuid not null,
    account_id uuid not null,
    adjustment_no bigint generated always as identity,
    symbol text not null,
    change numeric not null check (change <> 0),
    cause text not null check (cause in ('OPENING', 'UNEXPLAINED')),
    adjusted_at timestamptz not null,
    primary key (organization_id, account_id, adjustment_no),
    foreign key (organization_id, account_id) references accounts
);
call protect_tenant_table('position_adjustments');
grant select, insert on position_adjustments to openbell_tenant;
create or replace trigger append_only before update or delete or truncate on position_adjustments
    for each statement execute function refuse_change();
