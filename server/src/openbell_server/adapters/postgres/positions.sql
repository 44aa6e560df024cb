-- These need the newest schema.

-- name: positions_as_of(organization_id, account_id)$
select positions_as_of from account_counters where organization_id = :organization_id and account_id = :account_id;

-- name: positions(organization_id, account_id)
select symbol, quantity, updated_at from positions
where organization_id = :organization_id and account_id = :account_id;

-- name: accounts_untold_across_organizations(broker, slots)
-- Accounts that a rule may speak about, and of which the broker never said what they hold.
select a.organization_id, a.account_id, a.broker, a.slot
from account_counters c
join accounts a on a.account_id = c.account_id
where c.slot = any(:slots::smallint[]) and c.positions_as_of is null and a.broker = :broker
    and exists (
        select 1 from control_rules r
        where r.organization_id in (a.organization_id, '00000000-0000-0000-0000-000000000000') and r.terms is not null
            and (r.of_account is null or r.of_account = a.account_id)
    )
limit 1000;

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
