-- part: numbers_and_times
a.organization_id = :organization_id and a.account_id = :account_id
    and a.action_no > :after and a.action_no <= :last
    and (:since::timestamptz is null or a.created_at >= :since)
    and (:until::timestamptz is null or a.created_at < :until)

-- part: states
-- The lateral join with offset 0 forces a look-up by key: a generic plan does not know the limit and would join whole tables.
cross join lateral (
    select s.state, s.reason_code, s.broker_code, s.broker_text, s.send_started_at, s.settled_at
    from action_states s
    where s.account_id = a.account_id and s.action_id = a.action_id
    offset 0
) s

-- name: accept_commands(action_ids, intent_ids, receipt_ids, organization_ids, account_ids, action_types, idempotency_keys, command_hashes, organization_epochs, account_epochs, symbols, order_sides, order_types, route_strategies, quantities, limit_prices, stop_prices, times_in_force, client_reference_ids, principal_types, principal_ids, receipts, own_only)
-- One call may span organizations: each row is written only for the organization that it names.
select ord, status, intent_id, seq, action_no, command_hash, created_at
from accept_commands(
    :action_ids, :intent_ids, :receipt_ids, :organization_ids, :account_ids, :action_types, :idempotency_keys,
    :command_hashes, :organization_epochs, :account_epochs, :symbols, :order_sides, :order_types, :route_strategies,
    :quantities, :limit_prices, :stop_prices, :times_in_force, :client_reference_ids, :principal_types, :principal_ids,
    :receipts, :own_only
)
order by ord;

-- name: find_action(organization_id, account_id, intent_id, seq, action_id)^
-- The action with this number or id; without either, the intent's last action.
select a.*, s.state, s.reason_code, s.broker_code, s.broker_text, s.send_started_at, s.settled_at
from intent_actions a
join action_states s on s.account_id = a.account_id and s.action_id = a.action_id
where a.organization_id = :organization_id and a.account_id = :account_id and a.intent_id = :intent_id
    and (:seq::integer is null or a.seq = :seq) and (:action_id::uuid is null or a.action_id = :action_id)
order by a.seq desc
limit 1;

-- name: find_action_by_key(organization_id, account_id, key, command_hash)^
select a.*, s.state, s.reason_code, s.broker_code, s.broker_text, s.send_started_at, s.settled_at
from idempotency_keys k
join intent_actions a on a.organization_id = k.organization_id and a.account_id = k.account_id
    and a.intent_id = k.intent_id and a.seq = k.seq
join action_states s on s.account_id = a.account_id and s.action_id = a.action_id
where k.organization_id = :organization_id and k.account_id = :account_id and k.key = :key
    and k.command_hash = :command_hash;

-- name: find_order(organization_id, account_id, intent_id)^
-- With the position in its symbol, null until the broker reported positions, and who created the intent.
select o.symbol, o.order_side, o.order_type, o.quantity, o.limit_price, o.stop_price, o.time_in_force, o.filled_quantity,
    case when c.positions_as_of is not null then coalesce(p.quantity, 0) end as position, a.principal_type, a.principal_id
from orders o
join account_counters c on c.organization_id = o.organization_id and c.account_id = o.account_id
join intent_actions a on a.organization_id = o.organization_id and a.account_id = o.account_id
    and a.intent_id = o.order_id and a.seq = 1
left join positions p on p.organization_id = o.organization_id and p.account_id = o.account_id and p.symbol = o.symbol
where o.organization_id = :organization_id and o.account_id = :account_id and o.order_id = :intent_id;

-- name: find_execution(organization_id, account_id, intent_id)^
select o.quantity, o.limit_price, o.stop_price, o.time_in_force, o.filled_quantity, o.filled_value, o.standing, o.close_reason,
    o.pending, o.certainty, o.broker_order_ids, o.updated_at, u.*
from orders o
left join lateral (
    select s.unknown_since, s.probes, s.action_type, a.broker, s.flagged_at, 1 + s.resends as writes, s.candidates
    from action_states s
    join accounts a on a.organization_id = s.organization_id and a.account_id = s.account_id
    where s.account_id = o.account_id and s.intent_id = o.order_id and s.state = 'UNKNOWN'
    order by s.seq desc limit 1
) u on true
where o.organization_id = :organization_id and o.account_id = :account_id and o.order_id = :intent_id;

-- name: list_actions(organization_id, account_id, after, row_limit)
select a.*, s.*
from (
    select a.* from intent_actions a
    where a.organization_id = :organization_id and a.account_id = :account_id and a.action_no > :after
    order by a.action_no
    limit :row_limit
) a
{states}
order by a.action_no;

-- name: list_some_actions(organization_id, account_id, after, last, action_type, since, until, row_limit)
-- The caller bounds the numbers, because rows that do not match are read too.
select a.*, s.*
from (
    select a.* from intent_actions a
    where {numbers_and_times}
        and (:action_type::text is null or a.action_type = :action_type)
    order by a.action_no {direction}
    limit :row_limit
) a
{states}
order by a.action_no {direction};

-- name: list_actions_of_type(organization_id, account_id, after, last, action_type, since, until, row_limit)
select a.*, s.*
from (
    select a.* from intent_actions a
    where {numbers_and_times}
        and a.action_type <> 'CREATE' and a.action_type = :action_type
    order by a.action_no {direction}
    limit :row_limit
) a
{states}
order by a.action_no {direction};

-- name: list_actions_of_symbol(organization_id, account_id, after, last, symbol, action_type, since, until, row_limit)
select a.*, s.*
from (
    select a.* from intent_actions a
    where {numbers_and_times}
        and a.symbol = :symbol
        and (:action_type::text is null or a.action_type = :action_type)
    order by a.action_no {direction}
    limit :row_limit
) a
{states}
order by a.action_no {direction};

-- name: list_actions_of_reference(organization_id, account_id, after, last, client_reference_id, symbol, action_type, since, until, row_limit)
select a.*, s.*
from (
    select a.* from intent_actions a
    where {numbers_and_times}
        and a.client_reference_id = :client_reference_id
        and (:symbol::text is null or a.symbol = :symbol)
        and (:action_type::text is null or a.action_type = :action_type)
    order by a.action_no {direction}
    limit :row_limit
) a
{states}
order by a.action_no {direction};

-- name: head(organization_id, account_id)$
select action_no from account_counters where organization_id = :organization_id and account_id = :account_id;

-- name: first_number_since(organization_id, account_id, moment, later_seconds)$
-- The number of the first action recorded at or after moment + later_seconds, or the next free number. Numbers have no gaps
-- and times increase with them, so a binary search finds it.
with recursive halving (low, high) as (
    select 1::bigint, c.action_no + 1 from account_counters c
    where c.organization_id = :organization_id and c.account_id = :account_id
    union all
    select case when m.is_before then m.action_no + 1 else h.low end,
        case when m.is_before then h.high else m.action_no end
    from (select low, high, (low + high) / 2 as middle from halving where low < high offset 0) h
    cross join lateral (
        select a.action_no,
            a.created_at < :moment::timestamptz + make_interval(secs => :later_seconds) as is_before
        from intent_actions a
        where a.organization_id = :organization_id and a.account_id = :account_id
            and a.action_no = h.middle
        offset 0
    ) m
)
select low from halving where low = high;

-- name: list_actions_of_intent(organization_id, account_id, intent_id, after, row_limit)
select a.*, s.state, s.reason_code, s.broker_code, s.broker_text, s.send_started_at, s.settled_at
from intent_actions a
join action_states s on s.account_id = a.account_id and s.action_id = a.action_id
where a.organization_id = :organization_id and a.account_id = :account_id and a.intent_id = :intent_id
    and a.seq > :after
order by a.seq
limit :row_limit;
