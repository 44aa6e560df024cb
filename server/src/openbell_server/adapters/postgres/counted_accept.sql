-- These need the newest schema.

-- name: count_judged(organization_id, scopes, subjects, limits, judged_at)
-- One more command for each of these rules; rows are locked in the order of their keys, so that nobody waits in a circle.
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

-- name: read_judged(organization_id, scopes, subjects)
select r.scope, r.subject, r.judged from control_rates r
join unnest(:scopes::text[], :subjects::text[]) t (scope, subject) on r.scope = t.scope and r.subject = t.subject
where r.organization_id = :organization_id;

-- name: keep_refusal(organization_id, account_id, receipt_id, intent_id, seq, receipt)!
-- Numbered and chained under the account's lock, which this takes where it is not held yet.
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

-- name: set_deadline(organization_id, account_id, action_id, deadline)!
update action_states set deadline = :deadline
where organization_id = :organization_id and account_id = :account_id and action_id = :action_id;
