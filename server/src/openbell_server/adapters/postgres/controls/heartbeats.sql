-- part: promise
scope, subject, of_account, timeout_seconds, cancel_working, required, status, armed_at, last_beat_at, expires_at,
    principal_type, principal_id

-- name: renew_heartbeat(organization_id, scope, of_whom, timeout_seconds, cancel_working, is_own)^
-- Renews an armed promise in time, if the terms stay the same; returns no row otherwise. A statement that waited for the row
-- compares the row as it is then.
update heartbeats
set last_beat_at = greatest(last_beat_at, t.now),
    expires_at = greatest(expires_at, t.now + make_interval(secs => heartbeats.timeout_seconds))
from clock_timestamp() t (now)
where organization_id = :organization_id and scope = :scope and subject = :of_whom and status = 'ARMED'
    and expires_at > t.now and timeout_seconds = :timeout_seconds and cancel_working = :cancel_working
    and (required or :is_own)
returning {promise};

-- name: lock_heartbeat(organization_id, scope, of_whom)^
select {promise}, status = 'ARMED' and expires_at <= clock_timestamp() as is_late
from heartbeats
where organization_id = :organization_id and scope = :scope and subject = :of_whom
for no key update;

-- name: add_heartbeat(organization_id, scope, of_whom, account_id, timeout_seconds, cancel_working, required, principal_type, principal_id)^
-- Returns no row if another caller has just added it.
insert into heartbeats (
    organization_id, scope, subject, of_account, timeout_seconds, cancel_working, required, status, armed_at,
    last_beat_at, expires_at, principal_type, principal_id
)
select :organization_id, :scope, :of_whom, :account_id::uuid, :timeout_seconds::integer, :cancel_working, :required,
    'ARMED', t.now, t.now, t.now + make_interval(secs => :timeout_seconds::integer), :principal_type, :principal_id
from clock_timestamp() t (now)
on conflict do nothing
returning {promise};

-- name: arm_heartbeat(organization_id, scope, of_whom, timeout_seconds, cancel_working, required, principal_type, principal_id)^
-- Under the row's lock.
update heartbeats
set timeout_seconds = :timeout_seconds::integer, cancel_working = :cancel_working, required = :required,
    status = 'ARMED', armed_at = case when status = 'ARMED' then armed_at else t.now end, last_beat_at = t.now,
    expires_at = t.now + make_interval(secs => :timeout_seconds::integer), principal_type = :principal_type,
    principal_id = :principal_id
from clock_timestamp() t (now)
where organization_id = :organization_id and scope = :scope and subject = :of_whom
returning {promise};

-- name: remove_heartbeat(organization_id, scope, of_whom)!
delete from heartbeats where organization_id = :organization_id and scope = :scope and subject = :of_whom;

-- name: list_heartbeats(organization_id, scope, account_id, of_whom, environment, account_ids, own_key, after_number, row_limit)
-- Values that are null do not filter. A caller of one environment does not see accounts and keys of the other, a key that is
-- limited to accounts no other account and no other key.
select h.number, h.scope, h.subject, h.of_account, h.timeout_seconds, h.cancel_working, h.required, h.status, h.armed_at,
    h.last_beat_at, h.expires_at, h.principal_type, h.principal_id
from heartbeats h
left join accounts a on a.organization_id = h.organization_id and a.account_id = h.of_account
left join api_keys k on h.scope = 'KEY' and k.organization_id = h.organization_id and k.api_key_id::text = h.subject
where h.organization_id = :organization_id and h.number > :after_number
    and (:scope::text is null or h.scope = :scope)
    and (:account_id::uuid is null or h.of_account = :account_id)
    and (:of_whom::text is null or h.subject = :of_whom)
    and (:environment::text is null or coalesce(a.environment, k.environment, :environment) = :environment)
    and (:account_ids::uuid[] is null or h.of_account = any(:account_ids::uuid[])
        or (h.scope = 'KEY' and h.subject = :own_key))
order by h.number limit :row_limit;

-- name: heartbeats_missed_across_organizations(row_limit)
-- In a random order, so that an organization whose doors hang cannot block the others.
select h.organization_id, h.scope, h.subject, h.of_account
from clock_timestamp() t (now)
join heartbeats h on h.status = 'ARMED' and h.expires_at <= t.now
order by random()
limit :row_limit;

-- name: lock_missed_heartbeat(organization_id, scope, of_whom)^
-- Returns no row if it was renewed meanwhile, or if another process is about to expire or renew it.
select {promise} from heartbeats
where organization_id = :organization_id and scope = :scope and subject = :of_whom and status = 'ARMED'
    and expires_at <= clock_timestamp()
for no key update skip locked;

-- name: expire_heartbeat(organization_id, scope, of_whom)^
-- Under the row's lock.
update heartbeats set status = 'EXPIRED'
where organization_id = :organization_id and scope = :scope and subject = :of_whom
returning {promise};
