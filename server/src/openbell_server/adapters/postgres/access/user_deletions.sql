-- name: request_deletion(organization_id, provider, subject, hold_seconds)!
-- A repeated request changes nothing. The relay waits hold_seconds, while the API process tries the deletion itself.
insert into user_deletions (organization_id, provider, subject, available_at)
values (:organization_id, :provider, :subject, clock_timestamp() + make_interval(secs => :hold_seconds))
on conflict do nothing;

-- name: finish_deletion(organization_id, provider, subject)!
-- Several processes may learn that the provider deleted the user; only the first queues the event and denies the user.
with finished as (
    update user_deletions set finished_at = clock_timestamp()
    where organization_id = :organization_id and provider = :provider and subject = :subject and finished_at is null
    returning organization_id, provider, subject, requested_at, finished_at
),
denied as (
    insert into denied_users (provider, subject, reason)
    select provider, subject, 'deleted' from finished
    on conflict do nothing
)
insert into user_outbox (organization_id, event_type, payload, available_at, created_at)
select organization_id, 'user.deleted',
    json_build_object(
        'user_id', subject, 'external_id', subject, 'organization_id', organization_id, 'requested_at', requested_at
    )::text,
    finished_at, finished_at
from finished;

-- name: claim_deletions_across_organizations(provider, row_limit, hold_seconds, backoff_seconds_max)
-- Deletions that are due. The wait grows with every try, up to backoff_seconds_max; tries never end.
with due as materialized (
    select organization_id, subject from user_deletions
    where finished_at is null and available_at <= clock_timestamp() and provider = :provider
    order by available_at
    limit :row_limit
    for update skip locked
)
update user_deletions u
set attempts = u.attempts + 1,
    available_at = clock_timestamp()
        + make_interval(secs => greatest(:hold_seconds, least(:backoff_seconds_max, 2.0 ^ least(u.attempts, 10))))
from due where u.organization_id = due.organization_id and u.provider = :provider and u.subject = due.subject
returning u.organization_id, u.provider, u.subject, u.attempts;
