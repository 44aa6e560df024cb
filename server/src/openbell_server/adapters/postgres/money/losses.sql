-- name: accounts_with_loss_limits_across_organizations(slots, platform_id)
-- Accounts for which a limit on losses was set: for each of them, their organization, all, or a key that may use them.
select a.organization_id, a.account_id, clock_timestamp() as now from accounts a
where a.slot = any(:slots::smallint[]) and exists (
    select 1 from control_rules r
    where r.code = 'LOSS_MAX' and r.organization_id in (a.organization_id, :platform_id)
        and (r.of_account is null or r.of_account = a.account_id) and (r.terms is not null or r.override_terms is not null)
        and (r.scope <> 'KEY' or exists (
            select 1 from api_keys k
            where k.organization_id = r.organization_id and k.api_key_id::text = r.subject
                and a.account_id = any(k.account_ids) and k.revoked_at is null
                and (k.expires_at is null or k.expires_at > clock_timestamp())
        ))
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
