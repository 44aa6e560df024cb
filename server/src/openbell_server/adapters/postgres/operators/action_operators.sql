-- name: list_in_doubt_across_organizations(states, row_limit)
select s.organization_id, s.account_id, a.broker, s.action_id, s.intent_id, s.seq, s.action_type, s.state as status,
    s.send_started_at, s.unknown_since, s.flagged_at, 1 + s.resends as writes, jsonb_array_length(s.probes) as look_ups,
    extract(epoch from statement_timestamp() - coalesce(s.unknown_since, s.send_started_at))::double precision as age_seconds
from action_states s
join accounts a on a.organization_id = s.organization_id and a.account_id = s.account_id
where s.settled_at is null and s.state = any(:states::text[])
order by coalesce(s.unknown_since, s.send_started_at), s.action_id
limit :row_limit;

-- name: find_action_across_organizations(action_id)^
-- One look-up by key for each account: there is no index on the action id alone.
select a.organization_id, a.account_id, a.broker, a.slot, s.intent_id
from accounts a
cross join lateral (
    select intent_id from action_states where account_id = a.account_id and action_id = :action_id limit 1
) s;
