-- What executors tell about their brokers, so that an account can say honestly how it stands.

create table if not exists broker_feeds (
    executor_id uuid not null references executors on delete cascade,
    broker text not null,
    -- Whether what happens at the broker reaches us.
    connected boolean not null,
    -- The slots whose orders were compared with the broker since the executor holds them.
    compared smallint[] not null,
    -- Hashes of the ids of accounts that must be signed in at the broker and are not; of very many not all.
    signing_in bigint[] not null,
    told_at timestamptz not null,
    primary key (executor_id, broker)
) with (fillfactor = 50);
grant select, insert, update on broker_feeds to openbell_executor;
-- It says nothing of any organization.
grant select on broker_feeds to openbell_tenant;

-- apart
-- An account as those who manage it read it, with its place in their list. It comes with the last of all that it takes to
-- manage accounts: while it is not there, they are not managed.
create or replace view account_records with (security_invoker = true) as
select a.organization_id, a.account_id, a.name, a.broker, a.environment, a.external_account_id, a.base_currency, a.timezone,
    a.disabled, a.disabled_reason, a.credential_status, a.closed_at, a.created_at, a.updated_at, a.version,
    (extract(epoch from a.created_at) * 1000000)::bigint as number,
    not i.is_this or c.recovered_epoch <> i.epoch as is_held_back,
    l.slot is not null as has_executor,
    -- Who has told nothing yet has compared nothing.
    coalesce(f.connected, true) as is_heard,
    coalesce(a.slot = any(f.compared), false) as is_compared,
    coalesce(hashtextextended(a.account_id::text, 0) = any(f.signing_in), false) as is_signing_in
from accounts a
join account_counters c on c.organization_id = a.organization_id and c.account_id = a.account_id
cross join this_incarnation i
left join slot_leases l on l.slot = a.slot and l.held_until > clock_timestamp()
left join broker_feeds f on f.executor_id = l.holder and f.broker = a.broker;
grant select on account_records to openbell_tenant;

-- apart
create index if not exists credentials_asked on credentials (account_id) where answered_at is null or asked_at > answered_at;
