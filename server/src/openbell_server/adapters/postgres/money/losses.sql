-- name: accounts_with_loss_limits_across_organizations(slots, platform_id)
-- Accounts for which a limit on losses was set, for each of them, for their organization or for all.
select a.organization_id, a.account_id, clock_timestamp() as now from accounts a
where a.slot = any(:slots::smallint[]) and exists (
    select 1 from control_rules r
    where r.code = 'LOSS_MAX' and r.organization_id in (a.organization_id, :platform_id)
        and (r.of_account is null or r.of_account = a.account_id) and (r.terms is not null or r.override_terms is not null)
);

-- name: save_mark(organization_id, account_id, currency, timezone, day, opening, highest, profit, lost_from_opening, lost_from_highest, as_of, announced)!
insert into loss_marks as m (
    organization_id, account_id, currency, timezone, day, opening, highest, profit, lost_from_opening, lost_from_highest,
    as_of, announced
) values (
    :organization_id, :account_id, :currency, :timezone, :day, :opening, :highest, :profit, :lost_from_opening,
    :lost_from_highest, :as_of, :announced
)
on conflict (account_id, currency, timezone) do update
set day = excluded.day, opening = excluded.opening, highest = excluded.highest, profit = excluded.profit,
    lost_from_opening = excluded.lost_from_opening, lost_from_highest = excluded.lost_from_highest,
    as_of = excluded.as_of, announced = excluded.announced
where m.organization_id = excluded.organization_id;

-- name: append_breaches(organization_id, account_id, bodies)!
select append_events(
    :organization_id, :account_id, array_fill(10::smallint, array[cardinality(:bodies::text[])]),
    array_fill(null::uuid, array[cardinality(:bodies::text[])]), array_fill(null::integer, array[cardinality(:bodies::text[])]),
    :bodies::text[]
);
