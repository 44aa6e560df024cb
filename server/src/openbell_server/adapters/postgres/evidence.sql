-- name: save_order_details(organization_id, account_id, order_id, triggered, terms_version, highest_quantity, busted_quantity, executions_changed, ended, ended_filled)!
-- What few orders have; the other facts are written with every change.
update orders
set triggered = :triggered, terms_version = :terms_version, highest_quantity = :highest_quantity,
    busted_quantity = :busted_quantity, executions_changed = :executions_changed, ended = :ended,
    ended_filled = :ended_filled, updated_at = clock_timestamp()
where organization_id = :organization_id and account_id = :account_id and order_id = :order_id;

-- name: flag_action(organization_id, account_id, action_id)$
update action_states set flagged_at = clock_timestamp(), updated_at = clock_timestamp()
where organization_id = :organization_id and account_id = :account_id and action_id = :action_id and flagged_at is null
returning flagged_at;

-- name: accounts_to_flag_across_organizations(slots, stuck_after_seconds, flag_after_seconds)
select distinct account_id from action_states
where settled_at is null and slot = any(:slots::smallint[])
    and (
        (state = 'DISPATCHING' and send_started_at < clock_timestamp() - make_interval(secs => :stuck_after_seconds))
        or (
            state = 'UNKNOWN' and flagged_at is null
            and unknown_since < clock_timestamp() - make_interval(secs => :flag_after_seconds)
        )
    )
limit 1000;

-- name: to_flag(organization_id, account_id, stuck_after_seconds, flag_after_seconds, row_limit)
select * from tracked_actions
where organization_id = :organization_id and account_id = :account_id and settled_at is null
    and (
        (state = 'DISPATCHING' and send_started_at < clock_timestamp() - make_interval(secs => :stuck_after_seconds))
        or (
            state = 'UNKNOWN' and flagged_at is null
            and unknown_since < clock_timestamp() - make_interval(secs => :flag_after_seconds)
        )
    )
order by action_no
limit :row_limit;

-- name: count_repeat(organization_id, account_id, action_id)!
update action_states set resends = resends + 1
where organization_id = :organization_id and account_id = :account_id and action_id = :action_id;

-- name: door_facts(organization_id, account_id, action_id)^
-- What the door judges by, of one action that has passed it before.
select clock_timestamp() as now, s.queued_at, (to_jsonb(s) ->> 'deadline')::timestamptz as deadline,
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
-- One more write of an action in doubt: only who has its last attempt in hand counts another. Its look-ups begin anew.
update action_states
set resends = resends + 1, attempt_id = :attempt_id, send_started_at = clock_timestamp(), updated_at = clock_timestamp()
where organization_id = :organization_id and account_id = :account_id and action_id = :action_id and state = 'UNKNOWN'
    and attempt_id = :attempt_before
returning send_started_at;

-- name: intents_of_broker_orders(organization_id, account_id, broker_order_ids)
select t.broker_order_id, o.order_id as intent_id from orders o
cross join lateral unnest(o.broker_order_ids) t (broker_order_id)
where o.organization_id = :organization_id and o.account_id = :account_id
    -- What the index is of.
    and o.broker_order_ids <> '{}'
    and o.broker_order_ids && :broker_order_ids::text[] and t.broker_order_id = any(:broker_order_ids::text[]);

-- name: add_execution_changes(organization_id, account_id, order_id, execution_ids, revisions, quantities, prices)!
insert into execution_changes (
    organization_id, account_id, execution_id, revision, order_id, quantity, price, recorded_at
)
select :organization_id::uuid, :account_id::uuid, t.execution_id, t.revision, :order_id::uuid, t.quantity, t.price,
    clock_timestamp()
from unnest(:execution_ids::text[], :revisions::integer[], :quantities::numeric[], :prices::numeric[])
    t (execution_id, revision, quantity, price)
on conflict (account_id, execution_id, revision) do nothing;

-- name: executions_of_order(organization_id, account_id, order_id)
select execution_id, quantity, price, executed_at from executions
where organization_id = :organization_id and account_id = :account_id and order_id = :order_id
order by execution_id;

-- name: changes_of_order(organization_id, account_id, order_id)
select execution_id, revision, quantity, price from execution_changes
where organization_id = :organization_id and account_id = :account_id and order_id = :order_id
order by execution_id, revision;
