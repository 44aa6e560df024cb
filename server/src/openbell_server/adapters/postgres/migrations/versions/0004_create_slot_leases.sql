-- Which executor works which slot. A lease is for efficiency and for brokers that allow one session; the door is what
-- keeps an order from being sent twice.

set local search_path = openbell, pg_catalog;

create table executors (
    executor_id uuid primary key,
    seen_at timestamptz not null
);

create table slot_leases (
    slot smallint primary key check (slot between 0 and 63),
    holder uuid,
    held_until timestamptz,
    check ((holder is null) = (held_until is null))
) with (fillfactor = 50);

insert into slot_leases (slot) select generate_series(0, 63);
