-- name: lock_account(organization_id, account_id)^
-- The account's lock, in a separate statement: later statements see what its last holder committed.
select account_id from account_counters
where organization_id = :organization_id and account_id = :account_id
for no key update;

-- name: wait_for_openings(whose)^
-- Accounts are opened under this lock alone: one that is opened later sees what this transaction commits.
select pg_advisory_xact_lock_shared(hashtextextended(:whose::uuid::text, 1));

-- name: begin_epoch(organization_id, account_id)!
-- A command that was evaluated in an earlier epoch is not recorded; it is evaluated again.
update account_counters set control_epoch = control_epoch + 1
where organization_id = :organization_id and account_id = :account_id;

-- name: queue_account_event(organization_id, account_id, event_type, payload)!
insert into account_outbox (organization_id, account_id, event_type, payload, available_at, created_at)
select :organization_id, :account_id, :event_type, :payload, t.now, t.now from clock_timestamp() t (now);

-- name: append_account_changed(organization_id, account_id, changed, reason_code, broker_code, broker_text)!
-- The event of a changed account, built from what the transaction has written so far.
select append_change(
    a.organization_id, a.account_id, 3::smallint,
    json_build_object(
        'changed', :changed::text[], 'version', a.version, 'credential_status', a.credential_status,
        'expires_at', c.expires_at, 'reason', case when :reason_code::text is not null then json_build_object(
            'code', :reason_code::text, 'broker_code', :broker_code::text, 'broker_text', :broker_text::text
        ) end
    )::text
)
from accounts a
left join credentials c on c.organization_id = a.organization_id and c.account_id = a.account_id
where a.organization_id = :organization_id and a.account_id = :account_id;

-- name: append_control_changed(organization_id, account_id, body)!
select append_change(:organization_id, :account_id, 7::smallint, :body);
