-- Accounts are compared with their brokers as a whole, again and again; what that finds can be read.

-- Up to when the account's list at the broker was read, by which event of ours, and when an operator last let it go on.
alter table account_counters add column if not exists reconciled_at timestamptz;
alter table account_counters add column if not exists reconciled_event_no bigint not null default 0;
alter table account_counters add column if not exists resumed_at timestamptz;
grant select (event_no, reconciled_event_no) on account_counters to openbell_executor;
grant select (organization_id, account_id, event_no, halt_code, halt_detail, halted_at, resumed_at),
    update (event_no, halt_code, halt_detail, halted_at, resumed_at) on account_counters to openbell_operator;
drop policy if exists list_accounts on account_counters;
create policy list_accounts on account_counters for select to openbell_operator using (true);
drop policy if exists operator_resumes on account_counters;
create policy operator_resumes on account_counters for update to openbell_operator
    using (organization_id = nullif(current_setting('openbell.organization_id', true), '')::uuid);

-- apart
grant select (organization_id, account_id, name, broker, environment, credential_status, version, created_at)
    on accounts to openbell_operator;
drop policy if exists list_accounts on accounts;
create policy list_accounts on accounts for select to openbell_operator using (true);

-- apart
grant insert on account_events to openbell_operator;
drop policy if exists operator on account_events;
create policy operator on account_events for insert to openbell_operator
    with check (organization_id = nullif(current_setting('openbell.organization_id', true), '')::uuid);

-- apart
-- Orders at the broker that may be this action's: the broker knows no ids of ours, and nobody guesses.
alter table action_states add column if not exists candidates text[] not null default '{}';

-- apart
-- Its place in the account's list: the account's lock is held when one is found.
alter table external_orders add column if not exists number bigint generated always as identity;
create unique index if not exists external_orders_listed on external_orders (account_id, number);
create index if not exists external_orders_open on external_orders (account_id)
    where status in ('WORKING', 'DONE_FOR_DAY');

-- apart
-- Hashes of the ids of accounts whose orders the broker's feed was silent about when it had to speak.
alter table broker_feeds add column if not exists mute bigint[] not null default '{}';

-- apart
create or replace view account_records with (security_invoker = true) as
select a.organization_id, a.account_id, a.name, a.broker, a.environment, a.external_account_id, a.base_currency, a.timezone,
    a.disabled, a.disabled_reason, a.credential_status, a.closed_at, a.created_at, a.updated_at, a.version,
    (extract(epoch from a.created_at) * 1000000)::bigint as number,
    not i.is_this or c.recovered_epoch <> i.epoch as is_held_back,
    l.slot is not null as has_executor,
    -- Who has told nothing yet has compared nothing.
    coalesce(f.connected and not hashtextextended(a.account_id::text, 0) = any(f.mute), true) as is_heard,
    coalesce(a.slot = any(f.compared), false) as is_compared,
    coalesce(hashtextextended(a.account_id::text, 0) = any(f.signing_in), false) as is_signing_in,
    c.halt_code, c.halt_detail, c.halted_at
from accounts a
join account_counters c on c.organization_id = a.organization_id and c.account_id = a.account_id
cross join this_incarnation i
left join slot_leases l on l.slot = a.slot and l.held_until > clock_timestamp()
left join broker_feeds f on f.executor_id = l.holder and f.broker = a.broker;
