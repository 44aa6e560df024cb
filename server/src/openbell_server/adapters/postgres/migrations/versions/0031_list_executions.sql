-- outside a transaction
-- Lists show executions in the order they were recorded: without it, every page would read and sort all of an account's.
drop index concurrently if exists openbell.executions_recorded;
create index concurrently executions_recorded on openbell.executions (account_id, recorded_at, execution_id);
