-- name: append_control_changed(organization_id, account_id, body)!
with counted as (
    update account_counters set event_no = event_no + 1
    where organization_id = :organization_id and account_id = :account_id
    returning event_no
)
insert into account_events (organization_id, account_id, event_no, kind, body, occurred_at)
select :organization_id, :account_id, c.event_no, 7, :body::text, clock_timestamp()
from counted c;
