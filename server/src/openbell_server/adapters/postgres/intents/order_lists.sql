-- part: first_action_and_last_reason
cross join lateral (
    select f.action_no as number, coalesce(f.known_as, f.action_id) as order_action_id from action_states f
    where f.account_id = o.account_id and f.intent_id = o.order_id and f.seq = 1
    offset 0
) f
cross join lateral (
    select s.reason_code, s.broker_code, s.broker_text from action_states s
    where s.account_id = o.account_id and s.intent_id = o.order_id
    order by s.seq desc limit 1
) r

-- part: order_and_last_correction
cross join lateral (
    select o.symbol, o.order_side from orders o
    where o.organization_id = e.organization_id and o.account_id = e.account_id and o.order_id = e.order_id
    offset 0
) o
left join lateral (
    select c.quantity, c.price, c.recorded_at as changed_at from execution_changes c
    where c.account_id = e.account_id and c.execution_id = e.execution_id
    order by c.revision desc limit 1
) c on true

-- name: list_orders(organization_id, account_id, after, last, symbol, order_side, is_closed, row_limit)
-- By the numbers of their CREATE actions. The caller bounds the numbers, because rows that do not match are read too.
select f.number, o.*, f.order_action_id, r.*
from (
    select a.organization_id, a.account_id, a.intent_id, a.action_no from intent_actions a
    where a.organization_id = :organization_id and a.account_id = :account_id
        and a.action_no > :after and a.action_no <= :last and a.seq = 1
        and (:symbol::text is null or a.symbol = :symbol)
        and (:order_side::text is null or a.order_side = :order_side)
    order by a.action_no
) a
cross join lateral (
    select o.* from orders o
    where o.organization_id = a.organization_id and o.account_id = a.account_id and o.order_id = a.intent_id
        and (:is_closed::boolean is null or (o.standing = 'CLOSED') = :is_closed)
    offset 0
) o
{first_action_and_last_reason}
order by a.action_no
limit :row_limit;

-- name: list_working_orders(organization_id, account_id, after, symbol, order_side, row_limit)
-- Reads all open orders of the account, which are few.
select f.number, o.*, f.order_action_id, r.*
from orders o
{first_action_and_last_reason}
where o.organization_id = :organization_id and o.account_id = :account_id and o.standing <> 'CLOSED'
    and (:symbol::text is null or o.symbol = :symbol)
    and (:order_side::text is null or o.order_side = :order_side)
    and f.number > :after
order by f.number
limit :row_limit;

-- name: show_order(organization_id, account_id, intent_id)^
select f.number, o.*, f.order_action_id, r.*
from orders o
{first_action_and_last_reason}
where o.organization_id = :organization_id and o.account_id = :account_id and o.order_id = :intent_id;

-- name: list_executions(organization_id, account_id, since, skipped, until, row_limit)
-- In recording order, without the first `skipped` rows.
select e.execution_id, e.order_id as intent_id, e.reported_quantity, e.reported_price, e.executed_at, e.recorded_at,
    o.*, c.*
from (
    select e.execution_id, e.order_id, e.organization_id, e.account_id, e.quantity as reported_quantity,
        e.price as reported_price, e.executed_at, e.recorded_at
    from executions e
    where e.organization_id = :organization_id and e.account_id = :account_id and e.recorded_at >= :since
        and (:until::timestamptz is null or e.recorded_at < :until)
    order by e.recorded_at, e.execution_id
    offset :skipped limit :row_limit
) e
{order_and_last_correction}
order by e.recorded_at, e.execution_id;

-- name: list_executions_of_order(organization_id, account_id, order_id, since, skipped, until, row_limit)
select e.execution_id, e.order_id as intent_id, e.reported_quantity, e.reported_price, e.executed_at, e.recorded_at,
    o.*, c.*
from (
    select e.execution_id, e.order_id, e.organization_id, e.account_id, e.quantity as reported_quantity,
        e.price as reported_price, e.executed_at, e.recorded_at
    from executions e
    where e.organization_id = :organization_id and e.account_id = :account_id and e.order_id = :order_id
        and e.recorded_at >= :since and (:until::timestamptz is null or e.recorded_at < :until)
    order by e.recorded_at, e.execution_id
    offset :skipped limit :row_limit
) e
{order_and_last_correction}
order by e.recorded_at, e.execution_id;

-- name: list_positions(organization_id, account_id, row_limit)
-- One statement, so all positions are of the same event.
select c.event_no, c.positions_as_of, p.symbol, p.quantity, p.updated_at
from account_counters c
left join lateral (
    select p.symbol, p.quantity, p.updated_at from positions p
    where p.organization_id = c.organization_id and p.account_id = c.account_id and p.quantity <> 0
    order by p.symbol limit :row_limit
) p on true
where c.organization_id = :organization_id and c.account_id = :account_id
order by p.symbol;
