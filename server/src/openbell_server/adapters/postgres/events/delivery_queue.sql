-- name: add_lanes_across_organizations(row_limit)
-- An account without a queue was created after the webhook: all of its events are sent.
insert into webhook_lanes (organization_id, webhook_id, account_id, position, next_attempt_at, updated_at)
select w.organization_id, w.webhook_id, a.account_id, 0, t.now, t.now
from webhooks w
cross join clock_timestamp() t (now)
join accounts a on a.organization_id = w.organization_id
    and (w.account_ids is null or a.account_id = any(w.account_ids))
    and (w.environment is null or a.environment = w.environment)
where not exists (
    select from webhook_lanes l
    where l.organization_id = w.organization_id and l.webhook_id = w.webhook_id and l.account_id = a.account_id
)
limit :row_limit
on conflict do nothing
returning account_id;

-- name: has_lanes_across_organizations()$
select exists (select from webhook_lanes);

-- name: claim_across_organizations(row_limit, failing_limit, webhook_lanes_max, webhook_failing_max, organization_lanes_max, organization_failing_max, lease_seconds)
-- Claims queues that are behind and due. The number of claimed queues is limited per webhook and per organization, with
-- lower limits for queues whose last try failed. Every organization gets its first queue before another gets its second.
-- It reads every row, some 500 buffers for 10,000: only the counters show which queues are behind, and an index on columns
-- that each delivery changes would cost more than it saves here.
with held as materialized (
    select organization_id, webhook_id, failures > 0 as is_failing, count(*) as lanes
    from webhook_lanes where claimed_until > clock_timestamp()
    group by organization_id, webhook_id, failures > 0
),
due as (
    select l.organization_id, l.webhook_id, l.account_id, l.next_attempt_at, l.failures > 0 as is_failing,
        c.event_no as head
    from webhook_lanes l
    join webhooks w on w.organization_id = l.organization_id and w.webhook_id = l.webhook_id and w.status = 'ACTIVE'
    join organizations o on o.organization_id = l.organization_id and not o.disabled
    join accounts a on a.organization_id = l.organization_id and a.account_id = l.account_id
        and (w.account_ids is null or a.account_id = any(w.account_ids))
        and (w.environment is null or a.environment = w.environment)
    join account_counters c on c.organization_id = l.organization_id and c.account_id = l.account_id
        and c.event_no > l.position
    where l.parked_at is null and l.next_attempt_at <= clock_timestamp()
        and (l.claimed_until is null or l.claimed_until <= clock_timestamp())
),
of_webhook as (
    select d.*, coalesce(h.lanes, 0) + row_number() over (
        partition by d.organization_id, d.webhook_id, d.is_failing order by d.next_attempt_at, d.account_id
    ) as place
    from due d
    left join held h on h.organization_id = d.organization_id and h.webhook_id = d.webhook_id
        and h.is_failing = d.is_failing
),
of_organization as (
    select d.*, coalesce(h.lanes, 0) + row_number() over (
        partition by d.organization_id, d.is_failing order by d.place, d.next_attempt_at, d.account_id
    ) as turn
    from of_webhook d
    left join (
        select organization_id, is_failing, sum(lanes) as lanes from held group by organization_id, is_failing
    ) h on h.organization_id = d.organization_id and h.is_failing = d.is_failing
    where d.place <= case when d.is_failing then :webhook_failing_max::integer else :webhook_lanes_max::integer end
),
ordered as (
    select d.*, row_number() over (partition by d.is_failing order by d.turn, d.next_attempt_at, d.account_id) as rank
    from of_organization d
    where d.turn <= case
        when d.is_failing then :organization_failing_max::integer else :organization_lanes_max::integer
    end
),
chosen as materialized (
    select l.organization_id, l.webhook_id, l.account_id, d.head
    from ordered d
    join webhook_lanes l
        on l.organization_id = d.organization_id and l.webhook_id = d.webhook_id and l.account_id = d.account_id
    where (not d.is_failing or d.rank <= :failing_limit) and l.parked_at is null
        and l.next_attempt_at <= clock_timestamp()
        and (l.claimed_until is null or l.claimed_until <= clock_timestamp())
    order by d.is_failing, d.rank
    limit :row_limit
    for update of l skip locked
)
update webhook_lanes l
set claim_token = gen_random_uuid(), claimed_until = clock_timestamp() + make_interval(secs => :lease_seconds)
from chosen d
where l.organization_id = d.organization_id and l.webhook_id = d.webhook_id and l.account_id = d.account_id
returning l.organization_id, l.webhook_id, l.account_id, l.claim_token, l.position, l.previous, l.failures, d.head;

-- name: save_lane(organization_id, webhook_id, account_id, lane_token, lane_position, sent_seq, answered, message_id, duration_millis, lease_seconds)^
-- Only the holder of the claim may save; with a status, one more event was delivered. Returns the destination of the next
-- event, or no row if nothing may be sent any more.
with saved as (
    update webhook_lanes
    set position = :lane_position, previous = :sent_seq, delivered = delivered + (:answered::integer is not null)::integer,
        failures = case when :answered::integer is null then failures else 0 end,
        failing_since = case when :answered::integer is null then failing_since end,
        last_error = case when :answered::integer is null then last_error end,
        last_status = coalesce(:answered::integer, last_status),
        claimed_until = clock_timestamp() + make_interval(secs => :lease_seconds), updated_at = clock_timestamp()
    where organization_id = :organization_id and webhook_id = :webhook_id and account_id = :account_id
        and claim_token = :lane_token
    returning account_id
),
recorded as (
    insert into webhook_attempts (
        organization_id, webhook_id, account_id, account_seq, message_id, duration_millis, status
    )
    select :organization_id, :webhook_id, s.account_id, :sent_seq, :message_id::text, :duration_millis::integer, :answered
    from saved s where :answered::integer is not null
)
select w.url, w.kinds, w.secret_version, coalesce(w.previous_secret_until > clock_timestamp(), false) as signs_by_both
from saved s
join accounts a on a.organization_id = :organization_id and a.account_id = s.account_id
join webhooks w on w.organization_id = a.organization_id and w.webhook_id = :webhook_id and w.status = 'ACTIVE'
    and (w.account_ids is null or a.account_id = any(w.account_ids))
    and (w.environment is null or a.environment = w.environment)
join organizations o on o.organization_id = a.organization_id and not o.disabled;

-- name: release_lane(organization_id, webhook_id, account_id, lane_token)!
update webhook_lanes
set claimed_until = null, claim_token = null, next_attempt_at = clock_timestamp()
where organization_id = :organization_id and webhook_id = :webhook_id and account_id = :account_id
    and claim_token = :lane_token;

-- name: fail_lane(organization_id, webhook_id, account_id, lane_token, sent_seq, message_id, duration_millis, last_status, trouble, last_error, pause_seconds, park_seconds)$
with failed as (
    update webhook_lanes
    set failures = failures + 1, failing_since = coalesce(failing_since, clock_timestamp()),
        last_status = :last_status::integer, last_error = :last_error::text,
        next_attempt_at = clock_timestamp() + make_interval(secs => :pause_seconds),
        parked_at = case
            when failing_since <= clock_timestamp() - make_interval(secs => :park_seconds) then clock_timestamp()
        end,
        claimed_until = null, claim_token = null, updated_at = clock_timestamp()
    where organization_id = :organization_id and webhook_id = :webhook_id and account_id = :account_id
        and claim_token = :lane_token
    returning parked_at, next_attempt_at
),
recorded as (
    insert into webhook_attempts (
        organization_id, webhook_id, account_id, account_seq, message_id, duration_millis, status, error, message,
        next_attempt_at
    )
    select :organization_id, :webhook_id, :account_id, :sent_seq, :message_id, :duration_millis, :last_status, :trouble,
        :last_error, case when f.parked_at is null then f.next_attempt_at end
    from failed f
)
select parked_at is not null from failed;

-- name: end_webhook(organization_id, webhook_id, account_id, lane_token, sent_seq, message_id, duration_millis, last_status, trouble, lane_url)!
-- The webhook ends only if its URL is still the one that answered 410.
with released as (
    update webhook_lanes
    set last_status = :last_status, last_error = 'it answered 410: nobody is there any more', claimed_until = null,
        claim_token = null, next_attempt_at = clock_timestamp(), updated_at = clock_timestamp()
    where organization_id = :organization_id and webhook_id = :webhook_id and account_id = :account_id
        and claim_token = :lane_token
    returning webhook_id, last_error
),
recorded as (
    insert into webhook_attempts (
        organization_id, webhook_id, account_id, account_seq, message_id, duration_millis, status, error, message
    )
    select :organization_id, :webhook_id, :account_id, :sent_seq, :message_id, :duration_millis, :last_status, :trouble,
        r.last_error
    from released r
)
update webhooks w set status = 'GONE', version = w.version + 1, updated_at = clock_timestamp()
from released r
where w.organization_id = :organization_id and w.webhook_id = r.webhook_id and w.url = :lane_url and w.status = 'ACTIVE';

-- name: count_lanes_across_organizations()^
-- Queues with events to send, and queues on which tries have ended.
select count(*) filter (where l.parked_at is null and w.status = 'ACTIVE' and c.event_no > l.position) as behind,
    count(*) filter (where l.parked_at is not null) as parked
from webhook_lanes l
join webhooks w on w.organization_id = l.organization_id and w.webhook_id = l.webhook_id
join account_counters c on c.organization_id = l.organization_id and c.account_id = l.account_id;

-- name: prune_attempts_across_organizations(keep_seconds, row_limit)
-- Of each webhook at most row_limit; one whose oldest attempt is young costs one row.
delete from webhook_attempts a
using webhooks w
cross join lateral (
    select o.attempt_no, o.attempted_at from webhook_attempts o
    where o.organization_id = w.organization_id and o.webhook_id = w.webhook_id
    order by o.attempt_no limit 1
) oldest
cross join lateral (
    select o.attempt_no, o.attempted_at from webhook_attempts o
    where o.organization_id = w.organization_id and o.webhook_id = w.webhook_id and o.attempt_no >= oldest.attempt_no
        and oldest.attempted_at < clock_timestamp() - make_interval(secs => :keep_seconds)
    order by o.attempt_no limit :row_limit
) old
where old.attempted_at < clock_timestamp() - make_interval(secs => :keep_seconds)
    and a.organization_id = w.organization_id and a.webhook_id = w.webhook_id and a.attempt_no = old.attempt_no
returning a.attempt_no;
