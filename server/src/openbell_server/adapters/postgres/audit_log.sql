-- name: append_to_audit_log(organization_id, audit_id, principal_type, principal_id, operation, object_id, fact_before, fact_after)!
insert into audit_log (organization_id, audit_id, principal_type, principal_id, operation, object_id, before, after)
values (:organization_id, :audit_id, :principal_type, :principal_id, :operation, :object_id, :fact_before, :fact_after);

-- name: chained_entries_across_organizations(organization_id)
-- Of one organization or of all, with the head of each; an organization without entries has one row. Calls no function of
-- ours: a restored copy is checked with it. The fields are those of the hash after organization and number, as text.
select organization_id, h.entry_no as head_no, h.chain_head, l.entry_no, l.hash,
    array[
        l.audit_id::text, to_char(l.occurred_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), l.login,
        l.principal_type, l.principal_id, l.operation, l.object_id, l.before, l.after
    ] as fields
from audit_heads h
full join audit_log l using (organization_id)
where :organization_id::uuid is null or organization_id = :organization_id
order by organization_id, l.entry_no;
