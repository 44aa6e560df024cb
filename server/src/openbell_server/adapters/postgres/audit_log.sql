-- part: entries
select l.entry_no, l.hash, {fields}
from audit_log l
where l.organization_id = :organization_id and l.entry_no > :after and l.entry_no <= :last
    and (:of_operation::text is null or l.operation = :of_operation)
    and (:of_principal::text is null or l.principal_id = :of_principal)

-- part: fields
array[
    l.audit_id::text, to_char(l.occurred_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), l.login,
    l.principal_type, l.principal_id, l.operation, l.object_id, l.before, l.after
] as fields

-- name: append_to_audit_log(organization_id, audit_id, principal_type, principal_id, operation, object_id, fact_before, fact_after)!
insert into audit_log (organization_id, audit_id, principal_type, principal_id, operation, object_id, before, after)
values (:organization_id, :audit_id, :principal_type, :principal_id, :operation, :object_id, :fact_before, :fact_after);

-- name: chained_entries_across_organizations(organization_id)
-- Of one organization or of all, with the head of each; an organization without entries has one row. Calls no function of
-- ours: a restored copy is checked with it.
select organization_id, h.entry_no as head_no, h.chain_head, l.entry_no, l.hash, {fields}
from audit_heads h
full join audit_log l using (organization_id)
where :organization_id::uuid is null or organization_id = :organization_id
order by organization_id, l.entry_no;

-- name: oldest_entries(organization_id, after, last, of_operation, of_principal, row_limit)
-- The caller bounds the numbers, because rows that do not match are read too.
{entries}
order by l.entry_no limit :row_limit;

-- name: newest_entries(organization_id, after, last, of_operation, of_principal, row_limit)
{entries}
order by l.entry_no desc limit :row_limit;

-- name: first_entry_since(organization_id, moment)$
-- The number of the first entry at or after the moment, or without a moment the next free number. Numbers have
-- no gaps and times increase with them, so a binary search finds it. Null if there is no entry.
with recursive halving (low, high) as (
    (
        select case when :moment::timestamptz is null then l.entry_no + 1 else 1 end, l.entry_no + 1
        from audit_log l where l.organization_id = :organization_id
        order by l.entry_no desc limit 1
    )
    union all
    select case when m.is_before then m.entry_no + 1 else h.low end,
        case when m.is_before then h.high else m.entry_no end
    from (select low, high, (low + high) / 2 as middle from halving where low < high offset 0) h
    cross join lateral (
        select l.entry_no, l.occurred_at < :moment as is_before
        from audit_log l
        where l.organization_id = :organization_id and l.entry_no = h.middle
        offset 0
    ) m
)
select low from halving where low = high;
