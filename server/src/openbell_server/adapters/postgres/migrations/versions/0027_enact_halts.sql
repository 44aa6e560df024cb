-- Halts as accounts live through them: which switch, since when, and that it was lifted.

create index if not exists control_rules_switches on control_rules (organization_id) where code = 'SWITCH';
grant select (override_terms, override_expires_at) on control_rules to openbell_executor;
drop policy if exists list_halts on control_rules;
create policy list_halts on control_rules for select to openbell_operator using (code = 'SWITCH');

-- apart
-- Switches that stop something now. One that came into force because another for a time ran out did so then.
create or replace view switches_in_force with (security_invoker = true) as
select r.organization_id, r.scope, r.subject, r.of_account, r.version, t.terms #>> '{parameters,state}' as state,
    coalesce((t.terms #>> '{parameters,cancel_working}')::boolean, false) as cancel_working,
    case when t.is_override then r.updated_at else greatest(r.updated_at, r.override_expires_at) end as halted_at
from control_rules r
cross join lateral (
    select coalesce(r.override_expires_at > clock_timestamp(), false) as is_override,
        case when r.override_expires_at > clock_timestamp() then r.override_terms else r.terms end::jsonb as terms
) t
where r.code = 'SWITCH' and t.terms ->> 'mode' = 'hard' and t.terms #>> '{parameters,state}' in ('REDUCE_ONLY', 'HALTED');
grant select on switches_in_force to openbell_tenant, openbell_executor, openbell_operator;

-- apart
create table if not exists account_halts (
    organization_id uuid not null,
    account_id uuid not null,
    -- The switch: its scope, whom it is about, its version, and its state: other terms for a time may differ in it.
    scope text not null check (scope in ('platform', 'organization', 'account', 'symbol', 'key')),
    subject text not null,
    version integer not null,
    state text not null check (state in ('REDUCE_ONLY', 'HALTED')),
    cancel_working boolean not null,
    -- Since when no door opens that the switch shuts, when an executor noticed it, when the broker's list was first read
    -- with nothing open any more, and when it ended.
    halted_at timestamptz not null,
    noticed_at timestamptz not null,
    compared_at timestamptz,
    lifted_at timestamptz,
    primary key (organization_id, account_id, scope, subject, version, state),
    foreign key (organization_id, account_id) references accounts
);
call protect_tenant_table('account_halts');
create index if not exists account_halts_in_force on account_halts (account_id) where lifted_at is null;
create policy find_work on account_halts for select to openbell_executor using (true);
grant select, insert, update on account_halts to openbell_tenant;
grant select on account_halts to openbell_executor;
