-- name: snapshot(organization_id, account_id)
-- One statement, so that the current state and the number of the last event are of one snapshot. An order without an event
-- is left out, because a reader that followed the events does not have it either.
select c.event_no as head, t.what, t.facts
from account_counters c
left join lateral (
    select 'order' as what, to_jsonb(o) as facts from open_orders o
    where o.organization_id = c.organization_id and o.account_id = c.account_id
        and (o.standing <> 'NONE' or o.certainty <> 'CONFIRMED' or o.terms_version > 1)
    union all
    select 'external', to_jsonb(x) from external_orders x
    where x.organization_id = c.organization_id and x.account_id = c.account_id
        and x.status in ('WORKING', 'DONE_FOR_DAY')
    union all
    select 'position', to_jsonb(p) from positions p
    where p.organization_id = c.organization_id and p.account_id = c.account_id and p.quantity <> 0
) t on true
where c.organization_id = :organization_id and c.account_id = :account_id;
