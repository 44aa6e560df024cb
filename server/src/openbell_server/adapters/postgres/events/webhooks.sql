-- name: lock_webhooks(whose)^
-- Webhooks of an organization are added one at a time, so that add_webhook counts all earlier ones.
select pg_advisory_xact_lock(hashtextextended(:whose::uuid::text, 2));

-- name: known_accounts(organization_id, environment, account_ids)
select account_id from accounts
where organization_id = :organization_id and environment = coalesce(:environment, environment)
    and account_id = any(:account_ids::uuid[]);

-- name: add_webhook(organization_id, webhook_id, url, description, kinds, account_ids, environment, principal_type, principal_id, webhooks_max)^
-- No row: the organization has webhooks_max webhooks.
insert into webhooks (
    organization_id, webhook_id, url, description, kinds, account_ids, environment, created_at, updated_at,
    principal_type, principal_id
)
select :organization_id, :webhook_id::uuid, :url, :description::text, :kinds::smallint[], :account_ids::uuid[],
    :environment::text, t.now, t.now, :principal_type, :principal_id
from clock_timestamp() t (now)
where (select count(*) from webhooks where organization_id = :organization_id) < :webhooks_max
returning *;

-- name: add_webhook_lanes(organization_id, webhook_id)!
-- One queue for each account that the webhook covers, from the next event on; existing queues do not change.
insert into webhook_lanes (organization_id, webhook_id, account_id, position, next_attempt_at, updated_at)
select w.organization_id, w.webhook_id, a.account_id, c.event_no, t.now, t.now
from webhooks w
cross join clock_timestamp() t (now)
join accounts a on a.organization_id = w.organization_id
    and (w.account_ids is null or a.account_id = any(w.account_ids))
    and (w.environment is null or a.environment = w.environment)
join account_counters c on c.organization_id = a.organization_id and c.account_id = a.account_id
where w.organization_id = :organization_id and w.webhook_id = :webhook_id
on conflict do nothing;

-- name: remove_webhook_lanes(organization_id, webhook_id)!
-- Queues of accounts that the webhook no longer covers.
delete from webhook_lanes l using webhooks w
where w.organization_id = :organization_id and w.webhook_id = :webhook_id and l.organization_id = w.organization_id
    and l.webhook_id = w.webhook_id and l.account_id <> all(w.account_ids);

-- name: list_webhooks(organization_id, webhook_id, environment)
-- One webhook, or all.
select w.*, count(l.account_id) as accounts,
    count(*) filter (where l.position < c.event_no) as behind,
    count(*) filter (where l.failing_since is not null and l.parked_at is null) as failing,
    count(*) filter (where l.parked_at is not null) as parked
from webhooks w
left join webhook_lanes l on l.organization_id = w.organization_id and l.webhook_id = w.webhook_id
left join account_counters c on c.organization_id = l.organization_id and c.account_id = l.account_id
where w.organization_id = :organization_id and w.webhook_id = coalesce(:webhook_id, w.webhook_id)
    and (:environment::text is null or w.environment = :environment)
group by w.organization_id, w.webhook_id
order by w.created_at, w.webhook_id;

-- name: lock_webhook(organization_id, webhook_id)^
select * from webhooks where organization_id = :organization_id and webhook_id = :webhook_id for no key update;

-- name: save_webhook(organization_id, webhook_id, url, description, kinds, account_ids, wanted_status)^
update webhooks
set url = :url, description = :description, kinds = :kinds, account_ids = :account_ids, status = :wanted_status,
    version = version + 1, updated_at = clock_timestamp()
where organization_id = :organization_id and webhook_id = :webhook_id
returning *;

-- name: rotate_webhook_secret(organization_id, webhook_id, overlap_seconds)^
update webhooks
set secret_version = secret_version + 1,
    previous_secret_until = t.now + make_interval(secs => :overlap_seconds), version = version + 1, updated_at = t.now
from clock_timestamp() t (now)
where organization_id = :organization_id and webhook_id = :webhook_id
returning webhooks.*;

-- name: remove_webhook(organization_id, webhook_id)!
delete from webhooks where organization_id = :organization_id and webhook_id = :webhook_id;

-- name: remove_webhook_attempts(organization_id, webhook_id)!
-- In a statement after remove_webhook, which waits for deliveries that are being recorded.
delete from webhook_attempts where organization_id = :organization_id and webhook_id = :webhook_id;

-- name: list_webhook_attempts(organization_id, webhook_id, before_no, row_limit)
select attempt_no, account_id, account_seq, message_id, attempted_at, duration_millis, status, error, message,
    next_attempt_at
from webhook_attempts
where organization_id = :organization_id and webhook_id = :webhook_id and attempt_no < :before_no
order by attempt_no desc limit :row_limit;

-- name: list_webhook_lanes(organization_id, webhook_id, parked, after, row_limit)
select (extract(epoch from a.created_at) * 1000000)::bigint as number, l.account_id, l.position, c.event_no as newest,
    l.failures, l.failing_since, l.next_attempt_at, l.parked_at, l.last_status, l.last_error, l.delivered
from webhook_lanes l
join accounts a on a.organization_id = l.organization_id and a.account_id = l.account_id
join account_counters c on c.organization_id = l.organization_id and c.account_id = l.account_id
where l.organization_id = :organization_id and l.webhook_id = :webhook_id
    and (l.parked_at is not null) = coalesce(:parked::boolean, l.parked_at is not null)
    and (extract(epoch from a.created_at) * 1000000)::bigint > :after
order by number limit :row_limit;

-- name: replay_webhook_lanes(organization_id, webhook_id, account_id, after_seq)
-- The current holder loses its claim, and saves no position after this.
update webhook_lanes l
set position = least(:after_seq::bigint, c.event_no), previous = null, failures = 0, failing_since = null,
    next_attempt_at = t.now, claimed_until = null, claim_token = null, parked_at = null, updated_at = t.now
from account_counters c cross join clock_timestamp() t (now)
where l.organization_id = :organization_id and l.webhook_id = :webhook_id
    and l.account_id = coalesce(:account_id, l.account_id)
    and c.organization_id = l.organization_id and c.account_id = l.account_id
returning l.account_id;

-- name: resume_webhook_lanes(organization_id, webhook_id)
-- Failing queues are tried again at once, with a new time limit before they are parked; claims stay valid.
update webhook_lanes l
set failures = 0, failing_since = null, next_attempt_at = t.now, parked_at = null, updated_at = t.now
from clock_timestamp() t (now)
where l.organization_id = :organization_id and l.webhook_id = :webhook_id
    and (l.failing_since is not null or l.parked_at is not null)
returning l.account_id;

-- name: retry_webhook_lanes_now(organization_id, webhook_id)!
-- After a change of the URL, waiting queues are tried now.
update webhook_lanes set next_attempt_at = clock_timestamp()
where organization_id = :organization_id and webhook_id = :webhook_id and parked_at is null;
