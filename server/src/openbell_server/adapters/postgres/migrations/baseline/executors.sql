-- Executors: the processes that send orders, the slots that they lease, and recovery after a restore.

create table executors (
    executor_id uuid primary key,
    seen_at timestamptz not null
);
comment on table executors is 'Executor processes that are running, with their last heartbeat.';
grant select, insert, update, delete on executors to openbell_executor;
grant select on executors to openbell_health;

create table slot_leases (
    slot smallint primary key check (slot between 0 and 63),
    holder uuid,
    held_until timestamptz,
    check ((holder is null) = (held_until is null))
) with (fillfactor = 50);
comment on table slot_leases is
    'Which executor works which of the 64 slots. Leases divide the work and limit brokers to one session; the door, not the lease, prevents that an order is sent twice.';
insert into slot_leases (slot) select generate_series(0, 63);
grant select, update on slot_leases to openbell_executor;
-- A tenant reads whether the account's slot has an executor; a lease shows nothing of any organization.
grant select on slot_leases to openbell_tenant, openbell_health;

create table broker_feeds (
    executor_id uuid not null references executors on delete cascade,
    broker text not null,
    -- Whether the broker's reports reach the executor.
    connected boolean not null,
    -- The slots whose orders were compared with the broker since the executor leased them.
    compared smallint[] not null,
    -- Hashes of the ids of accounts that wait to be signed in at the broker; the list is cut if it is very long.
    signing_in bigint[] not null,
    -- Hashes of the ids of accounts for which the feed was silent when it had to report.
    mute bigint[] not null default '{}',
    reported_at timestamptz not null,
    primary key (executor_id, broker)
) with (fillfactor = 50);
comment on table broker_feeds is 'What each executor reports about its connection to each broker. Contains no data of organizations.';
grant select, insert, update on broker_feeds to openbell_executor;
grant select on broker_feeds to openbell_tenant;

-- A database that was restored, or promoted with some commits missing, has lost doors that were opened. Executors must
-- detect this, and compare every account with its broker, before anything is sent again.
create table incarnation (
    only_row boolean primary key default true check (only_row),
    epoch bigint not null,
    -- A recovered physical copy runs on another timeline. A row that a dump restored was written by another transaction
    -- than the one that it names.
    timeline integer not null,
    written_in xid not null,
    -- Updated by executors: in an old copy it shows the copy's age.
    alive_at timestamptz not null,
    -- When a restore was last detected, and from when on brokers are queried for orders that the copy has lost.
    held_at timestamptz,
    look_back_to timestamptz,
    check ((held_at is null) = (look_back_to is null))
) with (fillfactor = 20);
comment on table incarnation is 'One row that identifies this copy of the data, so that a restore from a backup is detected.';

-- The timeline on which this server writes: a recovery from a physical copy starts a new one.
create function server_timeline() returns integer language sql volatile as
$$ select ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::integer $$;

insert into incarnation (epoch, timeline, written_in, alive_at)
values (1, server_timeline(), pg_current_xact_id()::xid, clock_timestamp());
grant select, update on incarnation to openbell_executor;

-- is_this: this copy wrote the row itself.
create view this_incarnation as
select i.*, i.written_in = i.xmin and i.timeline = server_timeline() as is_this from incarnation i;
grant select on this_incarnation to openbell_tenant, openbell_execution, openbell_executor, openbell_operator;

create table forgotten_orders (
    organization_id uuid not null,
    account_id uuid not null,
    action_id uuid not null,
    -- The part of the id that the same command under the same key gets again.
    command_digest text not null generated always as (substr(action_id::text, 16)) stored,
    found_at timestamptz not null,
    primary key (account_id, action_id),
    foreign key (organization_id, account_id) references accounts
);
comment on table forgotten_orders is 'Orders that a broker has under an id of ours which a restored database does not know.';
create index forgotten_orders_digest on forgotten_orders (account_id, command_digest);
call protect_tenant_table('forgotten_orders');
grant select, insert on forgotten_orders to openbell_execution;
grant select (account_id, action_id, found_at) on forgotten_orders to openbell_executor;
create policy find_work on forgotten_orders for select to openbell_executor using (true);

-- An account as the REST interface returns it, with its position in the list and whether its orders can be sent.
create view account_records with (security_invoker = true) as
select a.organization_id, a.account_id, a.name, a.broker, a.environment, a.external_account_id, a.base_currency, a.timezone,
    a.disabled, a.disabled_reason, a.credential_status, a.closed_at, a.created_at, a.updated_at, a.version,
    (extract(epoch from a.created_at) * 1000000)::bigint as number,
    not i.is_this or c.recovered_epoch <> i.epoch as is_held_back,
    l.slot is not null as has_executor,
    -- An executor that has not reported yet counts as connected, with nothing compared.
    coalesce(f.connected and not hashtextextended(a.account_id::text, 0) = any(f.mute), true) as is_feed_connected,
    coalesce(a.slot = any(f.compared), false) as is_compared,
    coalesce(hashtextextended(a.account_id::text, 0) = any(f.signing_in), false) as is_signing_in,
    c.halt_code, c.halt_detail, c.halted_at
from accounts a
join account_counters c on c.organization_id = a.organization_id and c.account_id = a.account_id
cross join this_incarnation i
left join slot_leases l on l.slot = a.slot and l.held_until > clock_timestamp()
left join broker_feeds f on f.executor_id = l.holder and f.broker = a.broker;
grant select on account_records to openbell_tenant;
