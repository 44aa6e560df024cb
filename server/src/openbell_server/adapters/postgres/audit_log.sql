-- name: append_to_audit_log(organization_id, audit_id, principal_type, principal_id, operation, object_id, fact_before, fact_after)!
insert into audit_log (organization_id, audit_id, principal_type, principal_id, operation, object_id, before, after)
values (:organization_id, :audit_id, :principal_type, :principal_id, :operation, :object_id, :fact_before, :fact_after);
