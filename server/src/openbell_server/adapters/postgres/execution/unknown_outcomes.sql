-- part: is_stuck_or_to_flag
(
    (state = 'DISPATCHING' and send_started_at < clock_timestamp() - make_interval(secs => :stuck_after_seconds))
    or (
        state = 'UNKNOWN' and flagged_at is null
        and unknown_since < clock_timestamp() - make_interval(secs => :flag_after_seconds)
    )
)

-- name: flag_action(organization_id, account_id, action_id)$
update action_states set flagged_at = clock_timestamp(), updated_at = clock_timestamp()
where organization_id = :organization_id and account_id = :account_id and action_id = :action_id and flagged_at is null
returning flagged_at;

-- name: accounts_to_flag_across_organizations(slots, stuck_after_seconds, flag_after_seconds)
select distinct account_id from action_states
where settled_at is null and slot = any(:slots::smallint[])
    and {is_stuck_or_to_flag}
limit 1000;

-- name: to_flag(organization_id, account_id, stuck_after_seconds, flag_after_seconds, row_limit)
select * from tracked_actions
where organization_id = :organization_id and account_id = :account_id and settled_at is null
    and {is_stuck_or_to_flag}
order by action_no
limit :row_limit;

-- name: count_repeat(organization_id, account_id, action_id)!
update action_states set resends = resends + 1
where organization_id = :organization_id and account_id = :account_id and action_id = :action_id;

-- name: door_facts(organization_id, account_id, action_id)^
-- The facts for the check at the door, of one action that has passed it before.
select clock_timestamp() as now, s.queued_at, s.deadline,
    i.principal_type, i.principal_id, a.environment, o.control_epoch as organization_epoch,
    c.control_epoch as account_epoch, o.disabled as organization_disabled, a.disabled as account_disabled,
    exists (
        select 1 from api_keys k
        where k.organization_id = :organization_id and k.revoked_at is not null and i.principal_type = 'API_KEY'
            and k.api_key_id::text = i.principal_id
    ) as principal_revoked
from action_states s
join intent_actions i on i.organization_id = s.organization_id and i.account_id = s.account_id
    and i.intent_id = s.intent_id and i.seq = s.seq
join organizations o on o.organization_id = s.organization_id
join accounts a on a.organization_id = s.organization_id and a.account_id = s.account_id
join account_counters c on c.organization_id = s.organization_id and c.account_id = s.account_id
where s.organization_id = :organization_id and s.account_id = :account_id and s.action_id = :action_id;

-- name: record_resend(organization_id, account_id, action_id, attempt_before, attempt_id)$
-- Records one more send of an UNKNOWN action. Only the executor that knows the last attempt may record it.
update action_states
set resends = resends + 1, attempt_id = :attempt_id, send_started_at = clock_timestamp(), updated_at = clock_timestamp()
where organization_id = :organization_id and account_id = :account_id and action_id = :action_id and state = 'UNKNOWN'
    and attempt_id = :attempt_before
returning send_started_at;
