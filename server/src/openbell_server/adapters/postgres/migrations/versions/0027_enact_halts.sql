-- Halts as accounts live through them: which switch, since when, and what was done about orders that worked.

create table if not exists account_halts (
    organization_id uuid not null,
    account_id uuid not null,
    -- The switch: its scope, whom it is about, and its version.
    scope text not null check (scope in ('platform', 'organization', 'account', 'symbol', 'key')),
    subject text not null,
    version integer not null,
    state text not null check (state in ('REDUCE_ONLY', 'HALTED')),
    cancel_working boolean not null,
    -- When the switch was committed, and when an executor had asked for all the cancels that it wants.
    halted_at timestamptz not null,
    enacted_at timestamptz,
    lifted_at timestamptz,
    primary key (organization_id, account_id, scope, subject, version),
    foreign key (organization_id, account_id) references accounts
);
call protect_tenant_table('account_halts');
create policy find_work on account_halts for select to openbell_executor using (true);
grant select, insert, update on account_halts to openbell_tenant;
grant select on account_halts to openbell_executor;
