-- name: positions_as_of(organization_id, account_id)$
select positions_as_of from account_counters where organization_id = :organization_id and account_id = :account_id;

-- name: positions(organization_id, account_id)
select symbol, quantity, updated_at from positions
where organization_id = :organization_id and account_id = :account_id;

-- name: accounts_without_positions_across_organizations(broker, slots)
-- Accounts with rules whose positions the broker has never reported.
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
