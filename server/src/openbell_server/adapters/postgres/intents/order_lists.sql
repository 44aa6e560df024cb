-- part: matching_orders
-- Of the intents that were looked at, the orders that pass the filter.
cross join lateral (
    select o.* from orders o
    where o.organization_id = i.organization_id and o.account_id = i.account_id and o.order_id = i.intent_id
        and (:symbols::text[] is null or o.symbol = any(:symbols))
        and (:order_side::text is null or o.order_side = :order_side)
        and (:is_closed::boolean is null or (o.standing = 'CLOSED') = :is_closed)
        and (:certainty::text is null or o.certainty = :certainty)
    offset 0
) o
cross join lateral (
    select coalesce(f.known_as, f.action_id) as order_action_id from action_states f
    where f.account_id = o.account_id and f.intent_id = o.order_id and f.seq = 1
    offset 0
) f
cross join lateral (
    select s.reason_code, s.broker_code, s.broker_text from action_states s
    where s.account_id = o.account_id and s.intent_id = o.order_id
    order by s.seq desc limit 1
) r
where (:of_account::uuid is null or i.account_id = :of_account) and (:environment::text is null or exists (
    select 1 from accounts c
    where c.organization_id = i.organization_id and c.account_id = i.account_id and c.environment = :environment
)) and (:account_ids::uuid[] is null or i.account_id = any(:account_ids::uuid[]))
order by i.intent_id {direction}
limit :row_limit

-- part: executions_in_order
e.recorded_at between :since and :until
    order by e.recorded_at {direction}, e.execution_id {direction}
    offset :skipped limit :row_limit

-- part: order_and_last_correction
cross join lateral (
    select o.symbol, o.order_side, c.environment from orders o
    join accounts c on c.organization_id = o.organization_id and c.account_id = o.account_id
    where o.organization_id = e.organization_id and o.account_id = e.account_id and o.order_id = e.order_id
    offset 0
) o
left join lateral (
    select c.quantity, c.price, c.recorded_at as changed_at, (
        select f.fee from execution_changes f
        where f.account_id = c.account_id and f.execution_id = c.execution_id and f.fee is not null
        order by f.revision desc limit 1
    ) as fee
    from execution_changes c
    where c.account_id = e.account_id and c.execution_id = e.execution_id
    order by c.revision desc limit 1
) c on true
order by e.recorded_at {direction}, e.execution_id {direction}

-- part: position_change
select p.change_no as number, p.symbol, p.cause, p.intent_id, p.change, p.quantity, p.value, p.average_price, p.changed_at
from position_changes p
where p.organization_id = :organization_id and p.account_id = :account_id and p.change_no {after} :beyond_number

-- part: execution
e.organization_id, e.account_id, e.execution_id, e.order_id, e.quantity as reported_quantity,
        e.price as reported_price, e.fee as reported_fee, e.executed_at, e.recorded_at

-- name: orders_of_organization(organization_id, of_account, beyond, looked_at_max, symbols, order_side, is_closed, certainty, environment, account_ids, row_limit)
-- By the intents' ids, which increase with time. At most looked_at_max intents are read, whether they match or not.
select o.*, f.*, r.*
from (
    select a.organization_id, a.account_id, a.intent_id from intent_actions a
    where a.organization_id = :organization_id and a.seq = 1 and a.intent_id {after} :beyond
    order by a.intent_id {direction} limit :looked_at_max
) i
{matching_orders};

-- name: orders_of_account(organization_id, of_account, beyond, looked_at_max, symbols, order_side, is_closed, certainty, environment, account_ids, row_limit)
select o.*, f.*, r.*
from (
    select a.organization_id, a.account_id, a.intent_id from intent_actions a
    where a.organization_id = :organization_id and a.account_id = :of_account and a.seq = 1 and a.intent_id {after} :beyond
    order by a.intent_id {direction} limit :looked_at_max
) i
{matching_orders};

-- name: open_orders(organization_id, of_account, beyond, looked_at_max, symbols, order_side, is_closed, certainty, environment, account_ids, row_limit)
select o.*, f.*, r.*
from (
    select w.organization_id, w.account_id, w.order_id as intent_id from orders w
    where w.organization_id = :organization_id and w.standing <> 'CLOSED' and w.order_id {after} :beyond
    order by w.order_id {direction} limit :looked_at_max
) i
{matching_orders};

-- name: last_intent_looked_at(organization_id, of_account, beyond, looked_at_max)$
-- The last intent that a page of orders looked at, or no row if it looked at all of them.
(
    select a.intent_id from intent_actions a
    where :of_account::uuid is null and a.organization_id = :organization_id and a.seq = 1 and a.intent_id {after} :beyond
    order by a.intent_id {direction} offset :looked_at_max - 1 limit 1
)
union all
(
    select a.intent_id from intent_actions a
    where a.organization_id = :organization_id and a.account_id = :of_account and a.seq = 1 and a.intent_id {after} :beyond
    order by a.intent_id {direction} offset :looked_at_max - 1 limit 1
);

-- name: last_open_order_looked_at(organization_id, beyond, looked_at_max)$
select w.order_id from orders w
where w.organization_id = :organization_id and w.standing <> 'CLOSED' and w.order_id {after} :beyond
order by w.order_id {direction} offset :looked_at_max - 1 limit 1;

-- name: executions_of_organization(organization_id, since, until, skipped, row_limit)
-- In recording order, without the first `skipped` rows.
select e.*, o.*, c.*
from (
    select {execution} from executions e
    where e.organization_id = :organization_id and {executions_in_order}
) e
{order_and_last_correction};

-- name: executions_of_account(organization_id, account_id, since, until, skipped, row_limit)
select e.*, o.*, c.*
from (
    select {execution} from executions e
    where e.organization_id = :organization_id and e.account_id = :account_id and {executions_in_order}
) e
{order_and_last_correction};

-- name: executions_of_order(organization_id, order_id, since, until, skipped, row_limit)
select e.*, o.*, c.*
from (
    select {execution} from executions e
    where e.organization_id = :organization_id and e.order_id = :order_id and e.account_id = (
        select a.account_id from intent_actions a
        where a.organization_id = :organization_id and a.intent_id = :order_id and a.seq = 1
    ) and {executions_in_order}
) e
{order_and_last_correction};

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

-- name: changes_of_positions(organization_id, account_id, beyond_number, row_limit)
{position_change}
order by p.change_no {direction} limit :row_limit;

-- name: changes_of_position(organization_id, account_id, symbol, beyond_number, row_limit)
{position_change} and p.symbol = :symbol
order by p.change_no {direction} limit :row_limit;
