-- name: count_across_organizations()
select status, event_type, count(*) as count, min(created_at) as oldest_created_at, max(attempts) as max_attempts,
    min(claimed_at) as oldest_claimed_at
from account_outbox
group by status, event_type
order by status, event_type;
