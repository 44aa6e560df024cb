-- name: counted_facts(organization_id, account_id, action_id, intent_id, key, symbol, order_side, order_type, quantity, limit_price, stop_price, time_in_force, wants_exposure, wants_equals, wants_others, window_millis)^
-- The counts that rules need, under the account's lock. Queued and unknown orders count like working ones, with the quantity
-- of an unsettled replace if that is larger. For an action about to be sent, actions queued behind it do not count. The order
-- of the intent itself does not count.
with recursive turn as materialized (
    select clock_timestamp() as now, (
        select s.action_no from action_states s
        where :action_id::uuid is not null and s.organization_id = :organization_id and s.account_id = :account_id
            and s.action_id = :action_id::uuid
    ) as action_no
),
-- From the newest action of the symbol backwards, until the window ends.
newer (action_no, created_at, is_equal) as (
    select 9223372036854775807::bigint, t.now, false from turn t where :wants_equals::boolean
    union all
    select n.action_no, n.created_at, n.is_equal
    from newer r cross join turn t
    cross join lateral (
        select a.action_no, a.created_at, a.action_type = 'CREATE' and a.order_side = :order_side
            and a.order_type = :order_type and a.quantity = :quantity::numeric
            and a.limit_price is not distinct from :limit_price::numeric
            and a.stop_price is not distinct from :stop_price::numeric and a.time_in_force = :time_in_force as is_equal
        from intent_actions a
        where a.organization_id = :organization_id and a.account_id = :account_id and a.symbol = :symbol
            and a.action_no < r.action_no
        order by a.action_no desc
        limit 1
    ) n
    where n.created_at > t.now - make_interval(secs => :window_millis::integer / 1000.0)
),
-- Each action is looked up on its own: a join may be planned, while the tables are small, as all actions of the account
-- times all unsettled ones.
unsettled_replaces as materialized (
    select u.intent_id, max(a.quantity) as quantity, max(a.limit_price) as highest_limit, min(a.limit_price) as lowest_limit
    from turn t
    join action_states u on :wants_exposure::boolean and u.organization_id = :organization_id
        and u.account_id = :account_id and u.settled_at is null and u.action_type = 'REPLACE'
        and (t.action_no is null or u.action_no < t.action_no or u.state <> 'QUEUED')
    cross join lateral (
        select a.quantity, a.limit_price from intent_actions a
        where a.organization_id = u.organization_id and a.account_id = u.account_id and a.intent_id = u.intent_id
            and a.seq = u.seq
        limit 1
    ) a
    group by u.intent_id
),
open_orders as materialized (
    select o.symbol, o.order_side, greatest(0, greatest(o.quantity, r.quantity) - o.filled_quantity) as leaves,
        -- The limit that comes nearest to the other side; null: the order trades at any price.
        case
            when o.limit_price is null then null
            when o.order_side = 'BUY' then greatest(o.limit_price, r.highest_limit)
            else least(o.limit_price, r.lowest_limit)
        end as limit_price
    from turn t
    join orders o on :wants_exposure::boolean and o.organization_id = :organization_id and o.account_id = :account_id
        and o.standing <> 'CLOSED' and o.order_id is distinct from :intent_id::uuid
    left join unsettled_replaces r on r.intent_id = o.order_id
    where t.action_no is null or exists (
        select 1 from action_states s
        where s.account_id = o.account_id and s.intent_id = o.order_id and s.seq = 1
            and (s.action_no < t.action_no or s.state <> 'QUEUED')
    )
    union all
    -- External orders count as well.
    select e.symbol, e.order_side, greatest(0, coalesce(e.quantity, 0) - e.filled_quantity), e.limit_price
    from external_orders e
    where :wants_exposure::boolean and e.organization_id = :organization_id and e.account_id = :account_id
        and e.status in ('WORKING', 'DONE_FOR_DAY')
)
select t.now, o.control_epoch as organization_epoch, c.control_epoch as account_epoch,
    exists (
        select 1 from idempotency_keys k
        where k.organization_id = :organization_id and k.account_id = :account_id and k.key = :key::text
    ) as is_replay,
    c.positions_as_of as position_as_of,
    (
        select p.quantity from positions p
        where p.organization_id = :organization_id and p.account_id = :account_id and p.symbol = :symbol
    ) as position,
    x.working_buys, x.working_sells, x.open_orders, x.open_orders_of_symbol, x.open_orders_of_side,
    m.matching_orders, m.matching_price, h.other_symbols, h.other_quantities,
    array(
        select n.created_at from (select * from newer limit 1000) n where n.is_equal order by n.action_no desc limit 100
    ) as equal_orders
from turn t
join account_counters c on c.organization_id = :organization_id and c.account_id = :account_id
join organizations o on o.organization_id = :organization_id
cross join lateral (
    select coalesce(sum(w.leaves) filter (where w.symbol = :symbol and w.order_side = 'BUY'), 0) as working_buys,
        coalesce(sum(w.leaves) filter (where w.symbol = :symbol and w.order_side <> 'BUY'), 0) as working_sells,
        count(*) as open_orders, count(*) filter (where w.symbol = :symbol) as open_orders_of_symbol,
        count(*) filter (where w.symbol = :symbol and w.order_side = :order_side) as open_orders_of_side
    from open_orders w
) x
cross join lateral (
    select count(*) filter (
            where w.limit_price is null or :limit_price::numeric is null
                or case when :order_side = 'BUY' then w.limit_price <= :limit_price::numeric
                    else w.limit_price >= :limit_price::numeric end
        ) as matching_orders,
        case
            when bool_or(w.limit_price is null) then null
            when :order_side = 'BUY' then min(w.limit_price)
            else max(w.limit_price)
        end as matching_price
    from open_orders w
    where w.symbol = :symbol and (w.order_side = 'BUY') <> (:order_side = 'BUY')
) m
cross join lateral (
    -- What the account holds in each other symbol: the largest position, long or short, that open orders can lead to.
    select coalesce(array_agg(s.symbol order by s.symbol), '{}') as other_symbols,
        coalesce(array_agg(greatest(abs(s.held + s.buys), abs(s.held - s.sells)) order by s.symbol), '{}') as other_quantities
    from (
        select v.symbol, sum(v.held) as held, sum(v.buys) as buys, sum(v.sells) as sells
        from (
            select p.symbol, p.quantity as held, 0 as buys, 0 as sells from positions p
            where :wants_others::boolean and p.organization_id = :organization_id and p.account_id = :account_id
                and p.quantity <> 0
            union all
            select w.symbol, 0, w.leaves * (w.order_side = 'BUY')::integer, w.leaves * (w.order_side <> 'BUY')::integer
            from open_orders w
            where :wants_others::boolean
        ) v
        where v.symbol <> :symbol
        group by v.symbol
    ) s
) h;

-- name: count_judged(organization_id, scopes, subjects, limits, judged_at)
-- Counts one more command for each of these rules. Rows are locked in key order, so transactions do not deadlock.
insert into control_rates (organization_id, scope, subject, judged)
select :organization_id, t.scope, t.subject, array[:judged_at::timestamptz]
from unnest(:scopes::text[], :subjects::text[]) t (scope, subject)
order by t.scope, t.subject
on conflict (organization_id, scope, subject) do update
set judged = (:judged_at::timestamptz || control_rates.judged)[:(
    select l.most + 1 from unnest(:scopes::text[], :subjects::text[], :limits::integer[]) l (scope, subject, most)
    where l.scope = excluded.scope and l.subject = excluded.subject
)]
returning scope, subject, judged[2:] as judged;

-- name: read_judged(organization_id, scopes, subjects, limits)
-- The same times as count_judged returns, without counting a command.
select r.scope, r.subject, r.judged[: t.most] as judged from control_rates r
join unnest(:scopes::text[], :subjects::text[], :limits::integer[]) t (scope, subject, most)
    on r.scope = t.scope and r.subject = t.subject
where r.organization_id = :organization_id;

-- name: lock_day_values(organization_id, scopes, subjects, currencies, dates)
-- The values accepted on these days, locked in key order; a later day begins at zero, an earlier one never comes back.
insert into control_days (organization_id, scope, subject, currency, day, accepted)
select :organization_id, t.scope, t.subject, t.currency, t.day, 0
from unnest(:scopes::text[], :subjects::text[], :currencies::text[], :dates::date[]) t (scope, subject, currency, day)
order by t.scope, t.subject, t.currency
on conflict (organization_id, scope, subject, currency) do update
set day = greatest(control_days.day, excluded.day),
    accepted = case when excluded.day > control_days.day then 0 else control_days.accepted end
where control_days.organization_id = excluded.organization_id
returning scope, subject, accepted;

-- name: read_day_values(organization_id, scopes, subjects, currencies, dates)
-- The same values as lock_day_values returns.
select d.scope, d.subject, case when t.day > d.day then 0 else d.accepted end as accepted from control_days d
join unnest(:scopes::text[], :subjects::text[], :currencies::text[], :dates::date[]) t (scope, subject, currency, day)
    on d.scope = t.scope and d.subject = t.subject and d.currency = t.currency
where d.organization_id = :organization_id;

-- name: add_day_values(organization_id, scopes, subjects, currencies, amounts)!
update control_days d set accepted = d.accepted + t.amount
from unnest(:scopes::text[], :subjects::text[], :currencies::text[], :amounts::numeric[]) t (scope, subject, currency, amount)
where d.organization_id = :organization_id and d.scope = t.scope and d.subject = t.subject and d.currency = t.currency;

-- name: free_buying_power(organization_id, account_id, action_id)^
-- The buying power that the broker reported, and what accepted commands may cost that the report does not include: those
-- that the broker has not answered, or answered less than five seconds before the report, since clocks differ. For an
-- action about to be sent, itself and actions queued behind it do not count.
select b.currency, b.buying_power, b.as_of, (
    select coalesce(sum(f.amount), 0) from reserved_funds f
    join action_states s on s.organization_id = f.organization_id and s.account_id = f.account_id
        and s.action_id = f.action_id
    where f.organization_id = b.organization_id and f.account_id = b.account_id and f.currency = b.currency
        and s.state not in ('REFUSED', 'SKIPPED', 'FAILED')
        and (s.settled_at is null or s.settled_at > b.as_of - interval '5 seconds')
        and (
            :action_id::uuid is null or s.state <> 'QUEUED' or s.action_no < (
                select t.action_no from action_states t
                where t.organization_id = :organization_id and t.account_id = :account_id
                    and t.action_id = :action_id::uuid
            )
        )
        and f.action_id is distinct from :action_id::uuid
) as reserved
from account_balances b
where b.organization_id = :organization_id and b.account_id = :account_id and b.buying_power is not null;

-- name: reserve_funds(organization_id, account_id, action_id, currency, amount)!
-- Also deletes what no report can include any more, so that the account has few rows.
with included as (
    delete from reserved_funds f
    using action_states s, account_balances b
    where f.organization_id = :organization_id and f.account_id = :account_id
        and s.organization_id = f.organization_id and s.account_id = f.account_id and s.action_id = f.action_id
        and b.organization_id = f.organization_id and b.account_id = f.account_id
        and s.settled_at <= b.as_of - interval '5 seconds'
)
insert into reserved_funds (organization_id, account_id, action_id, currency, amount)
values (:organization_id, :account_id, :action_id, :currency, :amount);

-- name: keep_refusal(organization_id, account_id, receipt_id, intent_id, seq, receipt)!
-- Numbers and chains the receipt under the account's lock, which the update takes if it is not held yet.
with counted as (
    update account_counters
    set refusal_no = refusal_no + 1, refusal_head = sha256(refusal_head || sha256(convert_to(:receipt, 'UTF8')))
    where organization_id = :organization_id and account_id = :account_id
    returning refusal_no
)
insert into receipts (
    organization_id, account_id, receipt_id, intent_id, seq, verdict, body, hash, refusal_no, created_at
)
select :organization_id, :account_id, :receipt_id, :intent_id::uuid, :seq::integer, 'REFUSED', :receipt,
    sha256(convert_to(:receipt, 'UTF8')), c.refusal_no, clock_timestamp()
from counted c;

-- name: append_refusal(organization_id, account_id, body)!
select append_change(:organization_id, :account_id, 8::smallint, :body);

-- name: set_deadline(organization_id, account_id, action_id, deadline)!
update action_states set deadline = :deadline
where organization_id = :organization_id and account_id = :account_id and action_id = :action_id;
