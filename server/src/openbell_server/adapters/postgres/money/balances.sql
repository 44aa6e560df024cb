-- name: read_balances(organization_id, account_id)^
select currency, cash, equity, buying_power, initial_margin, maintenance_margin, as_of, read_at from account_balances
where organization_id = :organization_id and account_id = :account_id;

-- name: save_balances(organization_id, account_id, currency, cash, equity, buying_power, initial_margin, maintenance_margin, as_of)!
-- The newest balances win. A future time is set to now; otherwise an executor with a fast clock would block all others.
insert into account_balances as b (
    organization_id, account_id, currency, cash, equity, buying_power, initial_margin, maintenance_margin, as_of, read_at
)
values (
    :organization_id, :account_id, :currency, :cash, :equity, :buying_power, :initial_margin, :maintenance_margin,
    least(:as_of, clock_timestamp()), clock_timestamp()
)
on conflict (account_id) do update
set currency = excluded.currency, cash = excluded.cash, equity = excluded.equity,
    buying_power = excluded.buying_power, initial_margin = excluded.initial_margin,
    maintenance_margin = excluded.maintenance_margin, as_of = excluded.as_of, read_at = excluded.read_at
where b.organization_id = excluded.organization_id and b.as_of <= excluded.as_of;

-- name: want_balances(organization_id, account_id)!
-- If several processes record the same account within 30 seconds, only the first one writes.
insert into wanted_balances as w (organization_id, account_id, wanted_at)
values (:organization_id, :account_id, clock_timestamp())
on conflict (account_id) do update set wanted_at = excluded.wanted_at
where w.organization_id = excluded.organization_id and w.wanted_at < excluded.wanted_at - interval '30 seconds';

-- name: accounts_with_old_balances_across_organizations(slots, wanted_seconds, older_than_seconds, platform_id, row_limit)
-- Accounts with a rule on buying power, or whose balances somebody read within wanted_seconds, and which are missing or
-- older than that; the oldest first.
select a.organization_id, a.account_id, a.broker, a.slot
from (
    select w.account_id from wanted_balances w
    where w.wanted_at > clock_timestamp() - make_interval(secs => :wanted_seconds)
    union
    select c.account_id from control_rules r
    join accounts c on r.organization_id in (c.organization_id, :platform_id)
        and (r.of_account is null or r.of_account = c.account_id)
    where r.code = 'BUYING_POWER' and (r.terms is not null or r.override_terms is not null)
) wanted
join accounts a on a.account_id = wanted.account_id
left join account_balances b on b.organization_id = a.organization_id and b.account_id = a.account_id
where a.slot = any(:slots::smallint[])
    and (b.read_at is null or b.read_at < clock_timestamp() - make_interval(secs => :older_than_seconds))
order by b.read_at nulls first
limit :row_limit;
