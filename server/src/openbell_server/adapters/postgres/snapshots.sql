-- These need the newest schema.

-- name: snapshot(organization_id, account_id)
-- One statement sees one moment: what stands, and the number of the last event that made it so. An order of which no
-- event was written yet stands as it was recorded; it is left out, for who followed the events does not know it either.
select c.event_no as head, t.what, t.facts
from account_counters c
left join lateral (
    select 'order' as what, to_jsonb(o) as facts from tracked_actions o
    where o.organization_id = c.organization_id and o.account_id = c.account_id and o.seq = 1 and o.standing <> 'CLOSED'
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
