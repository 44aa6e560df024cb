-- part: unless_late
on conflict (organization_id, process_id) do update
set streams = case when c.write_no < excluded.write_no then excluded.streams else c.streams end,
    write_no = greatest(c.write_no, excluded.write_no), renewed_at = excluded.renewed_at

-- name: lock_stream_counts(whose)^
-- Streams of an organization are opened one at a time, so that raise_count adds up all earlier ones.
select pg_advisory_xact_lock(hashtextextended(:whose::uuid::text, 3));

-- name: raise_count(organization_id, process_id, streams, streams_max, write_no, stale_seconds)$
-- No value: with the streams of the other processes there would be more than streams_max. Numbers that are not renewed
-- belong to processes that were killed.
with ended as (
    delete from stream_counts
    where organization_id = :organization_id and process_id <> :process_id
        and renewed_at < clock_timestamp() - make_interval(secs => :stale_seconds)
)
insert into stream_counts as c (organization_id, process_id, streams, write_no, renewed_at)
select :organization_id, :process_id::uuid, :streams::integer, :write_no, clock_timestamp()
where :streams + (
    select coalesce(sum(streams), 0) from stream_counts
    where organization_id = :organization_id and process_id <> :process_id
        and renewed_at >= clock_timestamp() - make_interval(secs => :stale_seconds)
) <= :streams_max
{unless_late}
returning c.streams;

-- name: renew_counts_across_organizations(process_id, organization_ids, open_streams, write_no)!
insert into stream_counts as c (organization_id, process_id, streams, write_no, renewed_at)
select n.organization_id, :process_id::uuid, n.streams, :write_no, clock_timestamp()
from unnest(:organization_ids::uuid[], :open_streams::integer[]) as n (organization_id, streams)
join organizations o on o.organization_id = n.organization_id
order by n.organization_id
{unless_late};
