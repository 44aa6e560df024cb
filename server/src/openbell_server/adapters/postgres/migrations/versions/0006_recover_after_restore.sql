-- A database that was restored, or promoted with some commits missing, forgets doors that were opened: it must be noticed,
-- and every account compared with its broker, before anything is sent again.

set local search_path = openbell, pg_catalog;

-- Which copy of the data this is. A physical copy that was recovered runs on another timeline; a row that a dump brought
-- back was written by another transaction than the one it names.
create table incarnation (
    only_row boolean primary key default true check (only_row),
    epoch bigint not null,
    timeline integer not null,
    written_in xid not null,
    -- Kept fresh by executors: in an old copy it says how old.
    alive_at timestamptz not null,
    -- When a restore was last noticed, and from when on brokers are asked what we forgot.
    held_at timestamptz,
    look_back_to timestamptz,
    check ((held_at is null) = (look_back_to is null))
) with (fillfactor = 20);

create function server_timeline() returns integer language sql volatile as
$$ select ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::integer $$;

insert into incarnation (epoch, timeline, written_in, alive_at)
values (1, server_timeline(), pg_current_xact_id()::xid, clock_timestamp());

-- Whether the row was written here, by this copy.
create view this_incarnation as
select i.*, i.written_in = i.xmin and i.timeline = server_timeline() as is_this from incarnation i;

grant select on this_incarnation to openbell_tenant, openbell_executor;
grant select, update on incarnation to openbell_executor;

-- The epoch in which the account was last compared with its broker; no door opens in another.
alter table account_counters add column recovered_epoch bigint not null default 1;
create index account_counters_recovered on account_counters (recovered_epoch);
grant select (account_id, slot, recovered_epoch) on account_counters to openbell_executor;

-- The action under whose id the broker knows this one: set where a command came again after we had forgotten the first.
alter table action_states add column known_as uuid;
create unique index action_states_known_as on action_states (account_id, known_as) where known_as is not null;
grant select (known_as) on action_states to openbell_executor;

-- Orders that a broker has under an id of ours which our record does not know.
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
create index forgotten_orders_digest on forgotten_orders (account_id, command_digest);
grant select, insert on forgotten_orders to openbell_tenant;
grant select (account_id, action_id, found_at) on forgotten_orders to openbell_executor;

create or replace view tracked_actions with (security_invoker = true) as
select s.organization_id, s.account_id, s.action_id, s.intent_id, s.seq, s.action_no, s.action_type, s.state, s.attempt_id,
    s.send_started_at, s.probes, s.settled_at, coalesce(first.known_as, first.action_id) as order_action_id,
    exists (
        select 1 from action_states e
        where e.account_id = s.account_id and e.intent_id = s.intent_id and e.seq < s.seq and e.settled_at is null
    ) as earlier_unsettled,
    o.quantity, o.filled_quantity, o.filled_value, o.standing, o.close_reason, o.pending, o.certainty,
    o.broker_order_ids, o.symbol, o.order_side, o.order_type, o.route_strategy, o.limit_price, o.stop_price,
    o.time_in_force, o.client_reference_id
from action_states s
join orders o
    on o.organization_id = s.organization_id and o.account_id = s.account_id and o.order_id = s.intent_id
join action_states first on first.account_id = s.account_id and first.intent_id = s.intent_id and first.seq = 1;
