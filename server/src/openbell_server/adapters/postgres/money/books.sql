-- part: figures
realized_average, realized_fifo, fees, bought_quantity, bought_value, sold_quantity, sold_value, trades, unknown,
    without_fee

-- part: figure_sums
sum(realized_average) as realized_average, sum(realized_fifo) as realized_fifo, sum(fees) as fees,
    sum(bought_quantity) as bought_quantity, sum(bought_value) as bought_value, sum(sold_quantity) as sold_quantity,
    sum(sold_value) as sold_value, sum(trades)::bigint as trades, sum(unknown)::bigint as unknown,
    sum(without_fee)::bigint as without_fee

-- part: figure_types
realized_average numeric, realized_fifo numeric, fees numeric, bought_quantity numeric, bought_value numeric,
        sold_quantity numeric, sold_value numeric, trades bigint, unknown bigint, without_fee bigint

-- name: trade_news(organization_id, account_id, after, row_limit)
-- One row without an event if there is none. POSITION_ADJUSTED is 5, EXTERNAL_ORDER 4, BROKER_TRADE 6.
select h.after, c.event_no as newest, c.event_floor, e.event_no, e.kind, e.body
from account_counters c
left join book_heads b on b.organization_id = c.organization_id and b.account_id = c.account_id
cross join lateral (select coalesce(:after::bigint, b.event_no, 0) as after) h
left join lateral (
    select e.event_no, e.kind, e.body from account_events e
    where e.account_id = c.account_id and e.event_no > h.after and e.kind in (4, 5, 6)
    order by e.event_no limit :row_limit
) e on true
where c.organization_id = :organization_id and c.account_id = :account_id
order by e.event_no;

-- name: read_books(organization_id, account_id, symbols)
select symbol, quantity, cost, lots, last_traded_at, last_trade_id, {figures} from books
where organization_id = :organization_id and account_id = :account_id
    and (quantity <> 0 or symbol = any(:symbols::text[]));

-- name: traded_symbols(organization_id, account_id)
select symbol from positions where organization_id = :organization_id and account_id = :account_id;

-- name: entries_of_symbol(organization_id, account_id, symbol)
-- Executions as they count after their changes (of two changes the higher revision counts, and a bust is final), and other
-- changes of the position, in the order in which they were made.
with changes as (
    select distinct on (x.execution_id) x.execution_id, x.quantity, x.price,
        first_value(x.fee) over (partition by x.execution_id order by x.fee is null, x.revision desc) as fee
    from execution_changes x
    join orders o on o.organization_id = x.organization_id and o.account_id = x.account_id and o.order_id = x.order_id
    where x.organization_id = :organization_id and x.account_id = :account_id and o.symbol = :symbol
    order by x.execution_id, x.quantity = 0 desc, x.revision desc
)
select * from (
    select e.executed_at as made_at, e.execution_id as trade_id, null as cause,
        coalesce(c.quantity, e.quantity) * case o.order_side when 'BUY' then 1 else -1 end as quantity,
        coalesce(c.price, e.price) as price, coalesce(c.fee, e.fee) as fee, null::numeric as value
    from orders o
    join executions e on e.order_id = o.order_id and e.account_id = o.account_id
    left join changes c on c.execution_id = e.execution_id
    where o.organization_id = :organization_id and o.account_id = :account_id and o.symbol = :symbol
        and coalesce(c.quantity, e.quantity) > 0
    union all
    select changed_at, 'change ' || change_no, cause, change, average_price, null, value from position_changes
    where organization_id = :organization_id and account_id = :account_id and symbol = :symbol
        and cause <> 'EXECUTION'
) t
order by made_at, trade_id collate "C";

-- name: save_head(organization_id, account_id, saved_event_no, event_no)$
insert into book_heads as h (organization_id, account_id, event_no, saved_at)
values (:organization_id, :account_id, :event_no, clock_timestamp())
on conflict (account_id) do update set event_no = excluded.event_no, saved_at = excluded.saved_at
where h.organization_id = excluded.organization_id and h.event_no = :saved_event_no
returning event_no;

-- name: save_books(organization_id, account_id, books)!
insert into books as b (
    organization_id, account_id, symbol, quantity, cost, lots, last_traded_at, last_trade_id, {figures}
)
select :organization_id, :account_id, t.*
from jsonb_to_recordset(:books::jsonb) as t (
        symbol text, quantity numeric, cost numeric, lots jsonb, last_traded_at timestamptz, last_trade_id text,
        {figure_types}
    )
order by symbol
on conflict (account_id, symbol) do update
set quantity = excluded.quantity, cost = excluded.cost, lots = excluded.lots, last_traded_at = excluded.last_traded_at,
    last_trade_id = excluded.last_trade_id, realized_average = excluded.realized_average,
    realized_fifo = excluded.realized_fifo, fees = excluded.fees, bought_quantity = excluded.bought_quantity,
    bought_value = excluded.bought_value, sold_quantity = excluded.sold_quantity, sold_value = excluded.sold_value,
    trades = excluded.trades, unknown = excluded.unknown, without_fee = excluded.without_fee
where b.organization_id = excluded.organization_id;

-- name: remove_figures(organization_id, account_id, symbols)!
delete from profit_figures
where organization_id = :organization_id and account_id = :account_id and symbol = any(:symbols::text[]);

-- name: add_figures(organization_id, account_id, figures)!
insert into profit_figures as f (organization_id, account_id, symbol, period, {figures})
select :organization_id, :account_id, t.*
from jsonb_to_recordset(:figures::jsonb) as t (symbol text, period timestamptz, {figure_types})
order by symbol, period
on conflict (account_id, symbol, period) do update
set realized_average = f.realized_average + excluded.realized_average,
    realized_fifo = f.realized_fifo + excluded.realized_fifo, fees = f.fees + excluded.fees,
    bought_quantity = f.bought_quantity + excluded.bought_quantity, bought_value = f.bought_value + excluded.bought_value,
    sold_quantity = f.sold_quantity + excluded.sold_quantity, sold_value = f.sold_value + excluded.sold_value,
    trades = f.trades + excluded.trades, unknown = f.unknown + excluded.unknown,
    without_fee = f.without_fee + excluded.without_fee
where f.organization_id = excluded.organization_id;

-- name: figures_of_days(organization_id, account_id, day_starts, only_symbol, left_out)
-- Day n begins at the nth of the days and ends at the next one.
select width_bucket(period, :day_starts::timestamptz[]) - 1 as day, symbol, {figure_sums} from profit_figures
where organization_id = :organization_id and account_id = :account_id
    and period >= (:day_starts::timestamptz[])[1] and period < (:day_starts::timestamptz[])[cardinality(:day_starts::timestamptz[])]
    and symbol = coalesce(:only_symbol::text, symbol) and symbol <> all(:left_out::text[])
group by day, symbol;

-- name: accounts_behind_across_organizations(slots, events_behind, seconds, row_limit)
-- Accounts with so many events that their books do not include, or with any and books so old; the oldest books first.
select a.organization_id, a.account_id
from account_counters c
join accounts a on a.account_id = c.account_id
left join book_heads b on b.account_id = c.account_id
where c.slot = any(:slots::smallint[]) and c.event_no > coalesce(b.event_no, 0)
    and (
        b.saved_at is null or c.event_no - b.event_no >= :events_behind
        or b.saved_at <= clock_timestamp() - make_interval(secs => :seconds)
    )
order by b.saved_at nulls first
limit :row_limit;
