-- name: has_accounts_across_organizations(broker)$
select exists (select 1 from accounts where broker = :broker);

-- name: tell_feed(executor_id, broker, connected, compared, signing_in)!
-- Of an executor that counts as one of the living. Accounts go by hashes: whoever reads the row learns of its own only.
insert into broker_feeds (executor_id, broker, connected, compared, signing_in, told_at)
select executor_id, :broker, :connected, :compared::smallint[],
    array(select hashtextextended(t.account_id::text, 0) from unnest(:signing_in::uuid[]) t (account_id)),
    clock_timestamp()
from executors where executor_id = :executor_id
on conflict (executor_id, broker) do update
set connected = excluded.connected, compared = excluded.compared, signing_in = excluded.signing_in,
    told_at = excluded.told_at;

-- name: tell_mute(executor_id, broker, mute)!
-- Of which accounts the feed was silent when it had to speak.
update broker_feeds set mute = array(select hashtextextended(t.account_id::text, 0) from unnest(:mute::uuid[]) t (account_id))
where executor_id = :executor_id and broker = :broker;
