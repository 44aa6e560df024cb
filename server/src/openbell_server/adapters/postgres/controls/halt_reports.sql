-- part: touched_by_halt
with touched as materialized (
    select s.intent_id, s.seq from action_states s
    where s.organization_id = :organization_id and s.account_id = :account_id and s.settled_at is null
        and (:lifted_at::timestamptz is null or s.send_started_at < :lifted_at)
    union
    select e.intent_id, e.seq from account_events e
    where e.organization_id = :organization_id and e.account_id = :account_id and e.event_no >= :first_event
        and (:last_event::bigint is null or e.event_no < :last_event) and e.kind = 1
    union
    -- Only if events of the halt were deleted.
    select i.intent_id, i.seq from intent_actions i
    where i.organization_id = :organization_id and i.account_id = :account_id and i.action_no >= :first_action::bigint
        and (:last_action::bigint is null or i.action_no < :last_action)
)

-- name: list_halts(organization_id, account_id, before_no, row_limit)
-- Every halt of the account, the newest first, from the history of the switches that cover it. A switch with an override is
-- two halts: until the override expires, and from then on. Customers do not see the names of the platform's operators.
select 2 * c.change_no + p.place as number, md5(concat_ws(' ', a.account_id, c.change_no, p.place))::uuid as report_id,
    c.scope, c.subject, c.version, p.terms #>> '{parameters,status}' as state,
    coalesce((p.terms #>> '{parameters,cancel_working}')::boolean, false) as cancel_working, p.halted_at,
    case when p.lifted_at <= t.now then p.lifted_at end as lifted_at, c.reason, c.principal_type,
    case when c.scope <> 'PLATFORM' then c.principal_id end as principal_id, h.noticed_at, h.compared_at
from control_changes c
join control_rules r on r.organization_id = c.organization_id and r.scope = c.scope and r.subject = c.subject
    and r.code = c.code
join accounts a on a.organization_id = :organization_id and a.account_id = :account_id
cross join clock_timestamp() t (now)
left join lateral (
    select n.changed_at from control_changes n
    where n.organization_id = c.organization_id and n.scope = c.scope and n.subject = c.subject and n.code = c.code
        and n.version > c.version
    order by n.version limit 1
) n on true
cross join lateral (
    select f.rule, (f.rule #>> '{override,expires_at}')::timestamptz as expires_at
    from (select c.after::jsonb as rule offset 0) f
    offset 0
) f
cross join lateral (
    values (0, f.rule #> '{override,terms}', c.changed_at, least(f.expires_at, n.changed_at)),
        (1, f.rule -> 'terms', coalesce(f.expires_at, c.changed_at), n.changed_at)
) p (place, terms, halted_at, lifted_at)
left join account_halts h on h.organization_id = :organization_id and h.account_id = :account_id and h.scope = c.scope
    and h.subject = c.subject and h.version = c.version and h.state = p.terms #>> '{parameters,status}'
where c.organization_id in (:organization_id, '00000000-0000-0000-0000-000000000000') and c.code = 'SWITCH'
    and (r.of_account is null or r.of_account = :account_id)
    and (:before_no::bigint is null or 2 * c.change_no + p.place < :before_no)
    and p.terms ->> 'mode' = 'HARD' and p.terms #>> '{parameters,status}' in ('REDUCE_ONLY', 'HALTED')
    and p.halted_at <= t.now and (p.lifted_at is null or p.lifted_at > greatest(p.halted_at, a.created_at))
order by c.change_no desc, p.place desc
limit :row_limit;

-- name: event_head(organization_id, account_id, halted_at)^
-- The number of the last event, and whether events since the halt were deleted.
select event_no, event_floor_at >= :halted_at as is_pruned from account_counters
where organization_id = :organization_id and account_id = :account_id;

-- name: halt_figures(organization_id, account_id, halted_at, lifted_at, first_event, last_event, first_action, last_action, symbol, of_key)^
-- Counts only commands that are not settled or that have an event during the halt, so the cost grows with what happened
-- during the halt, not with the account's history.
{touched_by_halt},
seen as materialized (
    select s.action_type, s.state, s.send_started_at, s.settled_at, s.reason_code, i.created_at, o.order_id, o.standing,
        o.close_reason, o.updated_at, i.principal_type = 'SYSTEM' and i.principal_id = 'halt' as by_halt,
        :of_key::text is null or (i.principal_type = 'API_KEY' and i.principal_id = :of_key) as is_of_key,
        :of_key::text is null or (c.principal_type = 'API_KEY' and c.principal_id = :of_key) as is_created_by_key,
        r.body::jsonb ->> 'exempt' is not null as reduces
    from touched t
    join action_states s on s.organization_id = :organization_id and s.account_id = :account_id
        and s.intent_id = t.intent_id and s.seq = t.seq
    join intent_actions i on i.organization_id = :organization_id and i.account_id = :account_id
        and i.intent_id = t.intent_id and i.seq = t.seq
    join intent_actions c on c.organization_id = :organization_id and c.account_id = :account_id
        and c.intent_id = t.intent_id and c.seq = 1
    join orders o on o.organization_id = :organization_id and o.account_id = :account_id and o.order_id = t.intent_id
    join receipts r on r.organization_id = :organization_id and r.account_id = :account_id
        and r.receipt_id = i.receipt_id
    where :symbol::text is null or o.symbol = :symbol
),
span as (select coalesce(:lifted_at::timestamptz, 'infinity') as lifted_at),
cancelled as (
    select distinct order_id, standing, close_reason, updated_at from seen, span u
    where by_halt and is_created_by_key and created_at >= :halted_at and created_at < u.lifted_at
)
select k.*, x.* from (
    select
        count(*) filter (
            where action_type <> 'CANCEL' and send_started_at > :halted_at and send_started_at < u.lifted_at and not reduces
        ) as doors_opened_after,
        count(*) filter (
            where action_type <> 'CANCEL' and send_started_at > :halted_at and send_started_at < u.lifted_at and reduces
        ) as reducing_doors_after,
        count(*) filter (
            where send_started_at <= :halted_at and (settled_at is null or settled_at > :halted_at)
        ) as in_flight,
        count(*) filter (
            where action_type <> 'CANCEL' and state = 'QUEUED' and u.lifted_at = 'infinity'
        ) as queued,
        count(*) filter (
            where state = 'SKIPPED' and reason_code in ('HALTED', 'REDUCE_ONLY') and settled_at >= :halted_at
                and settled_at < u.lifted_at
        ) as skipped
    from seen, span u where is_of_key
) k,
(
    select count(*) as cancels_asked, count(*) filter (where close_reason = 'CANCELED') as cancels_confirmed,
        count(*) filter (where standing = 'CLOSED' and close_reason <> 'CANCELED') as ended_otherwise,
        max(updated_at) filter (where close_reason = 'CANCELED') as last_confirmed_at
    from cancelled
) x
-- No row for an account of another organization, instead of a row of zeros.
where exists (
    select 1 from account_counters c where c.organization_id = :organization_id and c.account_id = :account_id
);

-- name: in_flight(organization_id, account_id, halted_at, lifted_at, first_event, last_event, first_action, last_action, symbol, of_key, row_limit)
-- Commands that were sent before a halt and had no outcome at that time, in sending order.
{touched_by_halt}
select s.intent_id, s.seq, s.action_id, s.action_type, o.symbol, s.state, s.send_started_at as dispatched_at, s.settled_at
from touched t
join action_states s on s.organization_id = :organization_id and s.account_id = :account_id
    and s.intent_id = t.intent_id and s.seq = t.seq
join intent_actions i on i.organization_id = :organization_id and i.account_id = :account_id
    and i.intent_id = t.intent_id and i.seq = t.seq
join orders o on o.organization_id = :organization_id and o.account_id = :account_id and o.order_id = t.intent_id
where s.send_started_at <= :halted_at and (s.settled_at is null or s.settled_at > :halted_at)
    and (:symbol::text is null or o.symbol = :symbol)
    and (:of_key::text is null or (i.principal_type = 'API_KEY' and i.principal_id = :of_key))
order by s.send_started_at, s.action_no
limit :row_limit;

-- name: quietness(organization_id, account_id)^
-- One statement, so all values are of one moment: what is open, and when the broker was last compared.
select clock_timestamp() as as_of, c.reconciled_at as compared_at,
    (
        select count(*) from orders o
        join action_states s on s.organization_id = o.organization_id and s.account_id = o.account_id
            and s.intent_id = o.order_id and s.seq = 1
        where o.organization_id = :organization_id and o.account_id = :account_id and o.standing <> 'CLOSED'
            and s.state <> 'QUEUED'
    ) as open_orders,
    u.in_doubt, u.queued,
    (
        select count(*) from external_orders x
        where x.organization_id = :organization_id and x.account_id = :account_id
            and x.status in ('WORKING', 'DONE_FOR_DAY')
    ) as external_orders,
    -- If that event was deleted, the time of the newest deleted event is an upper bound.
    coalesce(
        (
            select e.occurred_at from account_events e
            where e.organization_id = :organization_id and e.account_id = :account_id and e.kind in (1, 2)
            order by e.event_no desc limit 1
        ),
        c.event_floor_at
    ) as last_event_at,
    (
        select min(s.halted_at) from switches_in_force s
        where s.organization_id in (:organization_id, '00000000-0000-0000-0000-000000000000') and s.state = 'HALTED'
            and (s.scope in ('PLATFORM', 'ORGANIZATION') or (s.scope = 'ACCOUNT' and s.of_account = :account_id))
    ) as halted_at,
    not i.is_this or c.recovered_epoch <> i.epoch as is_held,
    a.environment = 'paper' and g.paper_enforcement = 'SHADOW' as is_watched_only
from account_counters c
join accounts a on a.organization_id = c.organization_id and a.account_id = c.account_id
join organizations g on g.organization_id = c.organization_id
cross join this_incarnation i
cross join lateral (
    select count(*) filter (where s.state <> 'QUEUED') as in_doubt,
        count(*) filter (where s.state = 'QUEUED' and s.action_type <> 'CANCEL') as queued
    from action_states s
    where s.organization_id = :organization_id and s.account_id = :account_id and s.settled_at is null
) u
where c.organization_id = :organization_id and c.account_id = :account_id;

-- name: open_orders_of_account(organization_id, account_id, row_limit)
-- Orders that the broker has or may have; unknown ones first.
select * from open_orders
where organization_id = :organization_id and account_id = :account_id and state <> 'QUEUED'
order by certainty desc, action_no
limit :row_limit;
