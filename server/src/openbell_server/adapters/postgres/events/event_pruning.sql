-- name: prune_events_across_organizations(after_account_id, keep_seconds, row_limit)^
select pruned_account_id, pruned_rows from prune_events(:after_account_id, :keep_seconds, :row_limit);
