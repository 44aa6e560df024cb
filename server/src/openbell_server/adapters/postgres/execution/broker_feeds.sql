-- name: used_brokers_across_organizations(brokers)
select b.broker from unnest(:brokers::text[]) b (broker)
where exists (select 1 from accounts a where a.broker = b.broker);

-- name: report_feed(executor_id, broker, connected, compared, signing_in)!
-- Only for a registered executor. Accounts are stored as hashes, so that a reader recognizes only its own.
insert into broker_feeds (executor_id, broker, connected, compared, signing_in, reported_at)
select executor_id, :broker, :connected, :compared::smallint[],
    array(select hashtextextended(t.account_id::text, 0) from unnest(:signing_in::uuid[]) t (account_id)),
    clock_timestamp()
from executors where executor_id = :executor_id
on conflict (executor_id, broker) do update
set connected = excluded.connected, compared = excluded.compared, signing_in = excluded.signing_in,
    reported_at = excluded.reported_at;

-- name: report_silent_accounts(executor_id, broker, mute)!
-- The accounts whose feed did not report an expected event.
update broker_feeds set mute = array(select hashtextextended(t.account_id::text, 0) from unnest(:mute::uuid[]) t (account_id))
where executor_id = :executor_id and broker = :broker;
