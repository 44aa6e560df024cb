-- name: bounds(organization_id, account_id)^
select event_floor as floor, event_no as head
from account_counters where organization_id = :organization_id and account_id = :account_id;

-- name: heads(organization_id, account_ids)
select account_id, event_no as head from account_counters
where organization_id = :organization_id and account_id = any(:account_ids::uuid[]);

-- name: read_after(organization_id, account_id, after, row_limit)
-- An event without a body is of an action just recorded: its body is built from the action. The symbol is the order's.
select e.event_no, e.kind, e.intent_id, e.seq, e.occurred_at, o.symbol,
    coalesce(e.body, json_build_object(
        'action_id', a.action_id, 'action_type', a.action_type, 'status', 'QUEUED', 'reason', null,
        'client_reference_id', a.client_reference_id,
        'symbol', case when a.action_type <> 'CANCEL' then a.symbol end,
        'order_side', case when a.action_type <> 'CANCEL' then a.order_side end,
        'order_type', case when a.action_type <> 'CANCEL' then a.order_type end,
        'quantity', case when a.action_type <> 'CANCEL' then a.quantity::text end,
        'limit_price', case when a.action_type <> 'CANCEL' then a.limit_price::text end,
        'stop_price', case when a.action_type <> 'CANCEL' then a.stop_price::text end,
        'time_in_force', case when a.action_type <> 'CANCEL' then a.time_in_force end
    )::text) as body
from account_events e
left join intent_actions a
    on e.body is null and a.organization_id = e.organization_id and a.account_id = e.account_id
    and a.intent_id = e.intent_id and a.seq = e.seq
left join orders o
    on o.organization_id = e.organization_id and o.account_id = e.account_id and o.order_id = e.intent_id
where e.organization_id = :organization_id and e.account_id = :account_id and e.event_no > :after
order by e.event_no
limit :row_limit;

-- name: list_followed(organization_id, environment, account_ids, row_limit)
-- No row: the organization does not exist. A row without an account: the organization has no account.
select a.account_id, o.disabled as organization_disabled
from organizations o
left join accounts a
    on a.organization_id = o.organization_id and a.environment = coalesce(:environment::text, a.environment)
    and (:account_ids::uuid[] is null or a.account_id = any(:account_ids::uuid[]))
where o.organization_id = :organization_id
order by a.account_id
limit :row_limit;

-- name: first_event_since(organization_id, account_id, moment, head)$
-- The number of the first event at or after a moment, or head + 1. Numbers have no gaps and times increase with them, so a
-- binary search finds it.
with recursive halving (low, high) as (
    select c.event_floor + 1, greatest(:head::bigint, c.event_floor) + 1
    from account_counters c
    where c.organization_id = :organization_id and c.account_id = :account_id
    union all
    select case when m.is_before then m.number + 1 else h.low end, case when m.is_before then h.high else m.number end
    from (select low, high, (low + high) / 2 as middle from halving where low < high offset 0) h
    cross join lateral (
        select e.event_no as number, e.occurred_at < :moment::timestamptz as is_before
        from account_events e
        where e.organization_id = :organization_id and e.account_id = :account_id and e.event_no = h.middle
        offset 0
    ) m
)
select low from halving where low = high;
