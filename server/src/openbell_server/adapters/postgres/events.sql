-- name: head(organization_id, account_id)$
select event_no from account_counters where organization_id = :organization_id and account_id = :account_id;

-- name: read_after(organization_id, account_id, after, row_limit)
-- An event without a body is an action just recorded: its words come from the action.
select e.event_no, e.kind, e.intent_id, e.seq, e.occurred_at,
    coalesce(e.body, json_build_object(
        'action_id', a.action_id, 'action_type', a.action_type, 'state', 'QUEUED', 'reason', null,
        'client_reference_id', a.client_reference_id
    )::text) as body
from account_events e
left join intent_actions a
    on e.body is null and a.organization_id = e.organization_id and a.account_id = e.account_id
    and a.intent_id = e.intent_id and a.seq = e.seq
where e.organization_id = :organization_id and e.account_id = :account_id and e.event_no > :after
order by e.event_no
limit :row_limit;
