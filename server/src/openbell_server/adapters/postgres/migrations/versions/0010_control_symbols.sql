-- Controls of a symbol on an account. Whoever changes one holds the account's lock and gives the account a new epoch; an
-- account at epoch 1 has none, and nobody looks for them.

create table if not exists symbol_controls (
    organization_id uuid not null,
    account_id uuid not null,
    symbol text not null check (symbol ~ '^[A-Z0-9./:_-]{1,32}$'),
    manually_disabled boolean not null,
    manual_reason text check (length(manual_reason) between 1 and 500),
    created_at timestamptz not null,
    updated_at timestamptz not null,
    version integer not null default 1,
    -- Who changed it last; the audit log has everybody before.
    principal_type text not null check (principal_type in ('API_KEY', 'USER', 'SERVICE', 'SYSTEM')),
    principal_id text not null,
    primary key (organization_id, account_id, symbol),
    foreign key (organization_id, account_id) references accounts
);
call protect_tenant_table('symbol_controls');
grant select, insert, update on symbol_controls to openbell_tenant;

-- apart
create table if not exists symbol_time_controls (
    organization_id uuid not null,
    account_id uuid not null,
    symbol text not null check (symbol ~ '^[A-Z0-9./:_-]{1,32}$'),
    trading_start time(0),
    trading_end time(0),
    timezone text,
    days text[] check (days <@ '{mon,tue,wed,thu,fri,sat,sun}' and days <> '{}'),
    stale_order_millis integer check (stale_order_millis between 1 and 86400000),
    created_at timestamptz not null,
    updated_at timestamptz not null,
    version integer not null default 1,
    principal_type text not null check (principal_type in ('API_KEY', 'USER', 'SERVICE', 'SYSTEM')),
    principal_id text not null,
    primary key (organization_id, account_id, symbol),
    foreign key (organization_id, account_id) references accounts,
    check (trading_end <> coalesce(trading_start, '00:00:00'))
);
call protect_tenant_table('symbol_time_controls');
grant select, insert, update on symbol_time_controls to openbell_tenant;

-- apart
-- Whoever changes a control says so in the same transaction.
grant insert on audit_log to openbell_tenant;

-- apart
-- A refusal is explained by a receipt that no action has. Those of actions are written by the accept step alone.
grant insert on receipts to openbell_tenant;
drop policy if exists refused_only on receipts;
create policy refused_only on receipts as restrictive for insert to openbell_tenant
    with check (verdict = 'REFUSED' and intent_id is null and seq is null);
