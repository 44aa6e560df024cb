-- These need the newest schema.

-- name: positions_as_of(organization_id, account_id)$
select positions_as_of from account_counters where organization_id = :organization_id and account_id = :account_id;

-- name: positions(organization_id, account_id)
select symbol, quantity, updated_at from positions
where organization_id = :organization_id and account_id = :account_id;

-- name: save_positions_as_of(organization_id, account_id, as_of)!
update account_counters set positions_as_of = :as_of
where organization_id = :organization_id and account_id = :account_id;

-- name: add_adjustment(organization_id, account_id, symbol, change, cause)!
insert into position_adjustments (organization_id, account_id, symbol, change, cause, adjusted_at)
values (:organization_id, :account_id, :symbol, :change, :cause, clock_timestamp());

-- name: miscounted_positions_across_organizations()
-- A position is what our orders and those of others filled, and what the broker's word came to beyond that.
select account_id::text || ' ' || symbol as offender, count(*) over () as total
from positions p
full join (
    select organization_id, account_id, symbol, sum(quantity) as quantity
    from (
        select organization_id, account_id, symbol,
            case order_side when 'BUY' then filled_quantity else -filled_quantity end as quantity
        from orders where filled_quantity > 0
        union all
        select organization_id, account_id, symbol,
            case order_side when 'BUY' then filled_quantity else -filled_quantity end
        from external_orders
        union all
        select organization_id, account_id, symbol, change from position_adjustments
    ) each_change
    group by organization_id, account_id, symbol
) f using (organization_id, account_id, symbol)
where coalesce(p.quantity, 0) <> coalesce(f.quantity, 0)
order by offender limit 5;
